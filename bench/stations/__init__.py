# SPDX-License-Identifier: MIT
"""Run and observe servers on a host, in this process or through an agent on another host.

orders                the requests to an agent, and its replies
`station`, servers    the agent in this process; the servers that it runs
footprint, tracing, sampling, counting    what servers use: time and memory, calls, stacks
survey, versions      what is installed on a host
remote, wire, agent   the agent on another host
site, hosts           the testbed of a sweep; the file that names its hosts
"""
