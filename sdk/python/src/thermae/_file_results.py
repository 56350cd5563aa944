"""What operations on files in sessions give."""

import posixpath
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from thermae._commands import SandboxPath, path_from_wire, path_to_wire

T = TypeVar("T")

FileKind: TypeAlias = Literal["file", "directory", "link", "fifo", "socket", "device"]
"""What a path stands for."""


class Found(list[T]):
    """What was found, sorted by path.

    Attributes:
        cut: Whether there is more than was asked for.
        skipped: How many files and directories could not be read.
    """

    def __init__(self, items: "list[T]", *, cut: bool, skipped: int) -> None:
        super().__init__(items)
        self.cut = cut
        self.skipped = skipped


@dataclass(frozen=True, slots=True)
class FileStat:
    """What is at a path.

    Attributes:
        path: The path that was asked for, or that of an entry of the directory that was asked for.
        kind: `file`, `directory`, `link`, `fifo`, `socket` or `device`.
        size: Size in bytes.
        permissions: Permission bits.
        modified: When the content last changed, in seconds since 1970.
        target: What a link leads to.
    """

    path: str
    kind: FileKind
    size: int
    permissions: int
    modified: float
    target: str | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.kind == "file"

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory. A link to one is not."""
        return self.kind == "directory"

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.kind == "link"


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matches a regular expression.

    Attributes:
        path: Path of the file.
        line: Number of the line, from 1.
        offset: Where the line begins in the file, in bytes.
        text: The line without its end. Of a long line, only the part around the first match.
    """

    path: str
    line: int
    offset: int
    text: str


def read_stat(path: str, raw: dict[str, Any]) -> FileStat:
    """A description as the wire has it."""
    target = raw.get("target")
    return FileStat(
        path=path,
        kind=raw["kind"],
        size=raw["size"],
        permissions=raw["permissions"],
        modified=raw["modified_ns"] / 1e9,
        target=None if target is None else path_from_wire(target),
    )


def text_of(path: SandboxPath) -> str:
    """A path as text."""
    return path_from_wire(path_to_wire(path))


def below(base: SandboxPath, raw: str | list[int]) -> str:
    """A path of an answer, which is relative to the path that was asked for, as one that can be asked for."""
    relative, start = path_from_wire(raw), text_of(base)
    if not relative:
        return start
    return relative if start in ("", ".") else posixpath.join(start, relative)
