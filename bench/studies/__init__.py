# SPDX-License-Identifier: MIT
"""Studies: *.toml has the measurements and expectations, NAME.published.csv the published
figures."""
