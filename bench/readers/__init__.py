# SPDX-License-Identifier: MIT
"""Evaluates results: tables, rankings, comparisons, limits, costs, capacity. Imports only the
records."""
