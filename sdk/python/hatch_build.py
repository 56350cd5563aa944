"""Puts the program `thermae` into the wheel if `cargo xtask wheel` names one; without it, the wheel is pure."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramHook(BuildHookInterface):
    """Adds the program to the wheel's scripts (pip installs them beside the interpreter), and the notices it needs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Reads from the environment where the program and the notices are, and which platform they are for."""
        program = os.environ.get("THERMAE_WHEEL_PROGRAM")
        if not program:
            return
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["THERMAE_WHEEL_PLATFORM"]
        build_data["shared_scripts"][program] = "thermae"
        build_data["extra_metadata"][os.environ["THERMAE_WHEEL_NOTICES"]] = "THIRD-PARTY.txt"
