# SPDX-License-Identifier: MIT
"""What can be said of results: tables, charts, comparisons, capacity. Needs only the records."""
