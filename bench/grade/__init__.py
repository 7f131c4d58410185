# SPDX-License-Identifier: MIT
"""Grade a server stage by stage, and name and prove each fault.

command     the command line; enters the sandbox, runs all checks within a minute (two without
            namespaces), and prints the grade
sandbox     namespaces, limits and users for untrusted programs
fence       the files that such a program may open (Landlock)
building    compiles the server, within these limits, and makes the files that it serves
findings    the faults that have a name (faults.toml has their texts); the results of checks and
            stages; findings, and the lines of a trace that prove them
scene       the files, the Redis, the running server and the clients of a check
inspection  how the server's threads wait, and which descriptors are open; the state that the server
            must have after each check, and the end of the server
trying      checks and stages: runs a check, repeats it and traces it for a proof
stages/     the checks: answering, comparing, ending, leaving, loading, racing, redis, situations,
            timeouts; the clients of the checks; and the order of the checks. The requests of
            comparing are in requests.txt, the situations in situations.toml
cohort/     grades the submissions of a class
"""
