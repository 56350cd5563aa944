"""Writes `src/thermae/_fleet_errors.py`: one class for each error code of the fleet.

The codes come from the JSON Schema of events, and their meaning and advice from `docs/errors.md`. Run this after a
change of either; a test fails until you do.
"""

import json
import re
import sys
import textwrap
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]
TARGET = PACKAGE / "src/thermae/_fleet_errors.py"

HEAD = '''"""The errors of the fleet, one class for each code. Made by `scripts/generate_errors.py`."""

from thermae._error import ThermaeError

'''


def codes() -> list[str]:
    """The codes of the schema, in its order. `unknown` is not among them: it stands for the codes of newer fleets."""
    schema = json.loads((ROOT / "schemas/json/event.json").read_text())
    return [one["const"] for one in schema["$defs"]["ErrorCode"]["oneOf"] if one["const"] != "unknown"]


def class_name(code: str) -> str:
    """The name of a code's class: `wall_timeout` is `WallTimeout`."""
    return "".join(part.capitalize() for part in code.split("_"))


def table() -> dict[str, tuple[str, bool, str]]:
    """Meaning, `safe_to_retry` and advice of each code."""
    text = (ROOT / "docs/errors.md").read_text().partition("## Codes of outcomes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (yes|no) \| [^|]* \| (.*) \|$", text, re.MULTILINE)
    return {code: (meaning, safe == "yes", advice) for code, meaning, safe, advice in rows}


def quoted(text: str) -> str:
    """The text in quotes, as a formatter would write it."""
    return repr(text) if '"' in text and "'" not in text else json.dumps(text, ensure_ascii=False)


def literal(text: str) -> str:
    """The text as a Python literal that fits into the line after `    advice = `."""
    if len(quoted(text)) <= 107:
        return quoted(text)
    lines = textwrap.wrap(text, 110, drop_whitespace=False, break_long_words=False)
    return "(\n" + "".join(f"        {quoted(line)}\n" for line in lines) + "    )"


def source() -> str:
    """The whole text of the file."""
    rows = table()
    parts = [HEAD]
    for code in codes():
        meaning, safe, advice = rows[code]
        doc = f'    """{meaning}"""'
        if len(doc) > 120:
            first, rest = textwrap.wrap(meaning, 113)[0], " ".join(textwrap.wrap(meaning, 113)[1:])
            doc = f'    """{first}\n    {rest}\n    """'
        parts.append(
            f"\nclass {class_name(code)}(ThermaeError):\n{doc}\n\n"
            f"    code = {json.dumps(code)}\n    safe_to_retry = {safe}\n    advice = {literal(advice)}\n\n"
        )
    names = [class_name(code) for code in codes()]
    parts.append("\nFLEET_ERRORS: tuple[type[ThermaeError], ...] = (\n" + "".join(f"    {n},\n" for n in names) + ")\n")
    parts.append('\n__all__ = [\n    "FLEET_ERRORS",\n' + "".join(f'    "{n}",\n' for n in sorted(names)) + "]\n")
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(source())
    sys.stdout.write(f"{TARGET}: {len(codes())} classes\n")
