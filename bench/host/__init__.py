# SPDX-License-Identifier: MIT
"""Access to this host: its processes, control groups, counters, limits and programs."""
