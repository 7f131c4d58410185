# SPDX-License-Identifier: MIT
"""The page /live: what the processes, threads and connections of servers wait for, observed from
outside.

    tasks          processes and threads, each with the system call in which it sleeps; the
                   requests that a server has counted
    waits          the connections and the accept queue; what connections and tasks wait for
    clients        visitors, silent clients, a burst, a slow Redis; number and time are limited
    verdict        sentences that describe the observations
    look           collects the observations twice a second, while a page is open
    web            the page, its events, its buttons, its figures in the text format of Prometheus;
                   for this machine's own browsers only
    room           questions, predictions, and the page on which students predict; if requested,
                   also for browsers on other machines
    handler        the responses of `web` and `room`

The server need not cooperate. The kernel may let only the parent of a process read what the process
waits for (ptrace(2), "Yama"), so `zerohttpd serve`, which starts the server, also observes it.
"""
