# SPDX-License-Identifier: MIT
"""Run a command in another root than the machine's, and discard all that it writes there.

The machine's files are the lower layer of an overlay whose upper layer is in memory, and is checked
afterwards. The kernel's settings, and this folder, are read-only there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from lab_harness import ANOTHER_LAYER, REPOSITORY, Done, run

LAYER = """
set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/changes /mnt/work /mnt/root
mount -t overlay none -o lowerdir=/,upperdir=/mnt/changes,workdir=/mnt/work /mnt/root
cd /mnt/root
mount -t tmpfs none run
mount -t tmpfs none tmp
mkdir -p run/layer ".$0"
mount --bind /mnt/changes run/layer
for folder in /dev /proc /sys "$0"; do mount --rbind $folder .$folder; done
mount --bind proc/sys proc/sys
for folder in /proc/sys "$0"; do mount -o remount,bind,ro ".$folder"; done
mkdir mnt/old
pivot_root . mnt/old
cd /
umount -l /mnt/old
rmdir /mnt/old
"""
"""Makes the layer the root of its mount namespace, as a container's is. Arguments: folder,
command."""

CHROOT = """
mount --bind / /mnt
for folder in /dev /proc /sys /run /tmp "$0"; do mount --rbind $folder /mnt$folder; done
set -- chroot /mnt "$@"
"""
"""Used after LAYER: runs the command in a chroot whose `/` is a mount of its own."""

CHANGES = """
python3 -I -c 'import json, os
found = [os.path.join(path, name) for path, _, names in os.walk("/run/layer") for name in names]
print("\\n" + json.dumps([path.removeprefix("/run/layer") for path in found]))'
"""
"""Prints the files that were written, as the last line of output."""


def skip_unless_labs_can_be_made_in(script: str) -> None:
    """Skip if no overlay can be made: only one may be the base of another, so in a container, whose
    `/` is one, LAYER is the last."""
    refused = run_in(script, ["sh", "-c", ANOTHER_LAYER])[0].stderr.partition("\n")[0]
    if refused:
        pytest.skip(f"no second overlay on this machine's `/`: {refused}")


def run_in(script: str, command: list[str]) -> tuple[Done, list[str]]:
    """Run a command after a script has made its root; return also the files that changed there."""
    whole = f'{script}\nset +e\n"$@"\nstatus=$?\n{CHANGES}\nexit $status'
    # Root's shell settings, caches and similar files are ignored.
    environment = {**os.environ, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    words = ["unshare", "--mount", "sh", "-c", whole, str(REPOSITORY), *command]
    done = run(words, env=environment)
    said, _, changes = done.stdout.rstrip().rpartition("\n")
    done.stdout = said
    return done, [str(Path(path)) for path in json.loads(changes)]
