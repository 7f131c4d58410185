# SPDX-License-Identifier: MIT
"""Studies: measurements and expectations (*.toml), and published figures (*.published.csv)."""
