# SPDX-License-Identifier: MIT
"""The kinds of errors that are meant for the person at the keyboard."""

import errno
import os


class LabError(Exception):
    """Something that the user can put right. The message says what is wrong and what to do."""


class KernelRefusal(OSError):
    """The kernel's refusal of a call in kernel.py; `filename` says in words what was tried."""

    def __init__(self, number: int, what: str, file_system: str = "") -> None:
        """`number`: an errno; `file_system`: the kind that was to be mounted."""
        super().__init__(number, os.strerror(number), what)
        self.file_system = file_system


def in_words(error: OSError) -> str:
    """A refusal by the kernel, with the likely cure."""
    what = str(error.filename or "the kernel")
    if isinstance(error, KernelRefusal) and error.errno == errno.ENODEV and error.file_system:
        return f"this kernel has no file system {error.file_system} (module {error.file_system})"
    if isinstance(error, KernelRefusal) and error.errno in (errno.EPERM, errno.EACCES):
        return f"{what} is not allowed here: a container must be started with --privileged for this"
    return f"{what}: {error.strerror or error}"
