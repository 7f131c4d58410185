# SPDX-License-Identifier: MIT
"""What is stored: runs, conditions, plans, figures. Models, and reading and writing them;
nothing here knows how a run is made.
"""
