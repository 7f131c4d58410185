# SPDX-License-Identifier: MIT
"""This host: its processes, control groups, counters, limits, programs."""
