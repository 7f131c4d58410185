# SPDX-License-Identifier: MIT
"""Ansible's default display, without the names of plays that show no task. The table of hosts at
the end appears only after a failure."""

from typing import Any

from ansible.plugins.callback.default import CallbackModule as Default

DOCUMENTATION = """
name: brief
type: stdout
short_description: the default display without empty plays
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""


class CallbackModule(Default):  # type: ignore[misc]  # Ansible's classes carry no types
    """Ansible's default display without empty plays."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "brief"

    def __init__(self) -> None:
        super().__init__()
        self._waiting: Any = None

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Print the name of the play later, when it shows a task."""
        self._play = self._waiting = play

    def _print_task_banner(self, task: Any) -> None:
        if self._waiting is not None:
            play, self._waiting = self._waiting, None
            super().v2_playbook_on_play_start(play)
        super()._print_task_banner(task)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Print the table of hosts only after a failure."""
        if stats.failures or stats.dark:
            super().v2_playbook_on_stats(stats)
