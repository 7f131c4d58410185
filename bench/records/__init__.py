# SPDX-License-Identifier: MIT
"""Models of stored data (runs, conditions, plans, figures), and how they are read and written.
This package does not depend on how a run is made.
"""
