# SPDX-License-Identifier: MIT
"""What servers print about themselves."""

from bench.subjects.running import statistics_in, url_in

BANNER = """\
architecture  prethreading: threads created at start
pid           12345
workers       2
url           http://127.0.0.1:8000/
redis         redis://127.0.0.1:6379/0
"""

STATISTICS = """\
requests      12034
responses     1xx 0  2xx 12000  3xx 30  4xx 4  5xx 0
bytes         10234567
cpu           user 0.412 s  system 1.204 s
cpu/request   134.3 us
peak memory   3.4 MB (largest process)
worker 1      6000
worker 100    6034
"""


def test_the_address_counts_only_when_its_line_is_whole() -> None:
    assert url_in(BANNER) == "http://127.0.0.1:8000/"
    whole = BANNER.index("redis  ")
    for length in range(whole):
        assert url_in(BANNER[:length]) is None
    assert url_in(BANNER[:whole]) == "http://127.0.0.1:8000/"


def test_statistics() -> None:
    assert statistics_in(BANNER) is statistics_in("") is None
    own = statistics_in(BANNER + STATISTICS)
    assert own is not None
    assert own.requests == 12_034
    assert own.responses == {"1xx": 0, "2xx": 12_000, "3xx": 30, "4xx": 4, "5xx": 0}
    assert own.bytes_sent == 10_234_567
    assert (own.cpu_user_s, own.cpu_system_s) == (0.412, 1.204)
    assert own.cpu_us_per_request == 134.3
    assert own.peak_memory_mb == 3.4
    assert own.workers == {"1": 6000, "100": 6034}
