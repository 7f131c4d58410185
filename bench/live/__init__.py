# SPDX-License-Identifier: MIT
"""The page /live: what the processes, threads and connections of servers wait for, from outside.

    tasks          processes and threads, each with the system call it sleeps in; the requests that
                   a server has counted
    waits          the connections and the accept queue; what connections and tasks wait for
    clients        visitors, silent clients, a burst, a slow Redis; all of them are limited
    verdict        what is seen, in a sentence
    look           puts these together twice a second, while a page is open
    web            the page, its events, its buttons; for this machine's own browsers only
    room           questions, the predictions of a room, and the page on which students predict; for
                   other machines too, if requested
    handler        the responses of both
    metrics        the same figures in the text format of Prometheus

The server need not cooperate. The kernel may let only the parent of a process read what the process
waits for (ptrace(2), "Yama"). So this runs in `zerohttpd serve`, which has started the server.
"""
