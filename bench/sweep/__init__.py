# SPDX-License-Identifier: MIT
"""A sweep: which runs, each from its start to its judgement, all of them in order."""
