# SPDX-License-Identifier: MIT
"""Stored data (runs, conditions, plans, figures), independent of how a run is made."""
