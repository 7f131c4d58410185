# SPDX-License-Identifier: MIT
"""Checks what the hosts allow and what the chosen runs need, and names the fixes."""
