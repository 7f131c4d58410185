# SPDX-License-Identifier: MIT
"""Findings: sentences that summarise the figures."""
