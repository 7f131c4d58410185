# SPDX-License-Identifier: MIT
"""Grade a server stage by stage, and name and prove each fault.

command     reads the command line, enters the sandbox, runs all checks and prints the grade, within
            a minute (two without namespaces)
sandbox     makes namespaces, and limits untrusted programs (with root, also to users of their own)
fence       limits the files that an untrusted program may open (Landlock)
building    compiles the server in the sandbox, and makes the files that the server serves
findings    names the faults (texts in faults.toml), and stores results, findings and proofs
server      starts, stops and observes the graded server
scene       has the server, the Redis and the clients of a check
threads     reads the system calls in which the server's threads sleep, and counts their wake-ups
inspection  checks the descriptors, the state and the end of the server after each check
attempts    runs a check once, traces it for a proof, and names the cause of a failure
trying      runs all checks, repeats them after a failure, and judges the failures
stages/     has the checks, their order and their clients (requests.txt and situations.toml have the
            data of some checks)
cohort/     grades the submissions of a class
"""
