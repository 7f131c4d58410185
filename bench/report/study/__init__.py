# SPDX-License-Identifier: MIT
"""The data points of a sweep, and what is calculated from them."""
