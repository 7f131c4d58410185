# SPDX-License-Identifier: MIT
"""Colours and marks of the servers, and the two themes, from style.toml."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bench.records.store import Json
from bench.records.values import toml_of
from bench.report.study import StudySubject

Pair = tuple[str, str]
"""The colour of the light and of the dark theme."""


class ChartStyle(BaseModel):
    """The content of style.toml."""

    font: str
    others: list[Pair]
    seven: dict[str, Pair]
    colours: dict[str, Pair]
    shapes: dict[str, str]
    dashes: dict[str, list[int]]
    config: dict[str, dict[str, str | float | bool]]


STYLE = ChartStyle.model_validate(toml_of(Path(__file__).with_name("style.toml")))


def subject_colours(subjects: Sequence[StudySubject]) -> list[Pair]:
    """Return each server's two colours. A baseline has the colours of its architecture."""
    others = iter(STYLE.others * len(subjects))
    found: dict[str | None, Pair] = {}
    for subject in subjects:
        kin = subject.architecture if subject.kind != "reference" else None
        own = STYLE.seven.get(subject.name) or STYLE.seven.get(kin or "") or found.get(kin)
        found[subject.name] = own or next(others)
    return [found[subject.name] for subject in subjects]


def subject_shapes(subjects: Sequence[StudySubject]) -> list[str]:
    """Return a shape for each server. A baseline has the shape of its architecture."""
    found, shapes = dict[str, str](), list(STYLE.shapes)
    for subject in subjects:
        kin = found.get(subject.architecture or "")
        found[subject.name] = kin or shapes[len(set(found.values())) % len(shapes)]
    return [found[subject.name] for subject in subjects]


def tokens(subjects: Sequence[StudySubject], theme: int) -> dict[str, str]:
    """Return the colour of each token; theme 0 is light, 1 is dark."""
    named = {name: pair[theme] for name, pair in STYLE.colours.items()}
    own = {f"c{i}": pair[theme] for i, pair in enumerate(subject_colours(subjects))}
    return named | own


def config() -> dict[str, Json]:
    """Return Vega-Lite's configuration, with colour tokens."""
    whole: dict[str, Json] = {**STYLE.config, "view": {"stroke": None}, "font": "@font"}
    made: dict[str, Json] = substitute(whole, {"font": STYLE.font})
    return made


def substitute(value: Json, colours: Mapping[str, str]) -> Any:
    """Return a copy in which each token is replaced by its colour."""
    if isinstance(value, Mapping):
        return {key: substitute(inner, colours) for key, inner in value.items()}
    if isinstance(value, list):
        return [substitute(inner, colours) for inner in value]
    if isinstance(value, str) and value.startswith("@"):
        return colours.get(value[1:], value)
    return value
