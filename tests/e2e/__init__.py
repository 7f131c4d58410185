# SPDX-License-Identifier: MIT
"""Tests of all servers, from outside.

    http            the protocol: responses to valid and invalid requests (cases.txt), connections
    pages           the guestbook, also in a browser; the log
    asking_redis    a Redis that is down, false or slow, or at its limit of clients
    limits          timeouts, descriptors, memory, workers; failing calls; the end of a server
    kinds           the claims and costs of each server, its start and confinement; a new server

The modules of this folder are shared: a client, a started server, a Redis, sockets, timeouts.
"""
