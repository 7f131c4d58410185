# SPDX-License-Identifier: MIT
"""Plan the runs of a sweep and make them in order, each from server start to checks."""
