# SPDX-License-Identifier: MIT
"""Tests of all servers, from outside.

    http            the protocol: which answers and refusals (cases.txt), what is never sent
    pages           the guestbook, also in a browser; the log; a page that is added
    asking_redis    Redis that is down, false or slow, or that reaches its limit of clients
    limits          time, descriptors, memory, workers; calls that fail; the stop
    kinds           how the seven servers differ: their own claims; an eighth server

The modules of this folder are shared: a client, a started server, a Redis, sockets, timeouts.
"""
