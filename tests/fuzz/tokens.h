/* SPDX-License-Identifier: MIT */
/* Texts that a script can choose with one byte. */
#pragma once

/* Parts of requests, and whole requests. */
static const char *const tokens[] = {
    "GET ",
    "HEAD ",
    "POST ",
    "OPTIONS ",
    "PUT ",
    "/guestbook",
    "/go/",
    "name",
    "/",
    "/redirect",
    "/files/characters.html",
    "/files/small.txt",
    "*",
    " HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    " HTTP/2.0\r\n",
    "Host: a\r\n",
    "\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "Content-Length: 26\r\n",
    "Content-Length: 70000\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "guest-name=A&guest-remarks",
    "1a\r\nguest-name=A&guest-remarks\r\n",
    "guest-name=A&guest-remarks=B+%E2%80%AE",
    "0\r\n\r\n",
    "ffff\r\n",
    "Content-Length: 38\r\n",
    "Range: bytes=1-2\r\n",
    "If-Match: *\r\n",
    "If-None-Match: W/\"a\"\r\n",
    "X: ",
    "%2e%2e/",
    "?",
    "\n",
    "If-None-Match: *\r\n",
    "If-Modified-Since: Sun, 06 Nov 2044 08:49:37 GMT\r\n",
    "Content-Type: application/x-www-form-urlencoded\r\n",
    "Content-Length: 3000\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /files/characters.html HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /guestbook HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /go/a HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /guestbook HTTP/1.1\r\nHost: a\r\nContent-Length: 28\r\n\r\n"
    "guest-name=A&guest-remarks=B",
    "POST /guestbook HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n"
    "guest-name=A",
    "POST /guestbook HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "1c\r\nguest-name=A&guest-remarks=B\r\n0\r\nX: y\r\n\r\n",
    "POST /guestbook HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
    "Content-Length: 28\r\n\r\n",
};
#define TOKENS (sizeof tokens / sizeof tokens[0])

/* False replies of Redis. */
static const char *const lies[] = {
    "",
    "-ERR no\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    ":-7\r\n",
    "+OK\r\n",
    "*1\r\n:1\r\n",
    "$1\r\na\r\n",
    "*2\r\n$1\r\n<\r\n$0\r\n\r\n",
    ":9223372036854775807\r\n",
    "$4\r\na\r\nb\r\n",
    "*1\r\n$3\r\n\xe2\x80\xae\r\n",
};
#define LIES (sizeof lies / sizeof lies[0])
