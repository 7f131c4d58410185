# SPDX-License-Identifier: MIT
"""The hosts of a sweep, and how they are reached: the file that `--hosts` names.

    {"load":    {"name": "load", "address": "10.77.0.1"},
     "nginx":   {"name": "nginx", "address": "10.77.0.2", "agent": ["ssh", "nginx"]},
     "servers": [{"name": "zerohttpd", "address": "10.77.0.3", "agent": ["ssh", "zerohttpd"]}],
     "redis":   {"name": "redis", "address": "10.77.0.4", "agent": ["ssh", "redis"]}}

The sweep itself runs on the load host. `address` is where the data traffic goes; `agent` is the
command that starts `python -m bench.stations.agent` on that host in this very checkout, and is
talked to over its standard input and output. Without `nginx` there is no load balancer.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.host.machine import place_here
from bench.records import json_file
from bench.records.environment import Placement
from bench.records.errors import UserError, in_words
from bench.records.figures import Role


def _address(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", value):
        raise ValueError("is no IPv4 address and no host name")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""It goes into command lines and configurations as it is, so it can be nothing else."""


class LoadHost(BaseModel):
    """The host that the sweep runs on."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    address: Address


class AgentHost(LoadHost):
    """A host behind an agent."""

    agent: list[str] = Field(min_length=1)


class Hosts(BaseModel):
    """All hosts by what they are there for."""

    model_config = ConfigDict(extra="forbid")

    load: LoadHost
    nginx: AgentHost | None = None
    servers: list[AgentHost] = Field(min_length=1)
    redis: AgentHost

    def all(self) -> Iterator[tuple[Role, LoadHost]]:
        """Every host and its role."""
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
            raise ValueError(f"two hosts are called {', '.join(twice)}")
        return self


def chosen(file: Path | None, instances: int) -> tuple[Placement, Hosts | None]:
    """The hosts that a file names; for None this machine, whose CPUs are dealt out for so many
    instances of a server. Raises UserError."""
    if file is None:
        return place_here(instances), None
    return Placement(server=[], load=[], note="each role on a host of its own"), load_hosts(file)


def load_hosts(path: Path) -> Hosts:
    """Read the file. Raises UserError that says what is wrong with it, and where."""
    try:
        return Hosts.model_validate(json_file.read(path))
    except ValidationError as error:
        raise UserError(f"{path}: {in_words(error)}") from error
