# SPDX-License-Identifier: MIT
"""Parse what a server prints: the lines at its start and the statistics at its end.

Both are aligned lines with a key in the first 14 columns, then its value. Pure functions.
"""

import re

from bench.records.figures import ServerStatistics

KEY_COLUMNS = 14
_NUMBER = r"(\d+(?:\.\d+)?)"


def lines_of(text: str) -> dict[str, str]:
    """Return the aligned lines of a text as keys and values. The last line of a key is used.

    A last line without line feed is skipped, because it may be incomplete. Other lines may occur.
    """
    found = {}
    for line in text.splitlines(keepends=True):
        key, value = line[:KEY_COLUMNS].strip(), line[KEY_COLUMNS:].strip()
        if line.endswith("\n") and key and value:
            found[key] = value
    return found


def url_in(text: str) -> str | None:
    """Return the URL in a banner, or None if it is missing or not complete yet."""
    url = lines_of(text).get("url")
    return url if url and url.startswith("http") else None


def statistics_in(text: str) -> ServerStatistics | None:
    """Return the statistics in the output of a server that has ended; None if there are none."""
    lines = lines_of(text)
    if "requests" not in lines:
        return None
    cpu = lines.get("cpu", "")
    return ServerStatistics(
        requests=_whole(lines.get("requests")),
        responses={
            c: int(n) for c, n in re.findall(r"(\dxx) (\d{1,18})", lines.get("responses", ""))
        },
        bytes_sent=_whole(lines.get("bytes")),
        cpu_user_s=_figure(rf"user {_NUMBER} s", cpu),
        cpu_system_s=_figure(rf"system {_NUMBER} s", cpu),
        cpu_us_per_request=_figure(rf"{_NUMBER} us", lines.get("cpu/request", "")),
        peak_memory_mb=_figure(rf"{_NUMBER} MB", lines.get("peak memory", "")),
        workers={k[7:]: _whole(v) or 0 for k, v in lines.items() if re.fullmatch(r"worker \d+", k)},
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch("[0-9]{1,18}", text) else None


def _figure(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text)
    return float(match[1]) if match else None
