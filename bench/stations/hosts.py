# SPDX-License-Identifier: MIT
"""Read the file of `--hosts`: the hosts of a sweep, and how to reach them.

    {"load":    {"name": "load", "address": "10.77.0.1"},
     "nginx":   {"name": "nginx", "address": "10.77.0.2", "agent": ["ssh", "nginx"]},
     "servers": [{"name": "zerohttpd", "address": "10.77.0.3", "agent": ["ssh", "zerohttpd"]}],
     "redis":   {"name": "redis", "address": "10.77.0.4", "agent": ["ssh", "redis"]}}

The sweep runs on the load host. `address` is for the data traffic. `agent` is the command that
starts `python -m bench.stations.agent` on that host with the same files as here; the sweep uses its
standard input and output. Without `nginx` there is no load balancer.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.host.machine import place_here
from bench.records import store
from bench.records.environment import Placement
from bench.records.errors import UserError, in_words
from bench.records.figures import Role


def _address(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", value):
        raise ValueError("is not an IPv4 address or host name")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""It is written into command lines and configurations, so other characters are not allowed."""


class LoadHost(BaseModel):
    """The host that the sweep runs on."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    address: Address


HERE = LoadHost(name="this machine", address="127.0.0.1")
"""This machine, if it has all roles."""


class AgentHost(LoadHost):
    """A host with an agent."""

    agent: list[str] = Field(min_length=1)


class Hosts(BaseModel):
    """All hosts by role."""

    model_config = ConfigDict(extra="forbid")

    load: LoadHost
    nginx: AgentHost | None = None
    servers: list[AgentHost] = Field(min_length=1)
    redis: AgentHost

    def all(self) -> Iterator[tuple[Role, LoadHost]]:
        """Yield each host with its role."""
        yield "load", self.load
        if self.nginx:
            yield "nginx", self.nginx
        for server in self.servers:
            yield "server", server
        yield "redis", self.redis

    @model_validator(mode="after")
    def _names_differ(self) -> "Hosts":
        names = [host.name for _, host in self.all()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two hosts have the name {', '.join(twice)}")
        return self


def chosen(file: Path | None, instances: int) -> tuple[Placement, Hosts | None]:
    """Return the hosts of a file, or for None this machine, with its CPUs divided for so many
    instances of a server. Raise UserError if the file is not valid."""
    if file is None:
        return place_here(instances), None
    return Placement(server=[], load=[], note="each role on its own host"), load_hosts(file)


def load_hosts(path: Path) -> Hosts:
    """Return the hosts of a file. Raise UserError with the place if it is not valid."""
    try:
        return Hosts.model_validate(store.read(path))
    except ValidationError as error:
        raise UserError(f"{path}: {in_words(error)}") from error
