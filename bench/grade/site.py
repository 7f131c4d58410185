# SPDX-License-Identifier: MIT
"""The files that a graded server serves: names and contents are drawn from the seed."""

import random
import shutil
import string
from dataclasses import dataclass
from pathlib import Path

from bench.host.project import ROOT


@dataclass
class SeededSite:
    """The project's own files, and files whose names and contents depend on the seed."""

    root: Path
    small: dict[str, bytes]
    """Contents by path."""
    big: tuple[str, bytes]
    moved: dict[str, str]
    """Redirects: target by path."""
    secret: str
    """The content of a file outside of public/, which must not be served."""

    def put(self, name: str, content: bytes) -> Path:
        """Create or replace a file of public/ in one step; return its path."""
        file = self.root / "public" / name
        new = file.with_suffix(".new")
        new.write_bytes(content)
        return new.replace(file)


def word(dice: random.Random, length: int = 8) -> str:
    """Return a random word of letters and digits."""
    return "".join(dice.choices(string.ascii_lowercase + string.digits, k=length))


def make_site(root: Path, dice: random.Random) -> SeededSite:
    """Fill the folder and return its description."""
    for name in ("public", "templates"):
        shutil.copytree(ROOT / name, root / name)
    folder = root / "public" / word(dice)
    folder.mkdir()
    small = {}
    for _ in range(3):
        name, content = f"{word(dice)}.txt", dice.randbytes(dice.randint(20, 6000))
        (folder / name).write_bytes(content)
        small[f"/{folder.name}/{name}"] = content
    big = dice.randbytes(dice.randint(6_000_000, 8_000_000))
    name = f"{word(dice)}.bin"
    (folder / name).write_bytes(big)
    moved = {f"/{word(dice)}/{word(dice)}": f"/{word(dice)}" for _ in range(4)}
    (root / "redirects").write_text("".join(f"{a} {b}\n" for a, b in moved.items()))
    secret = word(dice, 24)
    (root / f"{word(dice)}.secret").write_text(secret)
    return SeededSite(root, small, (f"/{folder.name}/{name}", big), moved, secret)
