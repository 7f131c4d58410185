# SPDX-License-Identifier: MIT
"""Requests as bytes, with the expected responses. Most requests are in cases.txt; this file
computes the others.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..site import DATA, big_pattern, eighty_kilobytes


@dataclass(frozen=True)
class Case:
    """A request and its expected response; None: not checked. In the request and in the fields,
    {etag} means the entity tag of /t/digits.txt."""

    name: str
    raw: bytes
    statuses: tuple[int, ...] = (200,)
    closes: bool = False
    """Whether the server must close the connection after this response; False is not checked."""
    fields: Mapping[str, str | None] = field(default_factory=dict)
    """The values of fields; None: the response must not have the field."""
    body: bytes | None = None
    stored: tuple[bytes, ...] | None = None
    """The remarks that the request adds to the guestbook."""


FORM = b"Content-Type: application/x-www-form-urlencoded"


def asked(start: bytes, *lines: bytes, body: bytes = b"") -> bytes:
    """Return the bytes of a request that begins with this method and target. If there is a body and
    no line says its length, the request gets a Content-Length."""
    has_length = re.search(rb"(?i)content-length|transfer-encoding", b"".join(lines))
    length = () if has_length or not body else (b"Content-Length: %d" % len(body),)
    return b"\r\n".join((start + b" HTTP/1.1", b"Host: test", *lines, *length, b"", body))


# ---- The lines of cases.txt ----

BODY = b"guest-name=smuggler&guest-remarks=smuggled"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
WORDS = {
    "{html}": b"text/html; charset=utf-8",
    "{form}": FORM.partition(b": ")[2],
    "{body}": BODY,
    "{chunked}": CHUNKS,
    "{single}": b"".join(b"1\r\n%c\r\n" % byte for byte in BODY),
    "{next}": b"GET /t/digits.txt HTTP/1.1\r\nHost: test\r\n\r\n",
    "{}": b"",
}
REPEATED = re.compile(r"\{([^{}]+)\*(\d+)\}")


def unescaped(text: str) -> bytes:
    """Return the bytes of a text with Python's escapes; {x*9} repeats x nine times."""
    text = REPEATED.sub(lambda found: found[1] * int(found[2]), text)
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def _bytes(text: str) -> bytes:
    """Replace the words of WORDS in a text; return its bytes."""
    for word, meaning in WORDS.items():
        text = text.replace(word, meaning.decode("latin-1"))
    return unescaped(text)


def _request(text: str) -> bytes:
    if text.startswith('"'):
        return _bytes(text[1:-1])
    head, _, body = text.partition(" << ")
    start, *lines = (_bytes(part) for part in head.split(" | "))
    lines = [FORM if line == b"FORM" else line for line in lines]
    return asked(b"GET " + start if start[:1] == b"/" else start, *lines, body=_bytes(body))


def _expected(name: str, raw: bytes, text: str) -> Case:
    text, mark, remark = text.partition(" + ")
    stored = (_bytes(remark),) if remark != "{}" else ()
    text, has_body, body = text.partition(" = ")
    head, *fields = text.split(" | ")
    pairs = (one[:-1].partition(": ") if one[-1] == "!" else one.partition(": ") for one in fields)
    return Case(
        name,
        raw,
        tuple(map(int, head.split(" ")[0].split("/"))),
        closes=head.endswith(" closes"),
        fields={key: _bytes(value).decode() if colon else None for key, colon, value in pairs},
        body=_bytes(body) if has_body else None,
        stored=stored if mark else None,
    )


def read_cases(path: Path) -> dict[str, list[Case]]:
    groups: dict[str, list[Case]] = {}
    name = usual = ""
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            name, usual = line[1:-1].split(" => ")
            groups[name] = []
        elif line and not line.startswith("#"):
            shown, _, about = line.partition("  # ")
            request, _, expected = shown.partition("  =>  ")
            case = _expected(about or line[:90], _request(request), expected or usual)
            groups[name].append(case)
    return groups


# ---- Files and paths ----

TYPES = DATA["types"]
# "/." is "/", "?" begins a query, "//" may be treated as "/" or not, and "/t" is a folder.
ONE_BYTE = {".": (200,), "?": (200,), "/": (200, 301, 404), "t": (301,)}


def _one_byte(byte: int) -> list[Case]:
    """Return the requests for a path of one byte, unescaped and escaped."""
    expected = ONE_BYTE.get(chr(byte), (400, 404))
    escaped = (404,) if byte == ord("?") else expected
    return [
        Case(f"path of byte {byte}", asked(b"GET /" + bytes([byte])), expected),
        Case(f"path of escaped byte {byte}", asked(b"GET /%%%02x" % byte), escaped),
    ]


def _type(name: str) -> Case:
    kind = TYPES[name] + ("; charset=utf-8" if TYPES[name].startswith("text/") else "")
    raw, content = asked(b"GET /t/types/" + name.encode()), b"content of " + name.encode()
    return Case(name, raw, fields={"Content-Type": kind}, body=content)


def _part(name: str, first: int, body: bytes) -> Case:
    last = first + len(body) - 1
    raw = asked(b"GET /t/" + name.encode(), b"Range: bytes=%d-%d" % (first, last))
    return Case(f"{name} {first}-{last}", raw, (206,), body=body)


MIDDLE = 60 * (1 << 20) - 100
CASES = {
    **read_cases(Path(__file__).with_name("cases.txt")),
    "one-byte": [case for n in range(256) if n not in b"\r\n" for case in _one_byte(n)],
    "types": [_type(name) for name in TYPES],
    "large": [
        Case("/t/80k.bin", asked(b"GET /t/80k.bin"), body=eighty_kilobytes()),
        _part("80k.bin", 1, eighty_kilobytes()[1:40001]),
        _part("80k.bin", 16383, eighty_kilobytes()[16383:]),
        _part("big.bin", MIDDLE, big_pattern(MIDDLE, 300000)),
    ],
}
