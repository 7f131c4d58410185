# SPDX-License-Identifier: MIT
"""The page itself, and the files beside it."""
