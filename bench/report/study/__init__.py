# SPDX-License-Identifier: MIT
"""The results in order, and what can be worked out from them."""
