# SPDX-License-Identifier: MIT
"""Four one-core hosts on one machine: `python -m lab up`. docs/lab.md shows the picture.

Nothing of a lab has a name in the machine's own lists: no named network namespace, no link, no
mount. Its namespaces live as long as the processes in them, and all its processes live in one
process namespace, whose first process is the *keeper* (keeper.py). So when the keeper ends,
however it ends, the kernel ends every host, and their networks, files and mounts with them. What
can be left over is a folder in /run and control groups; both bear the lab's name (remains.py).
"""
