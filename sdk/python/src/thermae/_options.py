"""Which fleet a sandbox uses, and the options of the embedded one."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from thermae._units import to_bytes, to_ms

EMBEDDED = "embedded"
"""In place of a URL, this means the embedded fleet even if `THERMAE_URL` names another."""


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


def opening(url: str | None, tenant: str | None, embedded: EmbeddedOptions) -> dict[str, Any]:
    """What a connection opens: the fields of the frame `open`.

    Raises:
        TypeError: An option is unknown.
        ValueError: Options of the embedded fleet are given together with a URL, or have values that can't be used.
    """
    if unknown := embedded.keys() - EmbeddedOptions.__annotations__.keys():
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    url = url or os.environ.get("THERMAE_URL") or EMBEDDED
    tenant = tenant or os.environ.get("THERMAE_TENANT")
    if url == EMBEDDED:
        return {"embedded": _embedded(embedded)}
    if embedded:
        names = ", ".join(sorted(embedded))
        raise ValueError(
            f"{names}: only the embedded fleet has these options, but a URL is given (as an argument or in "
            f"THERMAE_URL). Leave them out, or pass {EMBEDDED!r} in place of the URL"
        )
    return {"url": url, **({"tenant": tenant} if tenant else {})}


def redacted(text: str) -> str:
    """The text without the passwords of the URLs in it."""
    return re.sub(r"(\w+://[^/\s:@]*):[^/\s]*@", r"\1:…@", text)


def _embedded(options: EmbeddedOptions) -> dict[str, Any]:
    convert: dict[str, Callable[[Any], Any]] = {
        "python": os.path.abspath,
        "slots": int,
        "spares": int,
        "memory": to_bytes,
        "cpu": to_ms,
        "disk": to_bytes,
        "wall": to_ms,
        "datasets": lambda paths: {name: os.path.abspath(path) for name, path in paths.items()},
        "preload": list,
    }
    # Programs should find the packages that this process finds.
    python = os.environ.get("THERMAE_PYTHON") or sys.executable
    given = {**({"python": python} if python else {}), **options}
    return {name: convert[name](value) for name, value in given.items()}
