# SPDX-License-Identifier: MIT
"""Find the fault: classic defects of servers, each a small patch of the real source; and what a
server could do otherwise, patches too.

catalogue     what course/faults/ says of each: complaint, hints, explanation, what it breaks
copying       a copy of the project with one of them in it, that gives no name away
give          `zerohttpd fault`, and the renewal of a patch from an edited copy
experiments   course/experiments/: the changed servers, built next to the usual ones
"""
