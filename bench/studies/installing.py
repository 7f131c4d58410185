# SPDX-License-Identifier: MIT
"""Find and install the packages that the servers of a study need. Report the size of the packages,
and of the downloads by the servers' builds. scripts/setup.sh installs the packages, without
starting services."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

from bench.host.project import ROOT, find_program
from bench.subjects.subject import Reference, reference, reference_names

ASK_ABOVE = 100_000_000
"""Bytes: a larger download needs the user's consent."""
PROFILER = {"perf": ("linux-perf | linux-tools-generic",)}
"""The packages with perf in Debian and in Ubuntu (only for Ubuntu's own kernels)."""
LISTS = ["apt-get", "--quiet=2", "update"]
YES = ("y", "yes")
PLAIN = {**os.environ, "LC_ALL": "C"}


def missing(subjects: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the packages of each reference server that lacks a program, by the server's name.
    Installed packages are included; apt skips them."""
    found = _references(subjects)
    return {one.name: one.packages for one in found if one.packages and one.lacks()}


def bytes_to_fetch(packages: Sequence[str]) -> int | None:
    """Return how many bytes apt would download; None if apt is absent or lacks a package."""
    if shutil.which("apt-get") is None:
        return None
    # "satisfy", because "install" does not accept `golang-go (>= 2:1.21~)`.
    words = ["--print-uris", "--quiet=2", "--yes", "--no-install-recommends", "satisfy"]
    done = subprocess.run(
        ["apt-get", *words, "--", *packages], capture_output=True, text=True, env=PLAIN
    )
    return sum_of_uris(done.stdout) if done.returncode == 0 else None


def sum_of_uris(text: str) -> int:
    """Return the sum of bytes in lines of `apt-get --print-uris`: 'URI' FILE BYTES [HASH]."""
    return sum(int(size) for size in re.findall(r"^'\S+' \S+ (\d+)", text, re.MULTILINE))


def builds(subjects: Iterable[str], wanted: Container[str]) -> dict[str, dict[str, float]]:
    """Return the megabytes that the build of each reference server will download, by server and
    item. `wanted`: servers whose packages will be installed. Servers that lack a program and are
    not in `wanted` are not built."""
    able = (one for one in _references(subjects) if one.name in wanted or not one.lacks())
    found = {one.name: one.to_fetch() for one in able if one.fetches}
    return {name: each for name, each in found.items() if each}


def _references(subjects: Iterable[str]) -> list[Reference]:
    return [reference(name) for name in subjects if name in reference_names()]


def install(
    subjects: Collection[str],
    say: Callable[[str], None],
    ask: Callable[[str], str] | None,
    agreed: bool = False,
    tools: Mapping[str, tuple[str, ...]] = {},
) -> dict[str, str]:
    """Install missing packages, and report unavailable packages. `ask` asks the user a question
    (None: there is no terminal). `agreed`: the user has already allowed downloads of any size.
    `tools`: the packages of other programs, by program name. Return the servers that will not be
    built because the user did not allow the download, with the reasons."""
    wanted = missing(subjects)
    wanted |= {name: each for name, each in tools.items() if find_program(name) is None}
    sizes = _sizes(wanted, say) if wanted else {}
    for name in [name for name, size in sizes.items() if size is None]:
        say(f"{name}: apt has no package {' or '.join(wanted.pop(name))}")
    built = builds(subjects, wanted)
    if not wanted and not built:
        return {}
    packages = sorted({package for each in wanted.values() for package in each})
    size = _say_sizes(packages, sizes, built, say)
    question = "Download it? [y/N] "
    if size > ASK_ABOVE and not agreed and not (ask and ask(question).strip().lower() in YES):
        hint = "" if ask else " (there is no terminal for a question: give --yes to allow it)"
        say(f"Not downloaded{hint}: {', '.join({**wanted, **built})}")
        why = {
            name: f"{name} is left out: its build would download {', '.join(each)}; "
            "give --yes to allow it"
            for name, each in built.items()
            if name not in wanted
        }
        for reason in why.values():
            say(reason)
        return why
    if packages and not _setup([f"package:{_name(package)}" for package in packages]):
        say(f"Could not install some packages for: {', '.join(wanted)}")
    return {}


def _say_sizes(
    packages: Sequence[str],
    sizes: Mapping[str, int | None],
    built: Mapping[str, Mapping[str, float]],
    say: Callable[[str], None],
) -> float:
    """Report the size of the download of each server. Return the sum in bytes."""
    once = {what: size for fetched in built.values() for what, size in fetched.items()}
    by_builds = 1e6 * sum(once.values())
    size = (bytes_to_fetch(packages) or 0 if packages else 0) + by_builds
    each = {name: float(known) for name, known in sizes.items() if known is not None}
    for name, fetched in built.items():
        each[name] = each.get(name, 0) + 1e6 * sum(fetched.values())
    words = ", ".join(f"{name} {_megabytes(known)}" for name, known in each.items())
    later = f", of which {_megabytes(by_builds)} when the servers are built" if built else ""
    say(f"Download: about {_megabytes(size)} ({words}; shared parts only once){later}")
    return size


def _name(package: str) -> str:
    """Return the package's name without its version; of alternatives, the first in apt's lists."""
    each = [one.strip() for one in package.split("|")]
    there = next((one for one in each[:-1] if bytes_to_fetch([one]) is not None), each[-1])
    return there.partition(" ")[0]


def _sizes(
    wanted: Mapping[str, Sequence[str]], say: Callable[[str], None]
) -> dict[str, int | None]:
    """Return the bytes to download for each name in `wanted`; None if a package is unknown. If a
    package is unknown, update apt's package lists first."""
    found = {name: bytes_to_fetch(packages) for name, packages in wanted.items()}
    if None not in found.values() or shutil.which("apt-get") is None:
        return found
    say("Downloading the lists of packages")
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    subprocess.run([*as_root, *LISTS], env=PLAIN, stdout=subprocess.DEVNULL)
    return {name: bytes_to_fetch(packages) for name, packages in wanted.items()}


def _setup(groups: Sequence[str]) -> bool:
    return subprocess.run([str(ROOT / "scripts" / "setup.sh"), *groups]).returncode == 0


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"
