"""Results in a notebook."""

import html
from collections.abc import Sequence
from typing import Any

from thermae._events import MimeBundle

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""MIME types of the images that come in base64."""


def together(parts: Sequence[MimeBundle]) -> MimeBundle:
    """One bundle that shows all parts, in order.

    A notebook shows a single form of a bundle. So if several parts are there and any is rich, they become one page.
    """
    if len(parts) == 1:
        return {**parts[0], "text/plain": str(parts[0].get("text/plain", "")).rstrip("\n")}
    text = "\n".join(_text(part).rstrip("\n") for part in parts)
    pages = [_page(part) for part in parts]
    if not any(pages):
        return {"text/plain": text}
    whole = (page or f"<pre>{html.escape(_text(part))}</pre>" for page, part in zip(pages, parts, strict=True))
    return {"text/plain": text, "text/html": "\n".join(f"<div>{one}</div>" for one in whole)}


def _text(part: MimeBundle) -> str:
    """The text of a part, or the names of its forms."""
    return str(part.get("text/plain", f"<{', '.join(part)}>"))


def _page(part: MimeBundle) -> str | None:
    """The form of a part that a page can have; `None` if only its text is one."""
    for kind in ("text/html", "image/svg+xml"):
        if (form := part.get(kind)) is not None:
            return str(form)
    for kind in IMAGES:
        if (form := part.get(kind)) is not None:
            return f'<img src="data:{kind};base64,{html.escape(_flat(form))}">'
    if (form := part.get("text/latex")) is not None:
        return html.escape(str(form))  # Notebooks typeset the formulas of a page.
    if (form := part.get("text/markdown")) is not None:
        return f"<pre>{html.escape(str(form))}</pre>"
    return None


def _flat(form: Any) -> str:
    """Base64 without its line breaks."""
    return "".join(str(form).split())
