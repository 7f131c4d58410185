# SPDX-License-Identifier: MIT
"""The one kind of error that is meant for the person at the keyboard."""

import errno


class LabError(Exception):
    """Something that the user can put right. The message says what is wrong and what to do."""


def in_words(error: OSError) -> str:
    """A refusal by the kernel, with the likely cure. `filename` is what was tried (kernel.py)."""
    what = str(error.filename or "the kernel")
    if error.errno == errno.ENODEV and what.startswith("mount overlay"):
        return "this kernel has no overlay file system (module overlay)"
    refused = error.errno in (errno.EPERM, errno.EACCES)
    if refused and what.startswith(("unshare", "setns", "mount")):
        return f"{what} is not allowed here: a container must be started with --privileged for this"
    return f"{what}: {error.strerror or error}"
