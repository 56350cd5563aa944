"""The files that a job's code leaves."""

import asyncio
import base64
import hashlib
import os
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Self, TypeAlias, TypeVar

from thermae._loop import Runner
from thermae.errors import ArtifactDamaged, SandboxClosed

T = TypeVar("T")

Fetch: TypeAlias = Callable[[str, str | None], AsyncIterator[bytes]]
"""Gives the content of the artifact with this id and this URL, piece by piece."""


@dataclass(frozen=True, slots=True)
class BaseArtifact:
    """A file that the code left in `/workspace/artifacts` or `/session/artifacts`.

    Attributes:
        id: The file's key in the tenant's part of the fleet's store. Files with the same content have the same id.
        path: Its path, as the code saw it.
        name: The last component of the path.
        size: Its size in bytes.
        sha256: SHA-256 of its content, in hexadecimal digits.
        media_type: Its media type, guessed from the name alone.
        created_at: When it was collected (RFC 3339).
        url: Where anybody can fetch it until `expires_at`, if something serves it.
        expires_at: When `url` expires.
        changed: Whether something wrote to it while it was collected.
        inline: Its content in base64, if the job asked for it and it is small.
        fetch: What fetches its content.
    """

    id: str
    path: str
    name: str
    size: int
    sha256: str
    media_type: str
    created_at: str
    url: str | None
    expires_at: str | None
    changed: bool
    inline: str | None = field(repr=False)
    fetch: Fetch = field(repr=False, compare=False)

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # It does not change.

    def __reduce__(self) -> Any:
        # Results cross processes; the sandbox that fetches the content stays behind.
        fields = {name: getattr(self, name) for name in BaseArtifact.__dataclass_fields__ if name != "fetch"}
        return (_restored, (type(self), fields))

    async def _pieces(self) -> AsyncIterator[bytes]:
        """The content, checked at its end."""
        digest, size = hashlib.sha256(), 0
        async for piece in self._source():
            digest.update(piece)
            size += len(piece)
            yield piece
        if (size, digest.hexdigest()) != (self.size, self.sha256):
            raise ArtifactDamaged(f"the content of {self.path} does not match its size or its SHA-256")

    async def _source(self) -> AsyncIterator[bytes]:
        if self.inline is not None:
            yield base64.b64decode(self.inline)
            return
        async for piece in self.fetch(self.id, self.url):
            yield piece

    async def _read(self) -> bytes:
        return b"".join([piece async for piece in self._pieces()])

    async def _save(self, path: str | os.PathLike[str], overwrite: bool) -> Path:
        target = Path(path)
        if target.is_dir():
            target = target / plain_name(self.name)
        if not overwrite and target.exists():
            raise FileExistsError(f"{target} exists: pass overwrite=True to replace it")
        # What has the final name is whole: the content goes into another file first.
        part = target.with_name(f".{uuid.uuid4().hex}.part")
        try:
            with open(part, "xb") as file:
                async for piece in self._pieces():
                    await asyncio.to_thread(file.write, piece)
            if overwrite:
                os.replace(part, target)
            else:
                os.link(part, target)
        finally:
            part.unlink(missing_ok=True)
        return target


def plain_name(name: str, kind: type[PurePath] = Path) -> str:
    """The name of a file, if it stays in the folder that it is put into.

    Args:
        name: The name, which the job's code chose.
        kind: Whose paths these are. On Windows, a backslash leaves the folder, too, and a colon names something else.

    Raises:
        ValueError: It leaves the folder, or is no name.
    """
    path = kind(name)
    leaves = name in ("", ".", "..") or path.name != name
    if leaves or "\0" in name or (isinstance(path, PureWindowsPath) and ":" in name):
        raise ValueError(f"{name!r} is no name for a file: pass a path of your own")
    return name


class AsyncArtifact(BaseArtifact):
    """An artifact of a job of an `AsyncSandbox`. Its content is fetched when it is read."""

    __slots__ = ()

    async def read(self) -> bytes:
        """The content.

        Raises:
            ArtifactDamaged: It does not match the artifact's size or SHA-256.
        """
        return await self._read()

    async def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes the content to a file, and gives the file's path.

        Args:
            path: The file, or a folder, in which the file gets the artifact's name.
            overwrite: Whether to replace a file that exists.

        Raises:
            FileExistsError: The file exists, and `overwrite` is false.
            ArtifactDamaged: The content does not match the artifact's size or SHA-256. Nothing was written.
        """
        return await self._save(path, overwrite)


@dataclass(frozen=True, slots=True)
class Artifact(BaseArtifact):
    """An artifact of a job of a `Sandbox`. Its content is fetched when it is read."""

    _runner: Runner = field(repr=False, compare=False)

    def read(self) -> bytes:
        """The content.

        Raises:
            ArtifactDamaged: It does not match the artifact's size or SHA-256.
        """
        return self._runner.run(self._read())

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes the content to a file, and gives the file's path.

        Args:
            path: The file, or a folder, in which the file gets the artifact's name.
            overwrite: Whether to replace a file that exists.

        Raises:
            FileExistsError: The file exists, and `overwrite` is false.
            ArtifactDamaged: The content does not match the artifact's size or SHA-256. Nothing was written.
        """
        return self._runner.run(self._save(path, overwrite))


async def _left_behind(ref: str, url: str | None) -> AsyncIterator[bytes]:
    """Fetches nothing."""
    raise SandboxClosed("the artifact's sandbox is in another process: read it there, or set inline_artifacts")
    yield b""


class _Apart(Runner):
    """Runs coroutines for artifacts without a sandbox, each on a loop of its own."""

    def __init__(self) -> None:
        """Starts nothing."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        runner = Runner()
        try:
            return runner.run(work)
        finally:
            runner.stop()


def _restored(kind: type[BaseArtifact], fields: dict[str, Any]) -> BaseArtifact:
    if kind is Artifact:
        fields = {**fields, "_runner": _Apart()}
    return kind(**fields, fetch=_left_behind)


def artifact_fields(raw: dict[str, Any]) -> dict[str, Any]:
    """The fields of an artifact from those of the wire, without what fetches it."""
    return {
        "id": raw["id"],
        "path": raw["path"],
        "name": raw["name"],
        "size": raw["size"],
        "sha256": raw["sha256"],
        "media_type": raw["media_type"],
        "created_at": raw["created_at"],
        "url": raw.get("url"),
        "expires_at": raw.get("expires_at"),
        "changed": raw.get("changed", False),
        "inline": raw.get("base64"),
    }
