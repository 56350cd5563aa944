"""The files and values that a job brings."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from thermae._artifacts import BaseArtifact

T = TypeVar("T")

Content: TypeAlias = str | bytes | Path | BaseArtifact
"""Text, bytes, the path of a file on this machine, or an artifact of an earlier job (which stays in the fleet)."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file with more than its content.

    Attributes:
        content: What is in it.
        executable: Whether it gets mode 0755 instead of 0644.
    """

    content: Content
    executable: bool = False


def files_to_wire(files: Mapping[str, Content | InputFile]) -> list[dict[str, Any]]:
    """The files as a job declares them.

    Args:
        files: Paths relative to `/workspace`, and contents.

    Raises:
        TypeError: A content has none of its types.
        OSError: A file of this machine can't be read.
    """
    wire: list[dict[str, Any]] = []
    for path, file in mapping(files, "files").items():
        content, executable = (file.content, file.executable) if isinstance(file, InputFile) else (file, False)
        kinds = (str, bytes, bytearray, memoryview, Path, BaseArtifact)
        if not isinstance(content, kinds):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"files[{path!r}] is not text, bytes, a Path, an artifact or an InputFile: {type(content).__name__}"
            )
        wire.append({"path": path, **_content(content), **({"executable": True} if executable else {})})
    return wire


def mapping(value: Mapping[str, T], what: str) -> Mapping[str, T]:
    """The value, which has names.

    Raises:
        TypeError: It has none.
    """
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{what} is a dict, not {type(value).__name__}: name each of them")
    return value


def inputs_to_wire(inputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The inputs as a job declares them: values, or artifacts, whose content is JSON."""
    return {
        name: {"ref": value.id} if isinstance(value, BaseArtifact) else {"value": value}
        for name, value in mapping(inputs, "inputs").items()
    }


def _content(content: Content) -> dict[str, str]:
    if isinstance(content, BaseArtifact):
        return {"ref": content.id}
    if isinstance(content, str):
        return {"text": content}
    data = content.read_bytes() if isinstance(content, Path) else bytes(content)
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
