# SPDX-License-Identifier: MIT
"""The drawing of the hosts: boxes, and arrows for the paths of the requests.

There are two layouts, from left to right for a page and from top to bottom for a phone; the unit is
a pixel. The template `topology.svg.j2` draws it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from bench.records.environment import HostInfo
from bench.records.words import listed, number_word, plural, upper_first
from bench.report.charts import style
from bench.report.charts.base import Catalogue
from bench.report.page.look import template_of
from bench.report.study.hosts import ROLES, in_order
from bench.report.study.study import Study

ROLE_WORDS = {
    "load": "load generator",
    "nginx": "load balancer: nginx",
    "server": "server under test",
    "redis": "data store: Redis",
}
MOST_BOXES = 3
"""If there are more servers, they share one box."""
LINE = 18
PAD = 14
WIDE = (200, 50)
"""Width of a box, and of the gap for an arrow."""
NARROW = (290, 46)
"""Width of a box, and height of the gap, in the narrow layout."""
BYPASS = 34
"""Distance of the path around nginx from the boxes."""
LETTERS = (9.0, 7.1)
"""Mean width of a letter, in a title and in the lines below it."""
HEAD = 7
"""Length of an arrow's head."""


@dataclass(frozen=True)
class Text:
    """A text in a box, and the part of it that fits."""

    y: float
    shown: str
    whole: str


@dataclass(frozen=True)
class HostBox:
    """The box of a host, or of several servers."""

    role: str
    title: str
    lines: list[str]
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0

    @property
    def heading(self) -> Text:
        """Return the title with its position."""
        return self._text(self.y + 2 * PAD, self.title, LETTERS[0])

    @property
    def texts(self) -> list[Text]:
        """Return the lines below the title with their positions."""
        top = self.y + PAD + 2 * LINE - 5
        return [self._text(top + i * LINE, t, LETTERS[1]) for i, t in enumerate(self.lines)]

    def _text(self, y: float, whole: str, letter: float) -> Text:
        most = int((self.width - 2 * PAD) / letter)
        return Text(y, whole if len(whole) <= most else f"{whole[: most - 1]}…", whole)


@dataclass(frozen=True)
class Way:
    """The path of requests, as an SVG path."""

    path: str
    dashed: bool = False


@dataclass(frozen=True)
class Link:
    """A connection from one rank of boxes to another."""

    start: int
    end: int
    around: bool = False
    dashed: bool = False


@dataclass
class HostsDrawing:
    """One of the two layouts."""

    name: str
    width: float
    height: float
    boxes: list[HostBox]
    arrows: list[Way]


Ranks = list[list[HostBox]]


def part(study: Study, _: Catalogue) -> dict[str, object]:
    """Return the drawings with title, description and colours; None if all ran on one machine."""
    drawn = drawings(study)
    colours = {name: f"var(--{name})" for name in style.COLOURS} | {"font": "inherit"}
    shown = {"title": title(study), "words": words(study), "drawings": drawn, "colours": colours}
    return {"topology": shown if drawn else None}


def picture(study: Study) -> str:
    """Return the wide drawing as an SVG file; empty if everything ran on one machine."""
    drawn = drawings(study)
    if not drawn:
        return ""
    module: Any = template_of(__file__, "topology.svg.j2").module
    colours = {**style.tokens(study.subjects, 0), "font": style.FONT}
    return str(module.hosts(drawn[0], words(study), colours, alone=True)).strip()


def title(study: Study) -> str:
    """Return one line: "Two hosts, each with one CPU: load and redis"; empty without hosts."""
    hosts = study.results.hosts
    if not hosts:
        return ""
    sizes = {_size(host) for host in hosts}
    each = f", each with {sizes.pop()}" if len(sizes) == 1 else ""
    who = listed([host.name for host in in_order(hosts)])
    many = number_word(len(hosts)) if len(hosts) > 1 else "one"
    return upper_first(f"{many} {'hosts' if len(hosts) > 1 else 'host'}{each}: {who}")


def words(study: Study) -> str:
    """Return the drawing in words, for a screen reader."""
    said = [
        f"{host.name} at {host.address} ({ROLE_WORDS[host.role]}; {_size(host)})"
        for host in in_order(study.results.hosts)
    ]
    ways = []
    if _through(study):
        ways.append("load to nginx to the servers to Redis")
    if _straight(study):
        ways.append("load directly to the server to Redis")
    return f"{'; '.join(said)}. Requests go from {' and '.join(ways)}."


def _size(host: HostInfo) -> str:
    limit = host.cpu_limit
    if limit is not None and limit != 1:
        return f"{limit:g} of a CPU" if limit < 1 else f"{limit:g} CPUs"
    return "one CPU" if limit == 1 or host.cpus == 1 else plural(host.cpus, "CPU")


def _through(study: Study) -> bool:
    return any(scenario.balancer != "none" for scenario in study.all_scenarios)


def _straight(study: Study) -> bool:
    return any(scenario.balancer == "none" for scenario in study.all_scenarios)


def drawings(study: Study) -> list[HostsDrawing]:
    """Return the wide and the narrow drawing; none if everything ran on one machine."""
    ranks = _ranks(study.results.hosts)
    if not ranks:
        return []
    links = _links([rank[0].role for rank in ranks], _through(study), _straight(study))
    return [_wide(ranks, links), _narrow(ranks, links)]


def _ranks(hosts: Sequence[HostInfo]) -> Ranks:
    """Return the boxes of each role, in the order of ROLES."""
    ranks = []
    for role in ROLES:
        mine = [host for host in hosts if host.role == role]
        if len(mine) > MOST_BOXES:
            lines = [ROLE_WORDS[role], *(f"{host.name} {host.address}" for host in mine)]
            ranks.append([HostBox(role, f"{number_word(len(mine))} hosts", lines)])
        elif mine:
            ranks.append([_box(host) for host in mine])
    return ranks


def _box(host: HostInfo) -> HostBox:
    limited = f"{_size(host)} ({host.limited_by})" if host.limited_by else _size(host)
    return HostBox(host.role, host.name, [ROLE_WORDS[host.role], host.address, limited])


def _links(roles: Sequence[str], through: bool, straight: bool) -> list[Link]:
    """Return the links of the ranks. The path around nginx is dashed if other requests went through
    nginx; if none did, nginx has no links."""
    number = {role: index for index, role in enumerate(roles)}
    found = []
    for start, end in pairwise(roles):
        if through or "nginx" not in (start, end):
            found.append(Link(number[start], number[end]))
    if straight and {"load", "nginx", "server"} <= set(roles):
        found.append(Link(number["load"], number["server"], around=True, dashed=through))
    return found


def _high(box: HostBox) -> float:
    return 2 * PAD + LINE * (1 + len(box.lines))


def _wide(ranks: Ranks, links: Sequence[Link]) -> HostsDrawing:
    width, gap = WIDE
    heights = [sum(map(_high, rank)) + PAD * (len(rank) - 1) for rank in ranks]
    top = BYPASS + PAD if any(link.around for link in links) else 1.0
    placed: Ranks = []
    for index, rank in enumerate(ranks):
        y, row = top + (max(heights) - heights[index]) / 2, []
        for box in rank:
            x = 1 + index * (width + gap)
            row.append(replace(box, x=x, y=y, width=width, height=_high(box)))
            y += _high(box) + PAD
        placed.append(row)
    across = 2 + len(ranks) * (width + gap) - gap
    arrows = [
        Way(_over(a, b) if link.around else _aside(a, b), link.dashed)
        for link in links
        for a in placed[link.start]
        for b in placed[link.end][: 1 if link.around else None]
    ]
    return HostsDrawing("wide", across, top + max(heights) + 1, list(chain(*placed)), arrows)


def _aside(a: HostBox, b: HostBox) -> str:
    """Return a path from the right side of a box to the left side of another."""
    x0, y0, x1, y1 = a.x + a.width, a.y + a.height / 2, b.x - HEAD, b.y + b.height / 2
    middle = (x0 + x1) / 2
    return f"M{x0} {y0}C{middle} {y0} {middle} {y1} {x1} {y1}"


def _over(a: HostBox, b: HostBox) -> str:
    """Return a path from top to top, above the boxes between."""
    x0, x1, y = a.x + a.width / 2, b.x + b.width / 2, PAD / 2
    return f"M{x0} {a.y}Q{x0} {y} {x0 + 50} {y}H{x1 - 50}Q{x1} {y} {x1} {b.y - HEAD}"


def _narrow(ranks: Ranks, links: Sequence[Link]) -> HostsDrawing:
    width, gap = NARROW
    y, placed = 1.0, []
    for rank in ranks:
        row = []
        for box in rank:
            row.append(replace(box, x=1, y=y, width=width, height=_high(box)))
            y += _high(box) + PAD
        placed.append(row)
        y += gap - PAD
    arrows = []
    for link in links:
        a, b = placed[link.start][-1], placed[link.end][0]
        arrows.append(Way(_beside(a, b) if link.around else _down(a, b), link.dashed))
    across = 2 + width + (BYPASS if any(link.around for link in links) else 0)
    return HostsDrawing("narrow", across, y - gap + 1, list(chain(*placed)), arrows)


def _down(a: HostBox, b: HostBox) -> str:
    return f"M{a.x + a.width / 2} {a.y + a.height}V{b.y - HEAD}"


def _beside(a: HostBox, b: HostBox) -> str:
    """Return a path from right side to right side, around the boxes between."""
    x, out = a.x + a.width, a.x + a.width + BYPASS - 6
    y0, y1 = a.y + a.height / 2, b.y + b.height / 2
    return f"M{x} {y0}Q{out} {y0} {out} {y0 + 40}V{y1 - 40}Q{out} {y1} {x + HEAD} {y1}"
