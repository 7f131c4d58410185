# SPDX-License-Identifier: MIT
"""Evaluate results: tables, rankings, comparisons, targets, costs, capacity. Of this project, the
package imports only `bench.records`."""
