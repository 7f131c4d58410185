# SPDX-License-Identifier: MIT
"""What happens on a host during a run, in this process or behind an agent on another host.

orders                what a station is asked for, and what it answers
station, servers      it itself; the servers that run on it
footprint, tracing, sampling, counting    what these use: time and memory, calls, stacks
survey, versions      what is on a host
remote, wire, agent   the same on another host
site, hosts           all stations of a sweep; the file that names them
"""
