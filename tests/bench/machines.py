# SPDX-License-Identifier: MIT
"""Mocked machines."""

from bench.records.environment import SystemLimits

ROOMY = SystemLimits(
    descriptors=100_000,
    somaxconn=65_535,
    syn_backlog=65_535,
    syn_cookies=1,
    ports=64_512,
    time_wait_reuse=1,
    ab_ceiling=20_000,
)
"""Limits that allow everything."""
