# SPDX-License-Identifier: MIT
"""The torture: each server beside clients that do it no good, and with what it needs taken away.

Started as `zerohttpd torture`. For every cell (one server, one attack) the server is started
fresh, well-behaved visitors ask it at a modest rate before, during and after the attack, and all of
their answers are kept until it is known what was lost. The modules:

    attacks, scene            the attacks, declared in a table; what they work on, and with
    answers                   what is asked, and how a right answer is told
    visitors, crowd, liar     programs: those who are served, those who attack, a Redis that lies
    line                      namespaces, and a slow line in them
    options, beginning        what was asked for; what is known before the first cell
    cell, turns, command      one cell from start to end; all of them in turn; what is kept
    figures                   from answers to rates: arithmetic
    table                     what is shown; the record is in bench.records, its page in the report
"""
