# SPDX-License-Identifier: MIT
"""The page /live: what a running server's processes and threads wait for, read from outside.

    tasks          its processes and threads, each with the system call it sleeps in; its
                   connections and accept queue; the requests that it has counted
    clients        visitors, silent clients, a burst, a slow Redis; each bounded, each can be undone
    look           puts these together twice a second, while a page is open
    web            the page, its events, its buttons; for this machine's own browsers only

The server is asked nothing and does nothing for it. Only its parent may look so closely (ptrace(2),
"Yama"), so this runs in `zerohttpd serve`, which has started it.
"""
