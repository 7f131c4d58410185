"""The benchmark: sweeps the servers with Apache Bench and keeps what it saw.

Started as `python -m bench SUBCOMMAND`: sweep, doctor, compare, serve. The modules, from what is
measured to what is shown:

    servers, subjects, declared       what can be measured: the project's servers, floors, strangers
    workloads, conditions, ladder     what it is asked for, beside what, which runs

    station                           what must happen near a server, Redis or nginx; made of:
    server_process, banner            a subject running, what it says
    redis_server, slow_redis          a Redis server of our own, a slow one before it
    balancer                          nginx before several instances of a server
    footprint, counters, quota        what servers used; what the kernel counts of the host
    agent, wire, remote, orders       a station on another host, and the words spoken with it
    hosts, site                       which hosts there are, all their stations together

    load, ab, ab_output, open_loop    the load: the generators, running them, reading them
    probe                             a first request, read with care
    beside, idle_holder               idle connections beside the load
    private_redis                     the data in Redis, and what it counted
    run_figures, bottleneck           the figures of a run; who was at the limit
    evidence, checks                  whether a run is a figure or a failure, in words
    cell                              one run from start to end

    limits, host_limits, system_limits, doctor   what the machines allow and what cures it
    time_wait                         room in the kernel for connections that have ended
    placement                         which CPU does what
    sweep, sweeper, options, announce all runs in order, what was asked for, the words before
    results, csv_rows, measurement    what is kept: results.json, results.csv
    json_file                         reading such a file, whoever wrote it
    machine                           what a result says about where it came from
    compare                           two results side by side
    capacity                          what many such hosts would carry
    estimate, table, display, chart   what is shown
    process, signals                  children that never outlive the run, Ctrl-C

bench.measure asks what one request costs, bench.report makes the page of a sweep's results,
bench.deploy brings all of it to other hosts and back.
"""
