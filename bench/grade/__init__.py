# SPDX-License-Identifier: MIT
"""A server's grade: what it can do, stage by stage, and by which fault it fails.

command     the command line; enters the sandbox
sandbox     namespaces and limits for programs of strangers
fence       what such a program may open
building    compiles the server, within these limits
faults      those that are known by name
stage       what a check is, and what came of it
scene       what a check works with: a site, a Redis, a running server, clients
answering, holding, leaving, redis, ending, loading    the checks
exam        runs them, stops early, looks for a proof
show        in words
"""
