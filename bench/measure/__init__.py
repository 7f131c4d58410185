"""Speed and memory: CPU microseconds per request, bytes per connection, system calls per request.

Started as `zerohttpd measure`. Where the sweep asks how many requests a second a server
answers at which concurrency, this asks what one request costs it, which depends far less on what
else the machine does: from the kernel's accounting, runs interleaved (A B A B ...), medians.

    running      a subject running; accounting: the CPU time of all its processes and threads
    load         ab, with and without keep-alive, and whether a run is a figure
    cost         interleaved runs of several subjects; comparisons: the parts made of them
    memory       many connections and what they cost in user memory; crowd: these connections
    many         15,000 connections at once; syscalls: system calls per request, seen by strace
    agreement    the same figure counted in three ways: by the sweep, the server, and here
    report       what is shown and kept
"""
