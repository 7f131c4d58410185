# SPDX-License-Identifier: MIT
"""Mutants: servers with one planted fault each. They measure how many faults the grader finds.

corpus   reads the TOML files next to it and applies a mutant to a copy of the sources
run      grades mutants, several at a time, or prints tables of the results so far
"""
