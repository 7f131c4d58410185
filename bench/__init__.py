"""The benchmark: sweeps the servers with Apache Bench and keeps what it saw.

Started as `python -m bench SUBCOMMAND`: sweep, doctor, compare, serve. The modules, from what is
measured to what is shown:

    servers, subjects                 what can be measured: the project's servers, floors, strangers
    server_process, banner            one of them running, what it says
    workloads, conditions, ladder     what it is asked for, beside what, which runs
    private_redis                     a Redis server that lives as long as the run
    probe                             a first request, read with care
    ab, ab_output, open_loop          the load generators: running them, reading them
    beside, idle_holder, slow_redis   idle connections and a slow Redis beside the load
    footprint, counters               what the server used; what the kernel counts
    bottleneck                        who was at the limit
    limits, system_limits, doctor     what the machine allows and what cures it
    placement                         which CPU does what
    checks                            whether a run is a figure or a failure, in words
    cell, sweep                       one run from start to end, all of them in order
    results, measurement, machine     what is kept: results.json, results.csv
    compare                           two results side by side
    estimate, table, display, chart   what is shown
    process, signals                  children that never outlive the run, Ctrl-C

bench.measure asks what one request costs, bench.report makes the page of a sweep's results.
"""
