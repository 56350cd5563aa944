"""Snippets and examples have right types, by mypy and by pyright."""

import json
import subprocess
import sys
from pathlib import Path

from docs.snippets import EXAMPLES, PAGES, ROOT, program, runnable
from helpers import SRC


def files(folder: Path) -> list[str]:
    """The programs of the pages as files, and the examples."""
    written: list[str] = []
    for page in PAGES:
        if runnable(page):
            file = folder / (page.relative_to(ROOT).as_posix().replace("/", "_").replace("-", "_")[:-3] + ".py")
            file.write_text(program(page))
            written.append(str(file))
    return [*written, *map(str, sorted(EXAMPLES.glob("*.py")))]


def check(command: list[str], folder: Path) -> None:
    """Runs a checker, which must find nothing."""
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy(tmp_path: Path) -> None:
    settings = tmp_path / "mypy.ini"
    settings.write_text(f"[mypy]\nstrict = True\nmypy_path = {SRC}\n")
    cache = ROOT / "target/mypy-docs"
    check(["mypy", "--config-file", str(settings), "--cache-dir", str(cache), *files(tmp_path)], tmp_path)


def test_pyright(tmp_path: Path) -> None:
    settings = tmp_path / "pyrightconfig.json"
    options = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [SRC]}
    settings.write_text(json.dumps({**options, "include": files(tmp_path)}))
    check(["basedpyright", "--project", str(settings), "--level", "error"], tmp_path)
