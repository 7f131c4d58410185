# SPDX-License-Identifier: MIT
"""How pages are made from templates: in one way, for all rooms that make some."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template


def template_of(module: str, name: str) -> Template:
    """One in the folder `template` beside a module, given as its `__file__`. Values are escaped; a
    name that nobody gives is an error."""
    known = Environment(
        loader=FileSystemLoader(Path(module).parent / "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return known.get_template(name)
