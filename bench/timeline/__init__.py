# SPDX-License-Identifier: MIT
"""The timeline: the system calls of a server of each architecture during eight requests.

    strace        has the data model of a trace; reads the output of strace(1)
    story         turns a trace into a picture that shows each call's client and reason to wait
    sentence      describes the clients' waits, computed from the calls
    scenarios     runs the clients
    record        runs a server under strace during a scenario
    page          writes the HTML page and the file for trace viewers

A trace shows the order of calls, not their speed, because strace stops each traced call twice.
"""
