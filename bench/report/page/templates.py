# SPDX-License-Identifier: MIT
"""Loading of templates, for all packages that make pages."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template


def template_of(module: str, name: str) -> Template:
    """Return a template from the folder `template` next to a module (its `__file__`). Values are
    escaped; an undefined name is an error."""
    known = Environment(
        loader=FileSystemLoader(Path(module).parent / "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return known.get_template(name)
