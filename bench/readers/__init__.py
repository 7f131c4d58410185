# SPDX-License-Identifier: MIT
"""Evaluate results: tables, rankings, comparisons, limits, costs, capacity. This package imports
only `bench.records`."""
