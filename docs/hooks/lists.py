"""Indents what belongs to an item of a list by four columns, as Python-Markdown wants it.

The pages indent it as far as the item's text, as CommonMark does.
"""

import re
from typing import Any

_ITEM = re.compile(r"( *)([-*+]|\d+[.)])( +)(?=\S)")
_FENCE = re.compile(r" *```")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page, with its lists as Python-Markdown reads them."""
    columns: list[int] = []  # Where the text of each open item begins.
    fenced = False
    lines: list[str] = []
    for line in markdown.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if not fenced and line.strip():
            while columns and indent < columns[-1]:
                columns.pop()
        depth = len(columns)
        rest = line[min(indent, columns[-1]) :] if columns else line
        lines.append(" " * 4 * depth + rest if line.strip() else "")
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (item := _ITEM.match(line)):
            columns.append(item.end())
    return "\n".join(lines) + "\n"
