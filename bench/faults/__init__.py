# SPDX-License-Identifier: MIT
"""Find the fault: classic defects of servers, each as a small patch of the real source. The patches
of the experiments change how a server works.

copying       lists the faults with hints and explanations; copies the project with a fault; builds
              the changed servers of course/experiments/ next to the usual servers
command       `zerohttpd fault`, which can also renew a patch from an edited copy; `zerohttpd
              student-copy`: an archive of the project without solutions and answers
"""
