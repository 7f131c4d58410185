# SPDX-License-Identifier: MIT
"""Studies: *.toml says what is measured and expected, NAME.published.csv what was published."""
