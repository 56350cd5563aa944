"""The files of a session, for programs without an event loop."""

from collections.abc import AsyncGenerator, Generator

from thermae._async_session_files import MOST, AsyncFiles
from thermae._commands import SandboxPath
from thermae._content import Content
from thermae._file_results import FileStat, Found, Match
from thermae._loop import Runner


class Files:
    """The files of a session, as its programs see them.

    Paths are absolute, or relative to `/workspace`. Operations run as the sandbox's user, beside the session's
    programs. What the kernel refuses raises a `FileError`, which is also the builtin error: `FileNotFoundError`,
    `PermissionError` and so on. Ctrl-C cancels an operation.
    """

    def __init__(self, files: AsyncFiles, runner: Runner) -> None:
        self._files = files
        self._runner = runner

    def stat(self, path: SandboxPath, *, follow: bool = True) -> FileStat:
        """Describes what is at a path.

        Args:
            path: The path.
            follow: Whether to describe what a link leads to, not the link.

        Raises:
            FileNotFound: There is nothing.
        """
        return self._runner.run(self._files.stat(path, follow=follow))

    def exists(self, path: SandboxPath) -> bool:
        """Whether there is something at a path. A link that leads nowhere is nothing."""
        return self._runner.run(self._files.exists(path))

    def list(self, path: SandboxPath = ".", *, depth: int = 1, most: int = MOST) -> Found[FileStat]:
        """The entries of a directory, sorted by name; the entries of a directory follow it.

        Args:
            path: The directory.
            depth: 1 for its own entries, 2 also for those of the directories in it, and so on. Links are not entered.
            most: Most entries to give; `cut` of the result says whether there are more.
        """
        return self._runner.run(self._files.list(path, depth=depth, most=most))

    def read(
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
        return self._runner.run(self._files.read(path, offset=offset, length=length, timeout=timeout))

    def read_text(
        self, path: SandboxPath, *, encoding: str = "utf-8", errors: str = "strict", timeout: float | None = None
    ) -> str:
        """The content of a file as text; otherwise as `read`. Ends of lines stay as they are."""
        return self._runner.run(self._files.read_text(path, encoding=encoding, errors=errors, timeout=timeout))

    def stream(
        self, path: SandboxPath, *, offset: int = 0, length: int | None = None, timeout: float | None = None
    ) -> Generator[bytes, None, None]:
        """The content of a file, piece by piece, in constant memory; otherwise as `read`."""
        pieces = self._files.stream(path, offset=offset, length=length, timeout=timeout)
        try:
            while (piece := self._runner.run(_next(pieces))) is not None:
                yield piece
        finally:
            self._runner.begin(pieces.aclose())

    def write(
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
        return self._runner.run(
            self._files.write(
                path, content, permissions=permissions, exclusive=exclusive, parents=parents, timeout=timeout
            )
        )

    def append(self, path: SandboxPath, content: Content, *, timeout: float | None = None) -> int:
        """Adds to the end of a file, which is made if there is none; otherwise as `write`."""
        return self._runner.run(self._files.append(path, content, timeout=timeout))

    def write_at(self, path: SandboxPath, offset: int, content: Content, *, timeout: float | None = None) -> int:
        """Writes over a file from an offset on, in bytes; otherwise as `write`."""
        return self._runner.run(self._files.write_at(path, offset, content, timeout=timeout))

    def make_dir(self, path: SandboxPath, *, parents: bool = False) -> None:
        """Makes a directory.

        Args:
            path: The directory.
            parents: Whether to make the directories above it, too, and to accept that it is there already.

        Raises:
            FileExists: Something is there.
            FileNotFound: A directory above it is missing, and `parents` is false.
        """
        self._runner.run(self._files.make_dir(path, parents=parents))

    def move(self, source: SandboxPath, target: SandboxPath) -> None:
        """Moves a file or a directory. A file that is at the new path is replaced."""
        self._runner.run(self._files.move(source, target))

    def remove(self, path: SandboxPath, *, recursive: bool = False) -> None:
        """Removes a file, a link or an empty directory.

        Args:
            path: What to remove.
            recursive: Whether to remove a directory with everything in it.
        """
        self._runner.run(self._files.remove(path, recursive=recursive))

    def glob(
        self, pattern: str, *, path: SandboxPath = ".", most: int = MOST, timeout: float | None = None
    ) -> Found[str]:
        """Finds paths by a pattern: `*`, `?` and `[a-z]` within a name, `**` for any number of directories.

        Args:
            pattern: The pattern.
            path: The directory that the pattern is relative to.
            most: Most paths to give; `cut` of the result says whether there are more.
            timeout: Seconds that it can take.
        """
        return self._runner.run(self._files.glob(pattern, path=path, most=most, timeout=timeout))

    def grep(
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
        return self._runner.run(
            self._files.grep(pattern, path=path, glob=glob, ignore_case=ignore_case, most=most, timeout=timeout)
        )

    def real_path(self, path: SandboxPath, *, strict: bool = True) -> str:
        """The absolute path without links.

        Args:
            path: The path.
            strict: Whether to raise `FileNotFound` if there is nothing. Otherwise, what is missing stays as written.
        """
        return self._runner.run(self._files.real_path(path, strict=strict))


async def _next(pieces: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(pieces, None)
