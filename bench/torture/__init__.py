# SPDX-License-Identifier: MIT
"""The robustness test: clients attack each server, or the server loses resources, such as Redis.

The command is `zerohttpd torture`. The server is started again for each configuration (one server,
one attack). Well-behaved visitors send requests at a moderate rate before, during and after the
attack. Their responses show the effect of the attack. The modules:

    attacks    has the table of attacks, and runs the server and the clients of an attack
    ground     has the resources that all configurations share
    cell       measures one configuration
    command    reads the command line, measures all configurations, and prints the results

Visitors and attackers are in `bench.load.crowd`, false replies in `bench.services.redis_proxy`.
"""
