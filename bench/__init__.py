# SPDX-License-Identifier: MIT
"""The benchmark: measures the servers with ab, wrk, oha and its own clients; stores the results.

A package imports only from packages below it in this list; `make lint` checks this:

    cli                       the commands; each imports only the modules that it needs
    grade                     points for a server and names of its faults, in a sandbox
    faults                    copies of the project with a fault to find
    deploy    book            a sweep over several hosts; annotated source, slides and sheets
    timeline  torture  live   a server's system calls; robustness test; live page
    sweep                     all runs in order; each from server start to checks
    stations  doctor          the agent on each host; limits of the hosts and fixes
    studies                   measurements and expectations, as TOML files
    load  services  subjects  load generators; Redis and nginx; servers under test
    host                      processes, control groups, counters and limits of this host
    report                    the page of the results, in layers (pyproject.toml)
    readers                   tables, charts, comparisons, capacity, targets
    records                    stored data

The last three packages import only each other, so results can be read on a computer that cannot
measure. docs/how-to/extend-the-benchmark.md shows how to add a condition, a figure, a workload and
a reference server. Two folders are not packages: references/ has the reference servers, figures/
has results published in 2019. The baselines, the minimal server of each architecture, are in the
top folder baselines/.
"""
