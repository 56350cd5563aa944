"""The files of a session, for programs with an event loop."""

import contextlib
import posixpath
from collections.abc import AsyncGenerator
from typing import Any

from thermae._commands import SandboxPath, path_from_wire, path_to_wire
from thermae._content import Content, whole
from thermae._file_results import FileStat, Found, Match, below, read_stat, text_of
from thermae._requests import Requester, ask, output
from thermae.errors import FileError, FileExists, file_error

MOST = 10_000
"""How many results a search gives, unless its caller says otherwise."""

MOST_LINKS = 40
"""How many links a path can have, as for the kernel."""


class AsyncFiles:
    """The files of a session, as its programs see them.

    Paths are absolute, or relative to `/workspace`. Operations run as the sandbox's user, beside the session's
    programs. What the kernel refuses raises a `FileError`, which is also the builtin error: `FileNotFoundError`,
    `PermissionError` and so on. A cancelled task cancels its operation.
    """

    def __init__(self, session: Requester) -> None:
        self._session = session

    async def stat(self, path: SandboxPath, *, follow: bool = True) -> FileStat:
        """Describes what is at a path.

        Args:
            path: The path.
            follow: Whether to describe what a link leads to, not the link.

        Raises:
            FileNotFound: There is nothing.
        """
        return read_stat(text_of(path), await self._do("stat", path, link=not follow))

    async def exists(self, path: SandboxPath) -> bool:
        """Whether there is something at a path. A link that leads nowhere is nothing."""
        try:
            await self.stat(path)
        except FileError as error:
            if error.errno_name not in ("ENOENT", "ENOTDIR", "ELOOP"):
                raise
            return False
        return True

    async def list(self, path: SandboxPath = ".", *, depth: int = 1, most: int = MOST) -> Found[FileStat]:
        """The entries of a directory, sorted by name; the entries of a directory follow it.

        Args:
            path: The directory.
            depth: 1 for its own entries, 2 also for those of the directories in it, and so on. Links are not entered.
            most: Most entries to give; `cut` of the result says whether there are more.
        """
        raw = await self._do("list", path, depth=depth, most=most)
        entries = [read_stat(below(path, one["path"]), one) for one in raw["entries"]]
        return Found(entries, cut=raw["cut"], skipped=raw.get("skipped", 0))

    async def read(
        self, path: SandboxPath, *, offset: int = 0, length: int | None = None, timeout: float | None = None
    ) -> bytes:
        """The content of a file, or a part of it. `stream` reads files that are too large for this.

        Args:
            path: The file.
            offset: Where to begin, in bytes.
            length: Most bytes to read; by default, all.
            timeout: Seconds that it can take.

        Raises:
            FileNotFound: There is nothing.
            IsADirectory: It is a directory.
        """
        return b"".join([piece async for piece in self.stream(path, offset=offset, length=length, timeout=timeout)])

    async def read_text(
        self, path: SandboxPath, *, encoding: str = "utf-8", errors: str = "strict", timeout: float | None = None
    ) -> str:
        """The content of a file as text; otherwise as `read`. Ends of lines stay as they are."""
        return (await self.read(path, timeout=timeout)).decode(encoding, errors)

    async def stream(
        self, path: SandboxPath, *, offset: int = 0, length: int | None = None, timeout: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The content of a file, piece by piece, in constant memory; otherwise as `read`."""
        wanted = {} if length is None else {"length": length}
        work = _work("read", path, offset=offset, **wanted)
        async with contextlib.aclosing(output(self._session, work, timeout)) as pieces:
            async for piece in pieces:
                yield piece

    async def write(
        self,
        path: SandboxPath,
        content: Content,
        *,
        permissions: int | None = None,
        exclusive: bool = False,
        parents: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Writes a file, or replaces it once the content is complete. Until then, everybody sees the old file.

        Args:
            path: The file. If it is a link, what it leads to is written.
            content: Text, bytes, a `Path` of this machine, a binary file, or pieces of bytes that an iterable gives.
                Files and pieces of any size are sent in constant memory.
            permissions: Its permission bits; by default, those of the file that is there, or 0644.
            exclusive: Whether to fail if something is there.
            parents: Whether to make the directories above it.
            timeout: Seconds that it can take.

        Returns:
            The size of the file.

        Raises:
            FileExists: Something is there, and `exclusive` is true.
            IsADirectory: It is a directory.
            FileNotFound: A directory above it is missing.
        """
        directory = text_of(path).rstrip("/").rpartition("/")[0]
        if parents and directory:
            with contextlib.suppress(FileExists):  # A file is in the way; the write tells it better.
                await self.make_dir(directory, parents=True)
        return await self._write(path, content, "create_new" if exclusive else "truncate", permissions, timeout)

    async def append(self, path: SandboxPath, content: Content, *, timeout: float | None = None) -> int:
        """Adds to the end of a file, which is made if there is none; otherwise as `write`."""
        return await self._write(path, content, "append", None, timeout)

    async def write_at(self, path: SandboxPath, offset: int, content: Content, *, timeout: float | None = None) -> int:
        """Writes over a file from an offset on, in bytes; otherwise as `write`."""
        return await self._write(path, content, {"at": offset}, None, timeout)

    async def make_dir(self, path: SandboxPath, *, parents: bool = False) -> None:
        """Makes a directory.

        Args:
            path: The directory.
            parents: Whether to make the directories above it, too, and to accept that it is there already.

        Raises:
            FileExists: Something is there.
            FileNotFound: A directory above it is missing, and `parents` is false.
        """
        await self._do("make_dir", path, parents=parents)

    async def move(self, source: SandboxPath, target: SandboxPath) -> None:
        """Moves a file or a directory. A file that is at the new path is replaced."""
        await ask(self._session, {"file": {"op": "move", "from": path_to_wire(source), "to": path_to_wire(target)}})

    async def remove(self, path: SandboxPath, *, recursive: bool = False) -> None:
        """Removes a file, a link or an empty directory.

        Args:
            path: What to remove.
            recursive: Whether to remove a directory with everything in it.
        """
        await self._do("remove", path, recursive=recursive)

    async def glob(
        self, pattern: str, *, path: SandboxPath = ".", most: int = MOST, timeout: float | None = None
    ) -> Found[str]:
        """Finds paths by a pattern: `*`, `?` and `[a-z]` within a name, `**` for any number of directories.

        Args:
            pattern: The pattern.
            path: The directory that the pattern is relative to.
            most: Most paths to give; `cut` of the result says whether there are more.
            timeout: Seconds that it can take.
        """
        raw = await self._do("glob", path, timeout, pattern=pattern, most=most)
        return Found([below(path, one) for one in raw["paths"]], cut=raw["cut"], skipped=raw.get("skipped", 0))

    async def grep(
        self,
        pattern: str,
        *,
        path: SandboxPath = ".",
        glob: str | None = None,
        ignore_case: bool = False,
        most: int = MOST,
        timeout: float | None = None,
    ) -> Found[Match]:
        """Finds lines by a regular expression, in the syntax of Rust's `regex`.

        Args:
            pattern: The regular expression.
            path: A file, or a directory whose files are searched.
            glob: Only files whose paths match this pattern (as in `glob`).
            ignore_case: Whether to make no difference between upper and lower case.
            most: Most lines to give; `cut` of the result says whether there are more.
            timeout: Seconds that it can take.
        """
        only = {} if glob is None else {"glob": glob}
        raw = await self._do("grep", path, timeout, pattern=pattern, ignore_case=ignore_case, most=most, **only)
        lines = [
            Match(below(path, one["path"]), one["line"], one["offset"], path_from_wire(one["text"]))
            for one in raw["lines"]
        ]
        return Found(lines, cut=raw["cut"], skipped=raw.get("skipped", 0))

    async def real_path(self, path: SandboxPath, *, strict: bool = True) -> str:
        """The absolute path without links.

        Args:
            path: The path.
            strict: Whether to raise `FileNotFound` if there is nothing. Otherwise, what is missing stays as written.
        """
        try:
            return path_from_wire((await self._do("real_path", path))["path"])
        except (FileNotFoundError, NotADirectoryError):
            if strict:
                raise
        return await self._resolve(posixpath.join(await self.real_path("."), text_of(path)))

    async def _resolve(self, path: str) -> str:
        """The path without links, of which a part is missing."""
        done, rest, links = "/", path.split("/")[::-1], 0
        while rest:
            name = rest.pop()
            if name == "..":
                done = posixpath.dirname(done)
            elif name not in ("", "."):
                done = posixpath.join(done, name)
                if (target := await self._target(done)) is not None:
                    links += 1
                    if links > MOST_LINKS:
                        raise file_error("ELOOP", "Too many levels of symbolic links", path, "")
                    done = "/" if target.startswith("/") else posixpath.dirname(done)
                    rest += target.split("/")[::-1]
        return done

    async def _target(self, path: str) -> str | None:
        try:
            return (await self.stat(path, follow=False)).target
        except (FileNotFoundError, NotADirectoryError):
            return None

    async def _do(self, op: str, path: SandboxPath, timeout: float | None = None, **fields: Any) -> Any:
        return await ask(self._session, _work(op, path, **fields), timeout=timeout)

    async def _write(
        self, path: SandboxPath, content: Content, mode: Any, permissions: int | None, timeout: float | None
    ) -> int:
        bits = {} if permissions is None else {"permissions": permissions}
        whole(content)  # To a request, None would mean no content.
        done = await ask(self._session, _work("write", path, mode=mode, **bits), timeout=timeout, content=content)
        return int(done["size"])


def _work(op: str, path: SandboxPath, **fields: Any) -> dict[str, Any]:
    return {"file": {"op": op, "path": path_to_wire(path), **fields}}
