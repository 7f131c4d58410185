# SPDX-License-Identifier: MIT
"""All stages, in their order."""

from bench.grade.stages.answering import BAD_INPUT, SERVES
from bench.grade.stages.ending import ENDS
from bench.grade.stages.holding import SILENT
from bench.grade.stages.leaving import LEAVES_NOTHING
from bench.grade.stages.loading import UNDER_LOAD
from bench.grade.stages.redis import REDIS

STAGES = (SERVES, BAD_INPUT, SILENT, LEAVES_NOTHING, REDIS, ENDS, UNDER_LOAD)
