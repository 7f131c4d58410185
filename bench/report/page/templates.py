# SPDX-License-Identifier: MIT
"""How pages are made from templates: in one way, for all rooms that make some."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def templates_of(module: str) -> Environment:
    """The templates in the folder `template` beside a module, given as its `__file__`. Values are
    escaped; a name that nobody gives is an error."""
    return Environment(
        loader=FileSystemLoader(Path(module).parent / "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
