# SPDX-License-Identifier: MIT
"""Grade a server stage by stage, and name and prove each fault.

command     the command line; enters the sandbox, and prints the grade
sandbox     namespaces, limits and users for untrusted programs
fence       the files that such a program may open (Landlock)
building    compiles the server, within these limits, and makes the files that it serves
faults      the faults that have a name; their texts are in faults.toml
stage       the results of checks and stages, findings, and the lines of a trace that prove them
scene       the files, the Redis, the running server and the clients of a check
inspection  how the server's threads wait, and which descriptors it has open
afterwards  what must be as before after each check, and the end of the server
trying      checks and stages: runs a check, repeats it and traces it for a proof
stages/     the checks: answering, bad_input, comparing, ending, holding, leaving, limits, loading,
            mixing, racing, redis, situations; and their order. The requests of comparing are in
            requests.txt, the situations in situations.toml
exam        runs all checks within a minute
cohort/     grades the submissions of a class
"""
