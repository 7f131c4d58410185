# SPDX-License-Identifier: MIT
"""Make four one-core hosts on one machine: `python -m lab up`. See docs/how-to/several-hosts.md.

A lab adds no named network namespace, network interface or mount to the machine. Its namespaces
exist as long as the processes in them. All its processes are in one PID namespace, whose first
process is the *keeper* (keeper.py). When the keeper ends, for any reason, the kernel ends every
host and removes its network, files and mounts. Only a folder in /run and control groups can remain;
both contain the lab's name (remains.py).
"""
