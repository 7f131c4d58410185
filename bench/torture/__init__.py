# SPDX-License-Identifier: MIT
"""The robustness test: clients attack each server, or the server loses Redis, processes or other
resources.

The command is `zerohttpd torture`. Each configuration (one server, one attack) starts the server
again. Well-behaved visitors send requests at a moderate rate before, during and after the attack.
The responses that they get show the effect of the attack. The modules:

    attacks           the table of attacks; the server, Redis and clients of an attack
    ground, options   the resources that all configurations share; the command line
    cell, command     one configuration; all configurations in turn, and the terminal output

Visitors and attackers are processes of `bench.load.crowd`; the Redis with false replies is
`bench.services.redis_proxy`.
"""
