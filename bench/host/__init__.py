"""This host: its processes, control groups, counters, limits, programs."""
