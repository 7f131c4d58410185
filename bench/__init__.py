# SPDX-License-Identifier: MIT
"""The benchmark: sweeps the servers with Apache Bench and keeps what it saw.

A folder is a room, and imports run down this list, never up; `make lint` sees to it:

    cli                       the commands; each loads only what it needs
    grade                     points for a server, and its faults by name; within limits
    faults                    copies with a fault in them, to be found
    deploy    book            the way to other hosts and back; the annotated source
    timeline  torture  live   a server call by call; under attack; watched while it runs
    sweep                     all runs in order; each from its start to its judgement
    stations  doctor          what happens on a host; what the hosts allow, and its cure
    peers                     studies: what others published, to be measured again
    load  services  subjects  ab, wrk and oha; Redis and nginx; what is measured
    host                      processes, control groups, counters and limits of this host
    report                    the page: page -> charts -> findings -> study
    readers                   tables, charts, comparisons, capacity, targets
    records                   what is stored

`report` and `readers` see `records` alone: somebody else's results can be read where nothing can
be measured. docs/extending.md adds a condition, a figure, a workload and a stranger. Beside the
rooms lie strangers/ (declared programs of others) and figures/ (those that were published in 2019);
the floors, the barest program of each architecture, lie in the top folder.
"""
