# SPDX-License-Identifier: MIT
"""Find, start and end the servers under test: project servers, baselines, reference servers."""
