"""The Python snippets of the documentation's pages.

Each block fenced as `python` is a part of its page's program: the blocks of a page run one after the other, in one
module. What a block prints is the block fenced as `text` that follows it; without one, it prints nothing. A comment of
HTML before a block can say more about it:

- `<!-- fleet -->`: the block, and so its page, needs a fleet.
- `<!-- gateway -->`: the block needs a gateway, which the tests start, and the key of which is in `THERMAE_API_KEY`.
- `<!-- part of PATH -->`: the block is shown, not run: it is a part of that file, which is tested elsewhere.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "examples/python"
PAGES = [
    ROOT / "README.md",
    ROOT / "sdk/python/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/python").glob("*.md")),
]
"""All pages with snippets."""

_FENCE = re.compile(r"( *)```(\S*)( .*)?$")
_MARK = re.compile(r" *<!-- (fleet|gateway|part of (\S+)) -->$")


@dataclass(frozen=True)
class Snippet:
    """One block of Python.

    Attributes:
        line: Number of its first line in the page.
        code: The block.
        prints: What it prints.
        fleet: Whether it needs a fleet.
        gateway: Whether it needs a gateway.
        part_of: The file that it is a part of.
    """

    line: int
    code: str
    prints: str
    fleet: bool
    gateway: bool
    part_of: str | None

    @property
    def in_place(self) -> str:
        """The block with as many empty lines before it as the page has, so that errors name the page's own lines."""
        return "\n" * (self.line - 1) + self.code


def snippets(text: str) -> list[Snippet]:
    """The blocks of Python in a page.

    Raises:
        ValueError: A comment says something about no block, or about a block of another language; or a block of Python
            is fenced as something else.
    """
    found: list[Snippet] = []
    lines = text.splitlines()
    mark: re.Match[str] | None = None
    last: str = ""
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        if fence is None:
            if mark is not None and line.strip():
                raise ValueError(f"line {number}: this says something about a block, and none follows")
            mark = _MARK.match(line) or mark
            number += 1
            continue
        indent, language = fence[1], fence[2]
        end = next(n for n in range(number + 1, len(lines)) if lines[n].strip() == "```")
        block = "".join(one.removeprefix(indent) + "\n" for one in lines[number + 1 : end])
        if language in ("py", "python3", "pycon"):
            raise ValueError(f"line {number + 1}: write `python`, so that the block is run")
        if language == "python":
            part_of = mark[2] if mark else None
            needs = mark[1] if mark and part_of is None else ""
            found.append(Snippet(number + 2, block, "", needs == "fleet", needs == "gateway", part_of))
        elif mark is not None:
            raise ValueError(f"line {number}: only blocks of Python can be marked")
        elif language == "text" and last == "python":
            found.append(replace(found.pop(), prints=block))
        mark, last = None, language
        number = end + 1
    return found


def runnable(page: Path) -> list[Snippet]:
    """The blocks of a page that are run."""
    return [one for one in snippets(page.read_text()) if one.part_of is None]


def program(page: Path) -> str:
    """The whole program of a page; its lines have the numbers that they have in the page."""
    lines: list[str] = []
    for one in runnable(page):
        lines += [""] * (one.line - 1 - len(lines)) + one.code.splitlines()
    return "\n".join(lines) + "\n"


def name_of(page: Path) -> str:
    """A page's path in the project."""
    return page.relative_to(ROOT).as_posix()
