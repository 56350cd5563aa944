"""Packages for the embedded fleet's programs: wheels in a folder of the user's cache, which sandboxes see read-only.

```text
<cache>/packages/<key>.lock     held by the process that looks the key up or installs
<cache>/packages/<key>.json     the lock file: resolved versions, the folder, and the size of each file in it
<cache>/packages/<key>-<random> the folder; it never changes, and is locked (shared) by each process that uses it
                          /lib  the modules; programs see only this, so they can't lock the folder
```

The key stands for the requirements and the interpreter. Nothing of a package runs on this machine outside of a sandbox:
only wheels are installed, and those are unpacked.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from thermae._options import redacted
from thermae.errors import PackagesError

_log = logging.getLogger("thermae")

INSTALL_WITHIN = 600.0
"""Seconds that an installation can take, with the time that it waits for another process to install the same."""

_REQUIREMENT = re.compile(
    r"""
    [A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?  # the name
    (?:\s*\[[A-Za-z0-9._,\s-]*\])?              # extras
    (?:\s*[<>=!~][A-Za-z0-9.*+!_,<>=~\s-]*)?    # versions
    (?:\s*;[^\n]*)?                             # when it is needed
    """,
    re.VERBOSE,
)

_ARCHIVES = (
    ".whl",
    ".zip",
    ".egg",
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.bz2",
    ".tbz",
    ".tar.xz",
    ".txz",
    ".tar.lz",
    ".tlz",
    ".tar.lzma",
    ".tar.zst",
)
"""Ends of what an installer takes for a file of the current folder, if it is there, and not for a name."""

_PROBE = """
import importlib.util, json, os, sys, sysconfig
abi = [os.path.realpath(sys.executable), sys.version, sysconfig.get_config_var("SOABI"), sysconfig.get_platform()]
abi.append(sys.prefix)  # The first line of each command names the interpreter of this environment.
print(json.dumps([abi, importlib.util.find_spec("pip") is not None]))
"""
"""Prints what an interpreter is, and whether it has pip."""

_PIP = """
import os, runpy, sys
def refuse(event, details):
    if event in ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"):
        named = event in ("os.posix_spawn", "subprocess.Popen")
        name = os.path.basename(os.fsdecode(details[0])) if named else ""
        if name != "keyring" and not name.startswith("ld-musl-"):
            raise OSError("only wheels are installed, so pip may not start " + (name or "a program"))
sys.addaudithook(refuse)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Runs pip in an interpreter that can't start programs. The option for wheels only does not hold for a dependency that
names the URL of a source distribution, and pip builds one by starting its program. `keyring` has passwords of indexes,
and musl's loader tells its version."""

_UNMET = re.compile(r"(?:No matching distribution found for|you require) ([A-Za-z0-9][^\s(]*)")


@dataclass(frozen=True, slots=True)
class Environment:
    """Installed packages.

    Attributes:
        modules: The folder with the modules.
        versions: The version of each package, by its name.
        lease: A descriptor that keeps the folder from being removed. Close it.
    """

    modules: Path
    versions: Mapping[str, str]
    lease: int


def _may_be_a_file(requirement: str) -> bool:
    """Whether an installer may look for a file of this name."""
    names = (requirement, requirement.partition(";")[0], re.sub(r"\[[^\]]*\]", "", requirement.partition(";")[0]))
    return any(name.strip().lower().endswith(_ARCHIVES) for name in names)


class Packages:
    """What `packages=` asks for."""

    def __init__(self, requirements: Sequence[str], python: str, *, refresh: bool) -> None:
        """Checks the requirements. Nothing is installed yet.

        Raises:
            ValueError: Something is not a name with versions.
        """
        if isinstance(requirements, str):
            raise ValueError(f"packages: write a list, such as [{requirements!r}]")
        for one in requirements:
            is_text = isinstance(one, str)  # pyright: ignore[reportUnnecessaryIsInstance]
            if not is_text or not _REQUIREMENT.fullmatch(one.strip()) or _may_be_a_file(one):
                raise ValueError(
                    f"packages: {one!r} is not the name of a package, with or without versions, such as 'polars' or "
                    f"'httpx>=0.27,<1'. URLs, paths and options are refused, because they can lead to code that runs "
                    f"on this machine. Put wheels of your own into a folder, and name it in PIP_FIND_LINKS (for uv, in "
                    f"UV_FIND_LINKS)"
                )
        self.requirements = sorted({" ".join(one.split()) for one in requirements})
        self._python = python
        self._refresh = refresh
        self._environment: Environment | None = None

    @property
    def versions(self) -> dict[str, str]:
        """The version of each package, by its name. Empty before `ready`."""
        return dict(self._environment.versions) if self._environment else {}

    async def ready(self) -> Path:
        """The folder with the modules. Packages are installed if they are not there, or if they are damaged.

        Raises:
            PackagesError: They can't be installed.
        """
        try:
            if self._environment is None:
                async with asyncio.timeout(INSTALL_WITHIN):
                    self._environment = await self._ready()
            return self._environment.modules
        except TimeoutError:
            raise PackagesError(f"{self._names} could not be installed within {INSTALL_WITHIN:g} seconds") from None
        except OSError as error:
            raise PackagesError(f"{self._names} can't be installed: {error}") from error

    def close(self) -> None:
        """Lets the folder be removed, if it is replaced. Call this when no sandbox uses it any more."""
        environment, self._environment = self._environment, None
        if environment is not None:
            os.close(environment.lease)

    async def _ready(self) -> Environment:
        abi, has_pip = await self._interpreter()
        cache = _cache()
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = hashlib.sha256(json.dumps([self.requirements, abi]).encode()).hexdigest()[:32]
        lock_file = cache / f"{key}.json"
        async with _alone(cache / f"{key}.lock"):
            if not self._refresh and (there := _read(lock_file)) is not None:
                return there
            folder = Path(tempfile.mkdtemp(prefix=f"{key}-", dir=cache))
            try:
                modules = folder / "lib"
                modules.mkdir()
                modules.chmod(0o755)  # The sandboxes of root have other users.
                await self._install(modules, has_pip)
                _write(lock_file, folder, self.requirements, abi)
                environment = _read(lock_file)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            if environment is None:
                raise PackagesError(f"{folder} changed while packages were installed in it")
            self._refresh = False  # A connection that opens again finds the same packages.
            _remove_unused(cache, key, folder)
        _log.info("packages installed packages.count=%d packages.folder=%s", len(environment.versions), folder)
        return environment

    @property
    def _names(self) -> str:
        return ", ".join(self.requirements)

    async def _interpreter(self) -> tuple[list[str | None], bool]:
        lines: list[str] = []
        if await _run([self._python, "-I", "-c", _PROBE], lines) == 0:
            with contextlib.suppress(ValueError, IndexError):
                abi, has_pip = json.loads(lines[-1])
                return abi, has_pip
        raise PackagesError(f"{self._python} is no interpreter of Python that runs here: {_last(lines)}")

    async def _install(self, modules: Path, has_pip: bool) -> None:
        common = ["--only-binary", ":all:", "--target", str(modules)]
        if has_pip:
            quiet = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--no-user"]
            command = [self._python, "-I", "-c", _PIP, "install", *quiet, *common]
        elif uv := shutil.which("uv"):
            # As pip does by default: uv would link to files of its own cache, and each program would compile modules.
            copied = ["--link-mode", "copy", "--compile-bytecode"]
            command = [uv, "pip", "install", "--python", self._python, "--no-progress", *copied, *common]
        else:
            raise PackagesError(
                f"{self._python} has no pip, and there is no uv on PATH",
                advice=f"Run `{self._python} -m ensurepip`, install uv, or name an interpreter with pip in python=.",
            )
        _log.info("packages are being installed packages.requirements=%s", self._names)
        lines: list[str] = []
        status = await _run([*command, "--", *self.requirements], lines, tell=True)
        if status != 0:
            unmet = _UNMET.search("\n".join(lines))
            package = unmet[1].rstrip(",") if unmet else None
            what = f"no wheel fits {package}" if package else f"{self._names} can't be installed"
            error = PackagesError(f"{what}\n{_last(lines)}")
            error.package = package
            raise error


def _cache() -> Path:
    """The folder of all environments."""
    if own := os.environ.get("THERMAE_CACHE"):
        return Path(own).absolute() / "packages"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "thermae/packages"


@contextlib.asynccontextmanager
async def _alone(path: Path) -> AsyncGenerator[None, None]:
    """Waits until no other process has the lock, and keeps it during the block."""
    path.touch()
    pause = 0.01
    while (file := _lock(path)) is None:
        await asyncio.sleep(pause)  # A call that waits would take a thread, and could not be cancelled.
        pause = min(pause * 2, 0.5)
    try:
        yield
    finally:
        os.close(file)


def _lock(path: Path, *, shared: bool = False) -> int | None:
    """Locks a file or a folder; `None` if that would have to wait. Closing the descriptor releases the lock."""
    assert sys.platform != "win32"
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _read(lock_file: Path) -> Environment | None:
    """What the lock file names; `None` if there is nothing, or if it is not what was installed."""
    try:
        lock = json.loads(lock_file.read_bytes())
        folder, versions = lock_file.parent / lock["folder"], lock["versions"]
        if dict(_sizes(folder)) == lock["files"] and (lease := _lock(folder, shared=True)) is not None:
            return Environment(folder / "lib", versions, lease)
        problem = "files are missing or were changed"
    except FileNotFoundError as error:
        if error.filename == str(lock_file):
            return None
        problem = str(error)
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = repr(error)
    _log.warning("packages are damaged and are installed again packages.lock=%s error=%s", lock_file, problem)
    return None


def _write(lock_file: Path, folder: Path, requirements: list[str], abi: list[str | None]) -> None:
    found = importlib.metadata.distributions(path=[str(folder / "lib")])
    lock = {
        "requirements": requirements,
        "interpreter": abi,
        "versions": dict(sorted((one.metadata["Name"], one.version) for one in found)),
        "folder": folder.name,
        "files": dict(_sizes(folder)),
    }
    new = lock_file.with_suffix(".new")
    new.write_text(json.dumps(lock, indent=1))
    new.replace(lock_file)


def _sizes(folder: Path, below: str = "") -> Iterator[tuple[str, int]]:
    """Each file of a folder with its size; of a link, the length of its target."""
    with os.scandir(folder / below) as entries:
        for entry in entries:
            path = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(folder, path)
            else:
                yield path, entry.stat(follow_symlinks=False).st_size


def _remove_unused(cache: Path, key: str, current: Path) -> None:
    """Removes the other folders of a key that no sandbox uses. The caller holds the key's lock."""
    for folder in cache.glob(f"{key}-*"):
        with contextlib.suppress(OSError):
            if folder != current and (lease := _lock(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lease)


async def _run(command: Sequence[str], lines: list[str], *, tell: bool = False) -> int:
    """Runs a program and collects the lines that it prints. It is killed if the caller is cancelled."""
    assert sys.platform != "win32"
    environment = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0"}  # The target is no environment that others use.
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        start_new_session=True,
        umask=0o022,
        limit=1 << 20,
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            if text := redacted(line.decode(errors="replace").strip()):
                lines.append(text)
                if tell:
                    _log.info("pip: %s", text)
        return await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())


def _last(lines: list[str]) -> str:
    return "\n".join(lines[-12:]) or "it printed nothing"
