# SPDX-License-Identifier: MIT
"""All stages, in their order."""

from bench.grade.answering import BAD_INPUT, SERVES
from bench.grade.ending import ENDS
from bench.grade.holding import SILENT
from bench.grade.leaving import LEAVES_NOTHING
from bench.grade.loading import UNDER_LOAD
from bench.grade.redis import REDIS

STAGES = (SERVES, BAD_INPUT, SILENT, LEAVES_NOTHING, REDIS, ENDS, UNDER_LOAD)
