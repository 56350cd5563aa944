"""Which fleet a sandbox uses, and the options of the embedded one."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from thermae._units import to_bytes, to_count, to_ms

if TYPE_CHECKING:
    from thermae._packages import Packages

EMBEDDED = "embedded"
"""In place of a URL, this means the embedded fleet even if `THERMAE_URL` names another."""


PACKAGES = "python-packages"
"""Name of the dataset with the packages that `packages=` asks for."""


class EmbeddedOptions(TypedDict, total=False):
    """Options of the embedded fleet.

    Attributes:
        python: Interpreter for the sandboxes, whose packages programs can import; by default, this process's own.
        slots: How many jobs run at once; by default, two for each processor.
        spares: How many sandboxes are made ahead in each container.
        memory: Memory of a job, in bytes or as text such as `256MiB`.
        cpu: Seconds of CPU time of a job.
        disk: Size of all writable file systems of a sandbox together.
        wall: Seconds by the wall clock that a job can run.
        datasets: Folders and files of this machine that jobs find at `/data/<name>`, read-only.
        preload: Modules that are imported before jobs need them; by default, numpy and pandas if there are any.
        max_sessions: How many sessions may live at once; by default 16. A new one then ends the one that was used
            longest ago (`SessionEvicted`), if nothing ran in it for `session_min_idle`. If there is none,
            `SessionLimit` is raised.
        session_min_idle: Seconds that a session must be unused before it may make room for another one; by default 30.
        packages: Packages that programs can import in addition to the interpreter's own, as for pip: `polars`,
            `httpx>=0.27,<1`. Their wheels are installed in your cache when the sandbox opens, once for all sandboxes
            that ask for the same.
        store: Folder where files are stored that outlive this process: artifacts, and the checkpoints of sessions. By
            default, artifacts are in a temporary folder, and there are no checkpoints.
        audit: File that gets a line of JSON for each tool call before it is made, and one for its end. `thermae audit`
            checks that no line was changed since.
        audit_redact: Values of arguments that are left out there, by their paths: `card/number`, or `**/password`.
        answers_run_memory: Memory for answers to tool calls that one program has not read, in bytes or as text; by
            default `32MiB`. Further ones are on the disk.
        answers_memory: Memory for such answers of all programs; by default `128MiB`.
        answers_disk: Size of all answers on the disk; by default `4096MiB`. A further one is dropped, and its call
            raises `ToolError`.
        answers_dir: Folder for these answers; by default `/var/tmp`. None is left when the sandbox is closed.
        token_keys: Folder with the public keys of those whose capability tokens jobs may use, such as `1.pem`.
        token_revoked: File with the revoked tokens, one revocation id in each line.
        token_skew: Seconds by which clocks may differ, at most 300; by default 30.
        packages_refresh: Whether to look for newer versions of `packages`, instead of those that were installed before.
    """

    python: str | os.PathLike[str]
    slots: int
    spares: int
    memory: int | str
    cpu: float
    disk: int | str
    wall: float
    datasets: Mapping[str, str | os.PathLike[str]]
    preload: Sequence[str]
    max_sessions: int
    session_min_idle: float
    packages: Sequence[str]
    packages_refresh: bool
    store: str | os.PathLike[str]
    audit: str | os.PathLike[str]
    audit_redact: Sequence[str]
    answers_run_memory: int | str
    answers_memory: int | str
    answers_disk: int | str
    answers_dir: str | os.PathLike[str]
    token_keys: str | os.PathLike[str]
    token_revoked: str | os.PathLike[str]
    token_skew: float


def url_of(url: str | None) -> str:
    """The URL of the fleet: as given, or as in `THERMAE_URL`, or else the name of the embedded one."""
    return url or os.environ.get("THERMAE_URL") or EMBEDDED


def opening(url: str | None, tenant: str | None, embedded: EmbeddedOptions) -> dict[str, Any]:
    """What a connection opens: the fields of the frame `open`.

    Raises:
        TypeError: An option is unknown, or has a value of a wrong type.
        ValueError: Options of the embedded fleet are given together with a URL, or have values that can't be used.
    """
    if unknown := embedded.keys() - EmbeddedOptions.__annotations__.keys():
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    given = {name: value for name, value in embedded.items() if value is not None}
    url = url_of(url)
    tenant = tenant or os.environ.get("THERMAE_TENANT")
    if url == EMBEDDED:
        return {"embedded": _embedded(given)}
    if given:
        names = ", ".join(sorted(given))
        raise ValueError(
            f"{names}: only the embedded fleet has these options, but a URL is given (as an argument or in "
            f"THERMAE_URL). Leave them out, or pass {EMBEDDED!r} in place of the URL"
        )
    return {"url": url, **({"tenant": tenant} if tenant else {})}


def wanted_packages(opening: dict[str, Any], embedded: EmbeddedOptions) -> "Packages | None":
    """The packages that the options ask for.

    Raises:
        ValueError: A requirement can't be used, or a dataset has the name of the packages' own.
    """
    requirements = embedded.get("packages")
    if not requirements:
        return None
    if sys.platform == "win32":
        from thermae.errors import EmbeddedUnavailable

        raise EmbeddedUnavailable("packages are for the embedded fleet, which needs Linux")
    from thermae._packages import Packages  # Few programs need it, and it imports what Windows does not have.

    if PACKAGES in opening["embedded"].get("datasets", {}):
        raise ValueError(f"datasets: {PACKAGES!r} is the name of the folder with the packages")
    python = opening["embedded"].get("python")
    if python is None:
        raise ValueError("packages: name the interpreter that they are for in python=")
    return Packages(requirements, python, refresh=embedded.get("packages_refresh", False))


def with_packages(opening: dict[str, Any], folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of the frame `open`, with installed packages."""
    options = opening["embedded"]
    datasets = {**options.get("datasets", {}), PACKAGES: os.fspath(folder)}
    return {"embedded": {**options, "datasets": datasets, "python_path": [f"/data/{PACKAGES}"]}}


def redacted(text: str) -> str:
    """The text without the passwords of the URLs in it."""
    return re.sub(r"(\w+://[^/\s:@]*):[^/\s]*@", r"\1:…@", text)


def _names(value: Sequence[str]) -> list[str]:
    if isinstance(value, str):
        raise TypeError(f"a list of names is needed, not the text {value!r}")
    return list(value)


def _embedded(options: dict[str, Any]) -> dict[str, Any]:
    convert: dict[str, Callable[[Any], Any]] = {
        "python": os.path.abspath,
        "slots": to_count,
        "spares": to_count,
        "memory": to_bytes,
        "cpu": to_ms,
        "disk": to_bytes,
        "wall": to_ms,
        "datasets": lambda paths: {name: os.path.abspath(path) for name, path in paths.items()},
        "preload": _names,
        "max_sessions": to_count,
        "session_min_idle": lambda seconds: to_ms(seconds) if seconds else 0,
        "store": os.path.abspath,
        "audit": os.path.abspath,
        "audit_redact": _names,
        "answers_run_memory": to_bytes,
        "answers_memory": to_bytes,
        "answers_disk": to_bytes,
        "answers_dir": os.path.abspath,
        "token_keys": os.path.abspath,
        "token_revoked": os.path.abspath,
        "token_skew": lambda seconds: to_ms(seconds) if seconds else 0,
    }
    # Programs should find the packages that this process finds.
    python = os.environ.get("THERMAE_PYTHON") or sys.executable
    given = {**({"python": python} if python else {}), **options}
    return {name: convert[name](value) for name, value in given.items() if name in convert}
