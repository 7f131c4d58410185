# SPDX-License-Identifier: MIT
"""The robustness test: each server under attack by clients, or without what it needs.

The command is `zerohttpd torture`. Each configuration (one server, one attack) starts the server
anew. Well-behaved visitors send requests at a moderate rate before, during and after the attack.
Their responses show what was lost. The modules:

    attacks, scene            the table of attacks; the server, Redis and clients of an attack
    answers                   the pages, and the check of a response
    visitors, crowd, liar     programs: well-behaved clients, attackers, a Redis with false replies
    line                      network namespaces, and a slow line between them
    options, beginning        the command line; the state before the first configuration
    cell, turns, command      one configuration; all configurations in turn; the whole command
    figures                   computes rates from responses
    table                     the terminal output (record: bench.records, page: bench.report)
"""
