# SPDX-License-Identifier: MIT
"""Make one-core hosts on one machine: `python -m lab up`. See docs/how-to/several-hosts.md.

A lab adds no named network namespace, interface or mount to the machine. A lab's namespaces
end with their last processes. All processes of a lab are in one PID namespace, whose first process
is the *keeper* (keeper.py). When the keeper ends, for any reason, the kernel ends all hosts and
removes the hosts' networks, files and mounts. Only a folder in /run and control groups can remain;
their names contain the lab's name (remains.py).
"""
