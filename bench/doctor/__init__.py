# SPDX-License-Identifier: MIT
"""Compares the limits of the hosts with the needs of the chosen runs, and prints fixes."""
