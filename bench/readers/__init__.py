# SPDX-License-Identifier: MIT
"""Evaluates results: tables, charts, comparisons, capacity. Imports only the records."""
