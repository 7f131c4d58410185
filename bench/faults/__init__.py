# SPDX-License-Identifier: MIT
"""Find the fault: classic defects of servers, each as a small patch of the sources.

copying       lists the faults with hints and explanations; copies the project with a fault; builds
              the changed servers of course/experiments/
command       runs `zerohttpd fault` (a copy with a fault, hints, renewed patches) and `zerohttpd
              student-copy` (an archive of the project without solutions and answers)
"""
