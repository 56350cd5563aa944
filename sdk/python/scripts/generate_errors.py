"""Writes `src/thermae/_fleet_errors`: one class for each error code of the fleet.

The codes come from the JSON Schema of events, and their meaning and advice from `docs/errors.md`. Run this after a
change of either; a test fails until you do.
"""

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]
TARGET = PACKAGE / "src/thermae/_fleet_errors"

HEAD = '''"""Errors that {blamed} is to blame for. Made by `scripts/generate_errors.py`."""

from thermae._error import ThermaeError

'''

INDEX = '''"""The errors of the fleet, one class for each code. Made by `scripts/generate_errors.py`."""

from thermae._error import ThermaeError
'''


def codes() -> list[str]:
    """The codes of the schema, in its order. `unknown` is not among them: it stands for the codes of newer fleets."""
    schema = json.loads((ROOT / "schemas/json/event.json").read_text())
    return [one["const"] for one in schema["$defs"]["ErrorCode"]["oneOf"] if one["const"] != "unknown"]


def class_name(code: str) -> str:
    """The name of a code's class: `wall_timeout` is `WallTimeout`."""
    return "".join(part.capitalize() for part in code.split("_"))


class Row(NamedTuple):
    """What the documentation says about a code."""

    meaning: str
    safe: bool
    blamed: str
    advice: str


def table() -> dict[str, Row]:
    """The documentation of each code."""
    text = (ROOT / "docs/errors.md").read_text().partition("## Codes of outcomes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (yes|no) \| the (\w+) \| (.*) \|$", text, re.MULTILINE)
    return {code: Row(meaning, safe == "yes", blamed, advice) for code, meaning, safe, blamed, advice in rows}


def quoted(text: str) -> str:
    """The text in quotes, as a formatter would write it."""
    return repr(text) if '"' in text and "'" not in text else json.dumps(text, ensure_ascii=False)


def literal(text: str) -> str:
    """The text as a Python literal that fits into the line after `    advice = `."""
    if len(quoted(text)) <= 107:
        return quoted(text)
    lines = textwrap.wrap(text, 110, drop_whitespace=False, break_long_words=False)
    return "(\n" + "".join(f"        {quoted(line)}\n" for line in lines) + "    )"


def one_class(code: str, row: Row) -> str:
    """The source of a code's class."""
    doc = f'    """{row.meaning}"""'
    if len(doc) > 120:
        lines = textwrap.wrap(row.meaning, 113)
        doc = f'    """{lines[0]}\n    {" ".join(lines[1:])}\n    """'
    return (
        f"\nclass {class_name(code)}(ThermaeError):\n{doc}\n\n"
        f"    code = {quoted(code)}\n    safe_to_retry = {row.safe}\n    advice = {literal(row.advice)}\n\n"
    )


def sources() -> dict[str, str]:
    """The text of each file: one for each party that can be to blame, and an index."""
    rows = table()
    by_file: dict[str, list[str]] = {}
    for code in codes():
        by_file.setdefault(rows[code].blamed, []).append(code)
    files = {
        f"{blamed}.py": HEAD.format(blamed=f"the {blamed}") + "".join(one_class(code, rows[code]) for code in theirs)
        for blamed, theirs in by_file.items()
    }
    index = INDEX
    for blamed, theirs in sorted(by_file.items()):
        names = sorted(map(class_name, theirs))
        index += f"from thermae._fleet_errors.{blamed} import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"
    listed = "".join(f"    {class_name(code)},\n" for code in codes())
    index += f"\nFLEET_ERRORS: tuple[type[ThermaeError], ...] = (\n{listed})\n"
    public = "".join(f'    "{name}",\n' for name in ["FLEET_ERRORS", *sorted(map(class_name, codes()))])
    files["__init__.py"] = f"{index}\n__all__ = [\n{public}]\n"
    return {name: text.rstrip() + "\n" for name, text in files.items()}


if __name__ == "__main__":
    for file, text in sources().items():
        (TARGET / file).write_text(text)
    sys.stdout.write(f"{TARGET}: {len(codes())} classes\n")
