# SPDX-License-Identifier: MIT
"""The page /live: what a running server's processes and threads wait for, read from outside.

    tasks          its processes and threads, each with the system call it sleeps in: from /proc
    sockets        its connections and its accept queue: from /proc
    counters       the requests it has counted, read in its memory
    clients        visitors, silent clients, a burst, a slow Redis; each bounded, each can be undone
    look           puts these together twice a second, while a page is open
    web            the page, its events, its buttons; for this machine's own browsers only

The server is asked nothing and does nothing for it. Only its parent may look so closely (ptrace(2),
"Yama"), so this runs in `zerohttpd serve`, which has started it.
"""
