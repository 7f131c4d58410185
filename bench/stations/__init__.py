# SPDX-License-Identifier: MIT
"""Run and observe servers: on this host in this process, on another host through an agent.

`station`             the agent in this process
agent                 the agent on another host, and the connection to it
footprint             CPU time, memory and processes of servers during a load
sampling              system calls and call stacks of servers during a load
survey                the hardware, limits, servers and versions of a host
site                  the testbed of a sweep, and the file that names its hosts
"""
