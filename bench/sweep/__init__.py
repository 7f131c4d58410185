# SPDX-License-Identifier: MIT
"""A sweep: plans the runs and makes them in order, each from server start to checks."""
