# SPDX-License-Identifier: MIT
"""What the figures say, in sentences."""
