# SPDX-License-Identifier: MIT
"""Studies: measurements and expectations (*.toml), published figures (NAME.published.csv)."""
