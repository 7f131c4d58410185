# SPDX-License-Identifier: MIT
"""The kinds of errors that the user sees."""

import errno
import os


class LabError(Exception):
    """An error that the user can fix. The message says what is wrong and what to do."""


class KernelRefusal(OSError):
    """A system call of kernel.py failed; `filename` describes what it tried to do."""

    def __init__(self, number: int, what: str, file_system: str = "") -> None:
        """`number`: an errno; `file_system`: the type that mount(2) tried to mount."""
        super().__init__(number, os.strerror(number), what)
        self.file_system = file_system


def in_words(error: OSError) -> str:
    """Return the text of a failed system call, with a likely fix."""
    what = str(error.filename or "the kernel")
    if isinstance(error, KernelRefusal) and error.errno == errno.ENODEV and error.file_system:
        return f"this kernel lacks the file system {error.file_system} (module {error.file_system})"
    if isinstance(error, KernelRefusal) and error.errno in (errno.EPERM, errno.EACCES):
        return f"{what} is not allowed here: start the container with --privileged"
    return f"{what}: {error.strerror or error}"
