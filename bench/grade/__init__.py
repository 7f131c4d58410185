# SPDX-License-Identifier: MIT
"""Grade a server stage by stage, and name and prove each fault.

command     reads the command line, enters the sandbox, runs all checks and prints the grade, within
            a minute (two without namespaces)
sandbox     runs untrusted programs with their own namespaces, limits and users
fence       limits the files that an untrusted program may open (Landlock)
building    compiles the server in the sandbox, and makes the files that the server serves
findings    names the faults (texts in faults.toml), and stores results, findings and proofs
server      starts, stops and observes the graded server
scene       has the server, the Redis and the clients of a check
threads     reads how the server's threads wait, and how often they wake up
inspection  checks the descriptors, the state and the end of the server after each check
attempts    runs a check once, traces it for a proof, and names the cause of a failure
trying      runs all checks, repeats them after a failure, and judges the failures
stages/     has the checks, their order and their clients (requests.txt and situations.toml have the
            data of some checks)
cohort/     grades the submissions of a class
"""
