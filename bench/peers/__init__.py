# SPDX-License-Identifier: MIT
"""Studies of reference servers. bench/peers/NAME/ declares one: a plan for the sweep, and the
published values."""
