# SPDX-License-Identifier: MIT
"""A server's grade: what it can do, stage by stage, and by which fault it fails.

command     the command line; enters the sandbox
sandbox     namespaces and limits for programs of strangers
fence       what such a program may open
building    compiles the server, within these limits
faults      those that are known by name
stage       what a check is, and what came of it
waiting     how its threads wait
scene       what a check works with: a site, a Redis, a running server, clients
descriptors which descriptors a server has open
stages/     the checks: answering, holding, leaving, redis, ending, loading, racing; and their order
trying      one of them: tried again, and traced for a proof
proof       the lines of a trace that prove a fault
exam        all of them within a minute
show        in words
"""
