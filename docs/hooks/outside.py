"""Brings into the site what its pages link to outside of `docs/`: README and other pages, and plain files."""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the project's root, and what they are called in the site."""

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)\s#]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^\s*```")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the project's root."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links that leave `docs/`, or that come from a page of the root, into links of the site."""
    here = _source_of(page.file.src_uri).parent

    def replace(match: re.Match[str]) -> str:
        text, path, anchor = match[1], match[2], match[3] or ""
        target = Path(os.path.normpath(ROOT / here / path))
        name = _name_in_site(target, files, config)
        if name is None:
            return text if target.is_dir() else match[0]
        return f"[{text}]({os.path.relpath(name, Path(page.file.src_uri).parent)}{anchor})"

    return "".join(_LINK.sub(replace, part) if prose else part for prose, part in _parts(markdown))


def _source_of(name: str) -> Path:
    """The file that a page of the site was made from, relative to the root."""
    for source, page in PAGES.items():
        if page == name:
            return Path(source)
    return Path("docs", name)


def _name_in_site(target: Path, files: Files, config: MkDocsConfig) -> str | None:
    """What a file of the project is called in the site, where it is put if need be; `None` for a folder."""
    if not target.is_file() or not target.is_relative_to(ROOT):
        return None
    path = target.relative_to(ROOT)
    if path.parts[0] == "docs":
        return path.relative_to("docs").as_posix()
    if name := PAGES.get(path.as_posix()):
        return name
    name = f"source/{path}"
    if files.get_file_from_path(name) is None:
        files.append(File.generated(config, name, content=target.read_bytes()))
    return name


def _parts(markdown: str) -> list[tuple[bool, str]]:
    """The text in parts, each with whether it is prose or a block of code."""
    parts: list[tuple[bool, str]] = [(True, "")]
    for line in markdown.splitlines(keepends=True):
        prose, text = parts[-1]
        if _FENCE.match(line):
            parts += [(False, line)] if prose else [(True, line)]
        else:
            parts[-1] = (prose, text + line)
    return parts
