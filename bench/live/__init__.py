# SPDX-License-Identifier: MIT
"""The page /live shows what the processes, threads and connections of servers wait for.

    tasks          processes and threads, each with the system call in which it sleeps; the
                   requests that a server has counted
    waits          the connections and the accept queue; what connections and tasks wait for
    clients        visitors, silent clients, a burst, a slow Redis; number and time are limited
    verdict        sentences that describe the observations
    look           collects the observations at most twice a second, while a page is open
    web            the page with its events and buttons, and its figures for Prometheus; only for
                   browsers on this machine
    room           questions, predictions, and the page on which students predict; if requested,
                   also for browsers on other machines
    handler        the base classes of the web servers of `web` and `room`

The servers need no code for this. The kernel may allow only the parent of a process to read what
the process waits for (ptrace(2), "Yama"). So `zerohttpd serve` starts the servers and also observes
them.
"""
