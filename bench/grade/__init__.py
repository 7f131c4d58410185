# SPDX-License-Identifier: MIT
"""Grade a server stage by stage, and name and prove each fault.

command     the command line; enters the sandbox
sandbox     namespaces and limits for untrusted programs
fence       the files that such a program may open (Landlock)
building    compiles the server, within these limits
faults      the faults that have a name, and their texts
check       the definition of a check and of a stage
stage       the results of checks and stages
waiting     how the server's threads wait
scene       what a check works with: files, a Redis, a running server, clients
descriptors which descriptors a server has open
stages/     the checks: answering, bad_input, ending, holding, leaving, limits, loading, mixing,
            racing, redis; and their order
trying      runs one check, repeats it and traces it for a proof
proof       the lines of a trace that prove a fault
exam        runs all checks within a minute
show        prints the grade as text
cohort/     grades the submissions of a class
"""
