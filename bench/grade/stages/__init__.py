# SPDX-License-Identifier: MIT
"""All stages in their order. Those that find causes and take little time come first."""

from bench.grade.stages.answering import SERVES
from bench.grade.stages.bad_input import BAD_INPUT
from bench.grade.stages.ending import ENDS
from bench.grade.stages.leaving import LEAVES_NOTHING
from bench.grade.stages.loading import UNDER_LOAD
from bench.grade.stages.racing import RACES
from bench.grade.stages.redis import REDIS
from bench.grade.stages.timeouts import SILENT

STAGES = (SERVES, RACES, BAD_INPUT, REDIS, ENDS, SILENT, LEAVES_NOTHING, UNDER_LOAD)
