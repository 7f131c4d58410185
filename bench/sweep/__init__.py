# SPDX-License-Identifier: MIT
"""Plan the runs of a sweep, and make each run from server start to checks."""
