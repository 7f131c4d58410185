# SPDX-License-Identifier: MIT
"""A result describes the machine although the kernel does not name its processor."""

import platform
from pathlib import Path

import pytest

from bench.host.machine import cpu_model

ARM = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("cpuinfo", "lscpu", "name"),
    [
        ("model\t\t: 2\nmodel name\t: AMD EPYC\n", "Model name:  Another\n", "AMD EPYC"),
        (f"{ARM}\nModel\t\t: Raspberry Pi 4\n", "Model name:  Cortex-A72\n", "Raspberry Pi 4"),
        (ARM, "Vendor ID:   ARM\nModel name:  Neoverse-N1\nModel:   1\n", "Neoverse-N1"),
        (ARM, "Vendor ID:   0x00\nModel name:  -\nModel:   0\n", platform.machine()),
    ],
)
def test_the_name_of_the_processor(
    cpuinfo: str, lscpu: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "lscpu"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{lscpu}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert cpu_model(cpuinfo) == name
