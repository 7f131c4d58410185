# SPDX-License-Identifier: MIT
"""Evaluate results: tables, rankings, comparisons, targets, costs, capacity. This package imports
only `bench.records`."""
