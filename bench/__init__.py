# SPDX-License-Identifier: MIT
"""The benchmark: sweeps the servers with Apache Bench and keeps what it saw.

A folder is a room, and imports run down this list, never up; `make lint` sees to it:

    cli                       the commands; each loads only what it needs
    deploy                    the way to other hosts and back
    measure                   what one request costs, against nginx, Go and the floors
    torture                   what visitors get while a server is attacked, and what is lost
    sweep     timeline        all runs in order; what a server does, call by call
    report                    the page: page -> charts -> findings -> study
    readers                   tables, charts, comparisons, capacity
    stations    doctor        what happens on a host; what the hosts allow, and its cure
    load  services  subjects  ab and oha; Redis and nginx; what is measured
    host                      processes, control groups, counters and limits of this host
    records                   what is stored

`report` and `readers` see `records` alone: somebody else's results can be read where nothing can
be measured. `timeline` draws what a server does, call by call. Beside the rooms lie strangers/
(declared programs of others) and figures/ (those that were published in 2019); the floors, the
barest program of each architecture, lie in the top folder.
"""
