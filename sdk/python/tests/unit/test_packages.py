"""The installation of packages, with the pip of the interpreter that runs the tests, and without a network."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bridge_log import Log
from helpers import children, finished, on_a_loop, program, until
from other_systems import OVER_HTTP
from over_http import of_the_embedded_fleet
from wheels import source_distribution, wheel

from thermae import AsyncSandbox, Sandbox, errors

if not OVER_HTTP:  # There, they can't be imported.
    from thermae import _packages
    from thermae._packages import Packages

pytestmark = of_the_embedded_fleet

SHIM = """#!/bin/sh
case "$*" in
*" install "*)
    echo install >> {log}
    {at_install}
    ;;
*) echo probe >> {log} ;;
esac
exec {python} "$@"
"""


@pytest.fixture(autouse=True)
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the wheels that pip finds."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip-cache"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("THERMAE_CACHE", str(tmp_path / "cache"))
    wheel(tmp_path / "links", "towel", "1.0", requires=["strigil>=2"])
    wheel(tmp_path / "links", "strigil", "2.5")
    return tmp_path / "links"


def shim(tmp_path: Path, at_install: str = "") -> tuple[str, Path]:
    """An interpreter that notes what it is started for, and the file with its notes."""
    python, log = tmp_path / "python", tmp_path / "python.log"
    python.write_text(SHIM.format(log=log, at_install=at_install, python=sys.executable))
    python.chmod(0o755)
    log.touch()
    return str(python), log


def asked(*requirements: str, python: str = sys.executable, refresh: bool = False) -> Packages:
    return Packages(requirements, python, refresh=refresh)


async def installed(*requirements: str, **options: Any) -> tuple[Path, dict[str, str]]:
    """Folder and versions of packages that nobody uses any more."""
    packages = asked(*requirements, **options)
    folder = await packages.ready()
    versions = packages.versions
    packages.close()
    return folder, versions


@on_a_loop
async def test_wheels_are_installed_with_what_they_need() -> None:
    folder, versions = await installed("towel")
    assert versions == {"strigil": "2.5", "towel": "1.0"}
    assert (folder / "towel.py").read_text() == "VERSION = '1.0'\n"
    assert list((folder / "__pycache__").glob("towel.*.pyc")), "every sandbox would compile it"
    assert folder.stat().st_mode & 0o777 == 0o755, "the sandboxes of root could not read it"


def test_the_bridge_is_told_where_the_packages_are(bridge: Log, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "thermae"), Sandbox(packages=["towel"], datasets={"a": "/srv"}) as box:
        assert box.packages == {"strigil": "2.5", "towel": "1.0"}
    (opened,) = bridge.frames("open")
    options = opened["embedded"]
    folder = Path(options["datasets"]["python-packages"])
    assert options["datasets"] == {"a": "/srv", "python-packages": str(folder)}
    assert options["python_path"] == ["/data/python-packages"]
    assert (folder / "strigil.py").exists()
    assert "packages" not in options
    assert "Installing collected packages: strigil, towel" in caplog.text
    assert box.packages == {}


@on_a_loop
async def test_what_was_installed_is_used_again_without_pip(tmp_path: Path, links: Path) -> None:
    first = await installed("strigil", " towel ", "towel")
    shutil.rmtree(links)
    python, log = shim(tmp_path, "exit 9")
    assert await installed("towel", "strigil", python=python) == first
    assert log.read_text() == "probe\n"
    with pytest.raises(errors.PackagesError):
        await installed("towel<2", "strigil", python=python)
    assert log.read_text() == "probe\nprobe\ninstall\n"


@on_a_loop
async def test_newer_versions_come_when_they_are_asked_for(links: Path) -> None:
    user = asked("strigil")
    old = await user.ready()
    wheel(links, "strigil", "3.0")
    assert (await installed("strigil"))[0] == old
    new, versions = await installed("strigil", refresh=True)
    assert versions == {"strigil": "3.0"}
    assert old.exists(), "a sandbox uses it"
    assert await installed("strigil") == (new, versions)
    user.close()
    newest, _ = await installed("strigil", refresh=True)
    assert not old.exists()
    assert not new.exists()
    assert newest.exists()


@on_a_loop
async def test_what_is_damaged_is_installed_again(tmp_path: Path) -> None:
    def break_lock(_: Path) -> None:
        (lock,) = (tmp_path / "cache/packages").glob("*.json")
        lock.write_text(lock.read_text()[:-2])

    harms: list[Callable[[Path], object]] = [
        lambda folder: (folder / "strigil.py").unlink(),
        lambda folder: (folder / "strigil.py").write_text(""),
        lambda folder: (folder / "more.py").write_text(""),
        lambda folder: shutil.rmtree(folder.parent),
        break_lock,
    ]
    folder, versions = await installed("towel")
    for harm in harms:
        harm(folder)
        again, same = await installed("towel")
        assert again != folder
        assert same == versions
        assert (again / "strigil.py").read_text()
        assert not folder.exists()
        folder = again


@on_a_loop
async def test_a_package_without_a_wheel_is_named(tmp_path: Path, links: Path) -> None:
    source_distribution(links, "soap", tmp_path / "built")
    for requirement in ("soap", "towel==7", "nowhere>=1"):
        with pytest.raises(errors.PackagesError) as raised:
            await installed("strigil", requirement)
        assert raised.value.package == requirement
        assert f"no wheel fits {requirement}" in raised.value.message
        assert "ERROR: No matching distribution" in raised.value.message
    assert not (tmp_path / "built").exists()
    assert [one.suffix for one in (tmp_path / "cache/packages").iterdir()] == [".lock"] * 3, "something is left"


@on_a_loop
async def test_a_dependency_is_never_built(tmp_path: Path, links: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "built"
    source = source_distribution(tmp_path / "elsewhere", "soap", mark)
    wheel(links, "sponge", requires=[f"soap @ {source.as_uri()}"])
    wheel(links, "brush", requires=["soap @ git+ssh://host.invalid/repository"])
    plain = [sys.executable, "-m", "pip", "--no-cache-dir", "install", "--only-binary", ":all:", "--target", "plain"]
    subprocess.run([*plain, "sponge"], check=True, capture_output=True, cwd=tmp_path)
    assert mark.exists(), "pip alone does not build it, so this test shows nothing"
    mark.unlink()
    monkeypatch.setenv("PIP_NO_BINARY", ":all:")
    for requirement, started in (("sponge", "python"), ("brush", "git")):
        with pytest.raises(errors.PackagesError, match=f"only wheels are installed, so pip may not start {started}"):
            await installed(requirement)
    assert not mark.exists()


def test_only_one_of_two_processes_installs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    python, log = shim(tmp_path, f"until [ -e {go} ]; do sleep 0.01; done")
    source = f"""
import asyncio
from thermae._packages import Packages
packages = Packages(["towel"], {python!r}, refresh=False)
print(asyncio.run(packages.ready()), packages.versions)
"""
    both = [program(source), program(source)]
    until(lambda: sorted(log.read_text().split()) == ["install", "probe", "probe"])
    go.touch()
    (status, first, why), (other_status, second, _) = [finished(one) for one in both]
    assert (status, other_status) == (0, 0), why
    assert first == second
    assert "'towel': '1.0'" in first
    assert log.read_text().split().count("install") == 1


@on_a_loop
async def test_an_installation_that_takes_too_long_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python, log = shim(tmp_path, "sleep 600")
    monkeypatch.setattr(_packages, "INSTALL_WITHIN", 1.0)
    with pytest.raises(errors.PackagesError, match="within 1 seconds"):
        await installed("towel", python=python)
    monkeypatch.setattr(_packages, "INSTALL_WITHIN", 600.0)
    # On a busy machine, the first installation may have been killed before it wrote anything.
    before = log.read_text().split().count("install")
    task = asyncio.create_task(installed("towel", python=python))
    while log.read_text().split().count("install") == before:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children(os.getpid())
    assert [one.suffix for one in (tmp_path / "cache/packages").iterdir()] == [".lock"]


@on_a_loop
async def test_without_pip_uv_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = str(tmp_path / "bare/bin/python")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(errors.PackagesError, match="has no pip, and there is no uv") as raised:
        await installed("towel", python=python)
    assert "-m ensurepip" in raised.value.advice
    # A stand-in: it notes how it is called, and unpacks one wheel.
    uv = tmp_path / "bin/uv"
    uv.parent.mkdir()
    uv.write_text(f"""#!{sys.executable}
import json, pathlib, sys, zipfile
pathlib.Path({str(tmp_path / "uv.json")!r}).write_text(json.dumps(sys.argv[1:]))
zipfile.ZipFile({str(tmp_path / "links/strigil-2.5-py3-none-any.whl")!r}).extractall(
    sys.argv[sys.argv.index("--target") + 1])
""")
    uv.chmod(0o755)
    assert (await installed("strigil", python=python))[1] == {"strigil": "2.5"}
    words = json.loads((tmp_path / "uv.json").read_text())
    assert words[:4] == ["pip", "install", "--python", python]
    assert words[words.index("--only-binary") + 1] == ":all:"
    assert words[-2:] == ["--", "strigil"]


@on_a_loop
async def test_something_else_than_an_interpreter_is_told(tmp_path: Path) -> None:
    for python in ("/bin/true", str(tmp_path / "nowhere")):
        with pytest.raises(errors.PackagesError, match=python):
            await installed("towel", python=python)


@pytest.mark.parametrize(
    "requirement",
    [
        "./soap",
        "/srv/soap",
        "soap @ file:///srv/soap.tar.gz",
        "git+ssh://host/soap",
        "soap.whl",
        "soap-1.0-py3-none-any.whl",
        "SOAP.ZIP",
        "soap.zip[extra]",
        "soap==1.tar.gz",
        "soap.tar.gz ; python_version > '3'",
        "-r list.txt",
        "--pre",
        "",
        "a\nb",
    ],
)
def test_only_names_with_versions_are_taken(requirement: str) -> None:
    with pytest.raises(ValueError, match="PIP_FIND_LINKS"):
        AsyncSandbox(packages=["towel", requirement])


@pytest.mark.parametrize(
    "requirement",
    ["towel", "a", "zope.interface", "towel[big,red]>=1.0,!=1.5", "towel ~= 1.0", "towel==1!2.*; python_version > '3'"],
)
def test_requirements_are_as_for_pip(requirement: str) -> None:
    assert asked(requirement).requirements == [requirement]


def test_what_cant_be_combined_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="packages: only the embedded fleet"):
        Sandbox("amqp://u@h", packages=["towel"])
    with pytest.raises(ValueError, match="python-packages"):
        Sandbox(packages=["towel"], datasets={"python-packages": "/srv"})
    with pytest.raises(ValueError, match=r"write a list, such as \['towel'\]"):
        Sandbox(packages="towel")
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(ValueError, match="python="):
        Sandbox(packages=["towel"])
    assert Sandbox(packages=[]).packages == {}
