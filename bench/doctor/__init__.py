# SPDX-License-Identifier: MIT
"""What the machines allow, what the chosen runs need, and what cures it."""
