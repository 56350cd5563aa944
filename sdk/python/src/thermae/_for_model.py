"""What a model should read of a result."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thermae._events import MimeBundle
from thermae._made_calls import MadeCall

if TYPE_CHECKING:
    from thermae._results import BaseResult

LIMIT = 20_000
"""Characters of a text for a model, unless its caller says otherwise."""

FOLDER = "/session/outputs"
"""Where a session keeps what was cut. The runs of the session have a folder each."""

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""MIME types of the images that models take. They come in base64."""

TEXTS = ("text/plain", "text/markdown", "text/latex", "application/json", "image/svg+xml", "text/html")
"""MIME types of forms that are text, the best for a model first."""

LEFT_OUT = "application/vnd.thermae.left-out+json"
"""The form of a bundle that names those that were too large to send."""

MOST_LINES = 20
"""Lines of a list of calls or notes. It says how many there are in all."""

LONGEST_LINE = 300
"""Characters of such a line."""

ENDS = {
    "succeeded": "The program succeeded.",
    "failed": "The program failed.",
    "timed_out": "The program took too long and was stopped before its end.",
    "out_of_memory": "The program needed too much memory and was stopped before its end.",
    "output_limit": "The program wrote too much and was stopped before its end.",
    "cancelled": "The program was cancelled. It may have been stopped before its end.",
    "rejected": "The program did not run.",
    "lost": "The program was lost. It may have run, in part or to its end.",
}
"""How a program ended, in words."""

HINTS = {
    "timed_out": "Do less in one program, or in smaller steps.",
    "out_of_memory": "Hold less in memory at once: work through the data piece by piece.",
    "output_limit": "Print only what you need, and write the rest into a file.",
}
"""What a model can do next, by how its program ended."""

STATES = {"answered": "answered", "refused": "refused and not made", "unknown": "may have happened"}
"""What became of calls, in words."""


@dataclass(frozen=True, slots=True)
class ModelImage:
    """An image for a model.

    Attributes:
        media_type: Its type, such as `image/png`.
        data: Its bytes.
    """

    media_type: str
    data: bytes = field(repr=False)

    @property
    def base64(self) -> str:
        """The bytes in base64."""
        return base64.b64encode(self.data).decode()

    @property
    def url(self) -> str:
        """The image as a `data:` URL."""
        return f"data:{self.media_type};base64,{self.base64}"


@dataclass(frozen=True, slots=True)
class ForModel:
    """What a model should read of a result. `str` gives the text.

    Attributes:
        text: How the program ended, what it wrote, showed and raised, and what to know about it.
        images: The images that it showed, in order. The text has a line for each.
        files: Files of the session that have all of what the text shows in part.
    """

    text: str
    images: list[ModelImage]
    files: list[str]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the text. `file` is the name of the file that has all of it, if it is cut."""

    title: str
    text: str
    file: str


class Writing:
    """The text for a model about one result, at most `limit` characters long."""

    def __init__(self, result: "BaseResult", limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit must be a number of characters above 0, not {limit}")
        self._result = result
        self._limit = limit
        self.folder = f"{FOLDER}/{result.job_id}"
        """The session's folder for what is cut."""
        self.images: list[ModelImage] = []
        self._head = ENDS.get(result.status, f"The program ended as {result.status}.")
        self._parts = [part for part in self._sections() if part.text.strip()]
        around = len(self._head) + sum(len(part.title) + 4 for part in self._parts)
        self._shares = _shares([len(part.text) for part in self._parts], max(limit - around, 0))
        shared = zip(self._parts, self._shares, strict=True)
        self.cut = {part.file: part.text for part, share in shared if len(part.text) > share}
        """What the text shows in part: names of files, and their contents."""

    def finish(self, *, in_session: bool) -> ForModel:
        """The text. `in_session`: whether what is `cut` is in `folder`."""
        pieces = [self._head]
        for part, share in zip(self._parts, self._shares, strict=True):
            where = f"; all of it is in {self.folder}/{part.file}" if in_session else ""
            pieces.append(f"{part.title}:\n{cut(part.text, share, where)}")
        text = "\n\n".join(piece.rstrip("\n") for piece in pieces)
        files = [f"{self.folder}/{name}" for name in self.cut] if in_session else []
        return ForModel(cut(text, self._limit), self.images, files)

    def _sections(self) -> Iterator[Part]:
        result = self._result
        yield Part("Output", result.stdout, "stdout.txt")
        yield Part("Error output", result.stderr, "stderr.txt")
        yield Part("Displayed", "\n".join(map(self._shown, result.displays)), "displays.txt")
        if result.value is not None:
            yield Part("Value of the last expression", self._shown(result.value), "value.txt")
        if (error := result.error) is not None:
            yield Part("Error", "\n".join(filter(None, (error.message, error.traceback))), "error.txt")
        if not result.ok:
            yield Part(f"Tool calls that were already made: {self._count()}", self._calls(), "calls.txt")
        yield Part("Notes", "\n".join(f"- {note}" for note in _bounded(list(self._notes()))), "notes.txt")

    def _shown(self, bundle: MimeBundle) -> str:
        """The text of a bundle. Its image goes to the others."""
        text = next((str(bundle[kind]) for kind in TEXTS if kind in bundle), f"<{', '.join(bundle)}>")
        for kind in IMAGES:
            if (image := _image(kind, bundle.get(kind))) is not None:
                self.images.append(image)
                return f"[image {len(self.images)}: {text}]"
        return text

    def _count(self) -> str:
        """How many calls there are, in all and of each kind."""
        states = [one.state for one in self._result.calls]
        counts = [(name, sum(one == state for one in states)) for state, name in STATES.items()]
        counts.append(("not seen by this process", self._result.calls_not_seen))
        total = sum(count for _, count in counts)
        return f"{total} ({', '.join(f'{count} {name}' for name, count in counts if count)})"

    def _calls(self) -> str:
        """The calls: those that may have happened first, since nobody knows more about them."""
        calls = sorted(self._result.calls, key=lambda one: one.state != "unknown")
        lines = [f"- {line}" for line in _bounded([_call(one) for one in calls])]
        if any(one.state != "refused" for one in calls) or self._result.calls_not_seen:
            lines.append("Do not repeat calls that changed something.")
        return "\n".join(lines)

    def _notes(self) -> Iterator[str]:
        result = self._result
        yield from result.notes
        shown = [*result.displays, *([result.value] if result.value is not None else [])]
        if result.ok and not (result.stdout or result.stderr or shown):
            yield "The program wrote nothing. Print what you want to see."
        for bundle in shown:
            if isinstance(left_out := bundle.get(LEFT_OUT), dict):
                yield f"Too large to show: {', '.join(left_out)}"  # pyright: ignore[reportUnknownArgumentType]
        for artifact in result.raw.get("artifacts", ()):
            yield f"File kept: {artifact['path']}, {artifact['size']} bytes"
        for one in result.left_out:
            yield f"File not kept: {one.path}: {one.message}"
        if (hint := HINTS.get(result.status)) is not None:
            yield hint
        if (session := result.session) is not None and not session.alive:
            yield "The session is over: its variables are gone."
        elif session is not None and session.fresh and result.error is not None:
            yield "The session was new: nothing of earlier programs is in it."


def cut(text: str, most: int, where: str = "") -> str:
    """The text in at most `most` characters: the middle is left out, and a line says how many characters it had."""
    if len(text) <= most:
        return text
    room = most - len(_mark(len(text), where))
    if room <= 0:
        return text[:most]
    head = (room + 1) // 2
    tail = room - head
    return text[:head] + _mark(len(text) - room, where) + text[len(text) - tail :]


def _mark(count: int, where: str) -> str:
    return f"\n[… {count} characters left out{where} …]\n"


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much of the room each one gets: as much as it needs, or else an equal part of what the smaller ones leave."""
    shares = [0] * len(sizes)
    for left, place in zip(range(len(sizes), 0, -1), sorted(range(len(sizes)), key=sizes.__getitem__), strict=True):
        shares[place] = min(sizes[place], room // left)
        room -= shares[place]
    return shares


def _bounded(lines: list[str]) -> list[str]:
    """The first lines, and how many more there are."""
    more = len(lines) - MOST_LINES
    shown = [cut(" ".join(line.split()), LONGEST_LINE).replace("\n", " ") for line in lines[:MOST_LINES]]
    return shown + ([f"… and {more} more"] if more > 0 else [])


def _call(made: MadeCall) -> str:
    arguments = "…" if made.arguments is None else ", ".join(f"{k}={v!r}" for k, v in made.arguments.items())
    call = f"{made.tool}({cut(arguments, LONGEST_LINE // 2)})"
    return f"{call}: {STATES[made.state]}" + (f": {cut(made.answer, LONGEST_LINE // 3)}" if made.answer else "")


def _image(kind: str, form: Any) -> ModelImage | None:
    """The image of a form; `None` if it is none."""
    try:
        return ModelImage(kind, base64.b64decode(form))
    except (TypeError, ValueError):
        return None
