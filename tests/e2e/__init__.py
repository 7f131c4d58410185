# SPDX-License-Identifier: MIT
"""All servers, from outside.

    http            the protocol: what is answered, what is refused, what is never sent
    pages           the guestbook, in a browser too; the log; a page that is added
    asking_redis    Redis that is down, false, slow, or has no client to spare
    limits          time, descriptors, memory, workers; calls that fail; the end
    kinds           how the seven differ: what each says of itself is tried; an eighth

What they share lies here: a client, a server that was started, a Redis, sockets, patience.
"""
