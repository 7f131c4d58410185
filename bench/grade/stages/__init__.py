# SPDX-License-Identifier: MIT
"""All stages and their checks. Stages that find causes come first."""

from functools import partial

from bench.grade.attempts import Trial
from bench.grade.stages import answering, ending, leaving, loading, racing, redis, timeouts
from bench.grade.stages.clients import INJECTED, burst, interrupted, others
from bench.grade.stages.comparing import defects, same_bytes
from bench.grade.stages.situations import play
from bench.grade.trying import Stage

_SERVES = (
    Trial("files", 4, answering.files, gate=True),
    Trial("the guestbook", 2, partial(play, check="guestbook")),
    Trial("the same bytes as a reference server", 2, same_bytes, seconds=2),
    Trial("unusual situations", 2, partial(play, check="usual"), nohup=True, seconds=2),
    Trial("the connection ends", 3, answering.closes, seconds=1),
    Trial("many clients at the same time", 2, burst, seconds=2),
    Trial("a big file", 2, answering.big),
)
_RACES = (
    Trial("sanitizers", 5, racing.sanitized, starts_server=False, seconds=6, also_closed=True),
)
_BAD_INPUT = (
    Trial("in pieces", 4, answering.pieces),
    Trial("pipelined requests", 2, answering.pipelined, seconds=5),
    Trial("bad requests", 4, defects),
    Trial("clients that leave", 5, answering.resets, traced=True),
)
_REDIS = (
    Trial("many requests at once", 2, redis.at_once, redis_delay_ms=redis.SLOW_MS, seconds=6),
    Trial("each client gets its own reply", 2, redis.own_replies, redis_delay_ms=redis.DELAY_MS),
    Trial("Redis is down", 3, partial(play, check="without Redis"), seconds=4),
    Trial("Redis is back", 2, redis.back, seconds=4),
    Trial("a random mix of requests", 1, redis.mixed, alone=True),
)
_ENDS = (
    Trial("requests in flight are served", 3, ending.finishes),
    Trial("clients that wait are served", 2, ending.waiting, seconds=1),
    Trial("it ends", 5, ending.ends, seconds=6),
)
_QUICKLY = timeouts.TIME_SCALE
_FEW = leaving.FEW_DESCRIPTORS
_SILENT = (
    Trial("other clients are served", 5, others),
    Trial("no client is disconnected early", 1, timeouts.early, seconds=7),
    Trial("a connection is kept open", 2, timeouts.kept, seconds=1),
    Trial("clients that send nothing at all", 1, timeouts.wordless, _QUICKLY, seconds=5),
    Trial("a timeout for half a request", 2, timeouts.cut_off, _QUICKLY),
    Trial("no extra time for single bytes", 1, timeouts.drips, _QUICKLY, limits=_FEW, seconds=5),
    Trial("a timeout for a client that reads nothing", 1, timeouts.takes_nothing, _QUICKLY),
    Trial("a slow reader gets all", 1, timeouts.reads_slowly, _QUICKLY, seconds=4),
    Trial("no busy waiting", 1, timeouts.sleeps, seconds=2),
)
_ACCEPTS = ("accept,accept4:error=EAGAIN:when=2+2",)
_REFUSED = ("accept,accept4:error=EMFILE:when=3..30",)
_LEAVES_NOTHING = (
    Trial("descriptors", 2, leaving.descriptors, traced=True),
    Trial("processes and threads", 4, leaving.processes),
    Trial("memory", 2, leaving.memory, seconds=6),
    Trial("calls that fail for a moment", 1, interrupted, injected=INJECTED, seconds=4),
    Trial("accept() without a client", 1, leaving.accepts, limits=_FEW, injected=_ACCEPTS),
    Trial("accept() fails for a while", 1, leaving.refused, injected=_REFUSED),
    Trial("at the limit of processes", 3, leaving.limit, limits=leaving.FEW_TASKS, alone=True),
    Trial("at the limit of descriptors", 1, leaving.at_descriptor_limit, limits=_FEW),
)
_LOAD = (Trial("load", 10, loading.load, starts_server=False, alone=True, seconds=8),)

STAGES = (
    Stage("serves", "It serves", _SERVES),
    Stage("races", "Sanitizers find no data race and no memory error", _RACES),
    Stage("bad-input", "Correct with bad input", _BAD_INPUT),
    Stage("redis", "Redis fails and returns", _REDIS),
    Stage("ends", "Graceful shutdown", _ENDS),
    Stage("silent", "Silent clients do not block others", _SILENT),
    Stage("leaves-nothing", "No leaks, and correct at its limits", _LEAVES_NOTHING),
    Stage("load", "Under load, compared with the seven servers", _LOAD),
)
