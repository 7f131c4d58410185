# SPDX-License-Identifier: MIT
"""Studies beside the seven: bench/peers/NAME/ declares one, as a plan of the sweep and with the
figures that were published. How they are measured, the sweep knows."""
