"""Every example runs, and prints what its docstring says."""

import ast
import copy
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import nbformat as _nbformat
import pytest
from docs.snippets import EXAMPLES
from helpers import environment
from nbclient import NotebookClient

nbformat: Any = _nbformat
NEED_FLEET = {"resume.py", "reattach.py"}
UPDATE = "THERMAE_UPDATE" in os.environ


def promised(source: str) -> str:
    """What an example prints, as its docstring says."""
    docstring = ast.get_docstring(ast.parse(source), clean=True) or ""
    found = re.search(r"^It prints:\n\n((?: {4}.*\n?|\n)+)", docstring, re.MULTILINE)
    assert found is not None, "the docstring does not say what it prints"
    return textwrap.dedent(found[1]).rstrip("\n") + "\n"


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.fleet] if path.name in NEED_FLEET else [])
        for path in sorted(EXAMPLES.glob("*.py"))
    ],
)
def test_the_example(example: Path, fleet: str, tmp_path: Path) -> None:
    settings = {"THERMAE_URL": fleet} if example.name in NEED_FLEET else {}
    done = subprocess.run(
        [sys.executable, "-W", "error", example],
        env={**environment(), **settings},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == promised(example.read_text())
    assert not list(tmp_path.iterdir()), "it leaves files behind"


def outputs(notebook: Any) -> list[list[tuple[str, Any]]]:
    """What the cells of a notebook show."""
    shown: list[list[tuple[str, Any]]] = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shown.append([(one.output_type, one.get("text") or one.get("data")) for one in cell.outputs])
    return shown


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_the_notebook(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = nbformat.read(example, as_version=4)
    run = copy.deepcopy(saved)
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(run, timeout=60, kernel_name="python3", record_timing=False, resources=place).execute()
    if UPDATE:
        run.metadata = saved.metadata
        nbformat.write(run, example)
    assert outputs(run) == outputs(saved)
    assert any(outputs(saved)), "it shows nothing"


def test_an_example_without_its_output_fails() -> None:
    assert promised('"""A.\n\nIt prints:\n\n    a\n      b\n\n    c\n"""\n') == "a\n  b\n\nc\n"
    with pytest.raises(AssertionError):
        promised('"""A."""\n')
