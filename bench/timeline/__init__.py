# SPDX-License-Identifier: MIT
"""The timeline: what each architecture does while eight requests are served, call by call.

    strace        reads what strace(1) wrote: calls, signals, ends
    story         from calls to a picture: who did what, who waited for whom
    recording     what a picture is made of (models only)
    scenarios     what the clients do
    record        runs a server under strace while a scenario is played to it
    picture       reads what was recorded
    page          one page of HTML, and the trace for Chrome's viewer

A trace shows shape and never speed: every call is stopped twice by the tracer.
"""
