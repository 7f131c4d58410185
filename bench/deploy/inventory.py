# SPDX-License-Identifier: MIT
"""Where the inventory is, and how its load host is reached."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from bench.records.errors import UserError

LAB = "lab"
LAB_INVENTORY = Path("/run/zerohttpd-lab/default/inventory.ini")
QUIET_END = ("ControlMaster=no", "ControlPath=none", "ServerAliveInterval=15")
"""A connection of its own: it ends with the command, and a limit that was raised for logins since
the others began is in force."""


def find(name: str) -> Path:
    """The inventory that is meant: a file, or `lab` for the lab here. Raises UserError."""
    if name == LAB:
        if not LAB_INVENTORY.exists():
            raise UserError("there is no lab on this machine. Run first: make lab")
        return LAB_INVENTORY
    path = Path(name)
    if not path.exists():
        raise UserError(f"there is no inventory {name}. deploy/inventory.example.ini is an example")
    # Ansible would run all programs in a folder, and a file that is one.
    if not path.is_file() or path.stat().st_mode & 0o111:
        raise UserError(f"{name} is no inventory: that is a plain file, and not an executable one")
    return path.resolve()


class FoundHost(BaseModel):
    """What the playbook found of the load host, with all variables filled in: load_host.json.j2."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    connection: str
    host: str
    port: str
    user: str
    key: str
    password: bool
    executable: str
    ssh_args: str
    common_args: str
    extra_args: str


class WayToLoad:
    """How the load host is reached."""

    def __init__(self, file: Path) -> None:
        """`file`: what the playbook wrote. Raises UserError if it has no way that we could go."""
        self._found = FoundHost.model_validate_json(file.read_text())
        if self._found.password:
            raise UserError(
                "the load host needs a password, and the sweep cannot type it. "
                "Give it a key: ssh-copy-id, and ansible_ssh_private_key_file in the inventory"
            )

    def command(self, words: Sequence[str], terminal: bool) -> list[str]:
        """The command line that runs a command there."""
        found = self._found
        if found.connection == "local":
            return list(words)
        ssh = [found.executable]
        for option in QUIET_END:
            ssh += ["-o", option]
        for more in (found.ssh_args, found.common_args, found.extra_args):
            ssh += shlex.split(more)
        for option, value in (("-p", found.port), ("-i", found.key), ("-l", found.user)):
            ssh += [option, value] if value else []
        ssh += ["-tt"] if terminal else ["-T"]
        return [*ssh, found.host, shlex.join(words)]
