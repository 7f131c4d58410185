# SPDX-License-Identifier: MIT
"""Tests of the benchmark over several hosts, and of the tools that create them."""
