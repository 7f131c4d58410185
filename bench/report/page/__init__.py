# SPDX-License-Identifier: MIT
"""The page of a report, and its exported files."""
