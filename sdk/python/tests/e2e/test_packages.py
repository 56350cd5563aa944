import importlib.util
import os
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from helpers import on_a_loop, until
from over_http import of_the_embedded_fleet
from wheels import wheel

from thermae import AsyncSandbox, Sandbox, errors

CODE = """
import sys
early = "towel" in sys.modules
import subprocess, towel
print(early, towel.__file__, towel.VERSION, towel.helper())
started = subprocess.run([sys.executable, "-c", "import towel; print(towel.VERSION)"], capture_output=True, text=True)
print(started.stdout, end="")
for name in ("towel.py", "new.py"):
    try:
        open(f"/data/python-packages/{name}", "w")
    except OSError as error:
        print(error.strerror)
"""

PRINTS = """True /data/python-packages/towel.py 1.5 2.5
1.5
Read-only file system
Read-only file system
"""


pytestmark = of_the_embedded_fleet


@pytest.fixture(autouse=True)
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the wheels that pip finds."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("THERMAE_CACHE", str(tmp_path / "cache"))
    towel = "import strigil\nVERSION = '1.5'\ndef helper():\n    return strigil.VERSION\n"
    wheel(tmp_path / "links", "towel", "1.5", files={"towel.py": towel}, requires=["strigil"])
    wheel(tmp_path / "links", "strigil", "2.5")
    return tmp_path / "links"


def test_programs_import_packages_that_they_cant_change() -> None:
    with Sandbox(packages=["towel>=1,<2"], preload=["towel"], slots=1) as box:
        assert box.packages == {"strigil": "2.5", "towel": "1.5"}
        first = box.run(CODE, check=True).stdout
        assert first in (PRINTS, PRINTS.replace("True", "False"))
        # The first program that imports a module makes the fleet import it ahead of later ones.
        until(lambda: box.run(CODE, check=True).stdout == PRINTS)
        with box.session() as session:
            assert session.run("import strigil; print(strigil.VERSION)", check=True).stdout == "2.5\n"
    with Sandbox(slots=1) as box:
        failed = box.run("import towel").error
        assert failed is not None
        assert failed.exception == "ModuleNotFoundError"


COMMANDS = """
for python in python python3; do $python -c 'import sys, towel; print(sys.prefix, towel.VERSION)'; done
towel
"""


def test_commands_are_those_of_the_interpreter_and_of_packages(links: Path) -> None:
    files = {"towel.py": "VERSION = '1.5'\ndef main():\n    print('hello from', VERSION)\n"}
    wheel(links, "towel", "1.5", files=files, scripts={"towel": "towel:main"})
    printed = f"{sys.prefix} 1.5\n" * 2 + "hello from 1.5\n"
    # Of a virtual environment, as the tests' own is, these names are the interpreter's.
    with Sandbox(packages=["towel"], slots=1) as box, box.session() as session:
        assert box.run(COMMANDS, language="bash", check=True).stdout == printed
        assert box.run(argv=["towel"], check=True).stdout == "hello from 1.5\n"
        program = f"import subprocess\nsubprocess.run({COMMANDS!r}, shell=True)"
        assert session.run(program, check=True).stdout == printed
        assert session.exec(COMMANDS).text == printed
        # Without a network, pip says at once what helps instead.
        for pip in ("pip", "python3 -m pip"):
            refused = box.run(f"{pip} install strigil", language="bash")
            assert refused.exit_code == 1
            assert refused.stderr.count("packages=") == 1
            assert "Retrying" not in refused.stderr
        # So do git, which pip starts, and uv.
        others = [f"pip install git+{how}://git@example.invalid/x.git" for how in ("https", "ssh")]
        others += ["uv pip install strigil", "uv add strigil"]
        for command in others:
            if shutil.which("git" if "git+" in command else "uv"):
                refused = box.run(command, language="bash")
                assert refused.exit_code != 0
                assert "packages" in refused.stdout + refused.stderr, command


def test_each_environment_has_commands_of_its_own(tmp_path: Path, links: Path) -> None:
    files = {"towel.py": "import sys\ndef main():\n    print(sys.prefix)\n"}
    wheel(links, "towel", "1.5", files=files, scripts={"towel": "towel:main"})
    pip = importlib.util.find_spec("pip")
    if pip is None or pip.origin is None:
        pytest.skip("this interpreter has no pip")
    for name in ("gone", "new"):
        made = tmp_path / name
        venv.create(made, symlinks=True)
        modules = Path(sysconfig.get_path("purelib", vars={"base": str(made)}))
        (modules / "pip.pth").write_text(str(Path(pip.origin).parents[1]))
        with Sandbox(packages=["towel"], python=str(made / "bin/python"), slots=1) as box:
            assert box.run(argv=["towel"], check=True).stdout == f"{made}\n"
        shutil.rmtree(made)


@on_a_loop
async def test_an_async_sandbox_has_packages_too(links: Path) -> None:
    async with AsyncSandbox(packages=["strigil"], slots=1) as box:
        assert (await box.run("import strigil; print(strigil.VERSION)", check=True)).stdout == "2.5\n"
    with pytest.raises(errors.PackagesError, match="no wheel fits nowhere"):
        async with AsyncSandbox(packages=["nowhere"], slots=1):
            pass
