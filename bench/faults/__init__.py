# SPDX-License-Identifier: MIT
"""Find the fault: classic defects of servers, each as a small patch of the real source. The patches
of the experiments change how a server works.

copying       the list of the faults, with hints and explanations; a copy of the project with a
              fault; course/experiments/: the changed servers, built next to the usual servers
command       `zerohttpd fault`, and the renewal of a patch from an edited copy; `zerohttpd
              student-copy`: an archive of the project without solutions and answers
"""
