# SPDX-License-Identifier: MIT
"""Grade the submissions of a class.

command     runs grade-all
submissions finds, copies and unpacks submissions within limits
run         grades one submission after another, and records the runs of a class and all its grades
similar     finds submissions that share code
pages       writes the CSV and the pages, and fills in Moodle's worksheet
"""
