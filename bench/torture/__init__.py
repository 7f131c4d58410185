# SPDX-License-Identifier: MIT
"""The robustness test: each server under attack by clients, or without what it needs.

The command is `zerohttpd torture`. Each configuration (one server, one attack) starts the server
anew. Well-behaved visitors send requests at a moderate rate before, during and after the attack.
Their responses show what was lost. The modules:

    attacks, scene            the table of attacks; the server, Redis and clients of an attack
    visitors                  a program: well-behaved clients; the pages, the check of a response
    crowd, liar               programs: attackers, a Redis with false replies
    line                      network namespaces, and a slow line between them
    options, beginning        the command line; the state before the first configuration
    cell, turns, command      one configuration; all in turn, and the terminal output; the command
"""
