# SPDX-License-Identifier: MIT
"""Colours and marks of the servers, and the two themes."""

from collections.abc import Mapping, Sequence

from bench.records.store import Json
from bench.report.study import StudySubject

SEVEN = {
    "iterative": ("#D55E00", "#FF8F45"),
    "forking": ("#C98A00", "#F2B632"),
    "preforking": ("#8C6BB1", "#BFA2EA"),
    "threading": ("#009E73", "#35CFA0"),
    "prethreading": ("#3A9BD9", "#8FDDF7"),
    "poll": ("#C7609A", "#F49FCB"),
    "epoll": ("#0B3C8C", "#6C98FF"),
}
"""Light and dark colours, distinct for colour-blind readers, the same in all reports."""
OTHERS = (
    ("#555555", "#BDBDBD"),
    ("#7A5230", "#CFA984"),
    ("#5E7A1E", "#B5D46A"),
    ("#8A1C3B", "#F08A9F"),
)
SHAPES = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M-4-4h8v8h-8z",
    "diamond": "M0-5L5 0L0 5L-5 0z",
    "triangle-up": "M0-5L5 4H-5z",
    "triangle-down": "M0 5L5-4H-5z",
    "cross": "M-5-2h3v-3h4v3h3v4h-3v3h-4v-3h-3z",
    "triangle-right": "M5 0L-4 5V-5z",
    "triangle-left": "M-5 0L4 5V-5z",
    "wedge": "M0-5L3 5H-3z",
    "arrow": "M0-5L4 0H2V5H-2V0H-4z",
}
"""Vega's names of the shapes, and their paths for the page's buttons."""
DASHES: dict[str, list[int]] = {"server": [1, 0], "reference": [7, 3], "baseline": [2, 3]}

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

COLOURS = {
    "ink": ("#1C2430", "#E8EAEE"),
    "soft": ("#5B6675", "#A3ADBA"),
    "grid": ("#E6E8EC", "#2B323D"),
    "paper": ("#FFFFFF", "#171B22"),
    "user": ("#2F6FB2", "#6FB1F2"),
    "system": ("#B9D3EC", "#2E5378"),
    "baseline": ("#B4402A", "#FF9B85"),
    "held": ("#CFE3DC", "#2A4F46"),
    "server": ("#6FB39B", "#2F8A70"),
    "load": ("#F1D9A3", "#7A6024"),
    "redis": ("#C9B8E6", "#5B4690"),
    "nginx": ("#BBD3EE", "#3A5F8C"),
    "failed": ("#D9644F", "#C4513C"),
    "skipped": ("#E9EBEE", "#2B323D"),
    "p50": ("#A9CBE8", "#2C4F73"),
    "p90": ("#6BA5D6", "#3F77AB"),
    "p99": ("#2F6FB2", "#63A4E6"),
    "p999": ("#1D4479", "#A2CDF8"),
    "max": ("#B4402A", "#FF9B85"),
}
"""Token -> light, dark."""


def subject_colours(subjects: Sequence[StudySubject]) -> list[tuple[str, str]]:
    """Return the light and dark colour of each server. A baseline has that of its architecture."""
    others = iter(OTHERS * len(subjects))
    found: dict[str | None, tuple[str, str]] = {}
    for subject in subjects:
        kin = subject.architecture if subject.kind != "reference" else None
        own = SEVEN.get(subject.name) or SEVEN.get(kin or "") or found.get(kin)
        found[subject.name] = own or next(others)
    return [found[subject.name] for subject in subjects]


def subject_shapes(subjects: Sequence[StudySubject]) -> list[str]:
    """Return a shape for each server. A baseline has that of its architecture."""
    found: dict[str, str] = {}
    for subject in subjects:
        kin = found.get(subject.architecture or "")
        found[subject.name] = kin or list(SHAPES)[len(set(found.values())) % len(SHAPES)]
    return [found[subject.name] for subject in subjects]


def tokens(subjects: Sequence[StudySubject], theme: int) -> dict[str, str]:
    """Return token -> colour; theme 0 is light, 1 is dark."""
    named = {name: pair[theme] for name, pair in COLOURS.items()}
    own = {f"c{i}": pair[theme] for i, pair in enumerate(subject_colours(subjects))}
    return named | own


def config() -> dict[str, Json]:
    """Return Vega-Lite's configuration, with colour tokens."""
    text = {"labelColor": "@soft", "titleColor": "@soft", "labelFont": FONT, "titleFont": FONT}
    axis: dict[str, Json] = {
        **text,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": "@grid",
        "domainColor": "@soft",
        "tickColor": "@soft",
        "labelPadding": 5,
    }
    legend: dict[str, Json] = {
        **text,
        "labelFontSize": 12,
        "symbolSize": 80,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
    }
    title = {"color": "@ink", "subtitleColor": "@soft", "font": FONT, "subtitleFont": FONT}
    return {
        "axis": axis,
        "legend": {**legend, "labelColor": "@ink"},
        "view": {"stroke": None},
        "title": {**title, "anchor": "start", "fontSize": 17, "subtitleFontSize": 12, "offset": 18},
        "text": {"color": "@ink", "font": FONT},
        "font": FONT,
    }


def substitute(spec: Mapping[str, Json], colours: Mapping[str, str]) -> dict[str, Json]:
    """Return a copy in which each token is replaced by its colour."""
    return {key: _substituted(value, colours) for key, value in spec.items()}


def _substituted(value: Json, colours: Mapping[str, str]) -> Json:
    if isinstance(value, Mapping):
        return substitute(value, colours)
    if isinstance(value, list):
        return [_substituted(inner, colours) for inner in value]
    if isinstance(value, str) and value.startswith("@"):
        return colours.get(value[1:], value)
    return value
