"""Where the program `thermae` is."""

import os
import sys
import sysconfig
from pathlib import Path

from thermae.errors import EmbeddedUnavailable


def find_binary() -> str:
    """The path of `thermae`: from `THERMAE_BIN`, beside the installed package, or on `PATH`.

    Raises:
        EmbeddedUnavailable: It is nowhere, or `THERMAE_BIN` names no program.
    """
    if named := os.environ.get("THERMAE_BIN"):
        if not _is_program(named):
            raise EmbeddedUnavailable(f"THERMAE_BIN names {named}, which is not a program")
        return named
    for folder in _script_folders():
        if _is_program(path := str(Path(folder, "thermae"))):
            return path
    import shutil  # It imports much, and is rarely needed.

    if found := shutil.which("thermae"):
        return found
    raise EmbeddedUnavailable(f"the program `thermae` was not found (on {sys.platform})")


def _script_folders() -> list[str]:
    """The folders into which a wheel's programs are installed: of this environment, and of the user."""
    schemes = (None, sysconfig.get_preferred_scheme("user"))
    return [sysconfig.get_path("scripts") if s is None else sysconfig.get_path("scripts", s) for s in schemes]


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
