# SPDX-License-Identifier: MIT
"""The page /live: what the processes, threads and connections of servers wait for, from outside.

    tasks          processes and threads, each with the system call it sleeps in; the requests that
                   a server has counted
    waits          for what each of them waits, in words
    connections    the connections and the accept queue, from the kernel's table of sockets
    clients        visitors, silent clients, a burst, a slow Redis; each bounded, each can be undone
    verdict        what is seen, in a sentence
    look           puts these together twice a second, while a page is open
    web            the page, its events, its buttons; for this machine's own browsers only
    room           questions, and the predictions of a room
    room_page      the page on which students predict; for other machines too, if asked for
    handler        the responses of both
    metrics        the same figures in the text format of Prometheus

The server need not cooperate. Only its parent may look so closely (ptrace(2),
"Yama"), so this runs in `zerohttpd serve`, which has started it.
"""
