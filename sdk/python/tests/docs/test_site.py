"""The site can be made, has no broken links, and loads nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

from docs.snippets import ROOT

LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")


def test_the_site(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.relative_to(site).as_posix(): page.read_text() for page in site.rglob("*.html")}
    assert {"index.html", "python/quick-start.html", "python/reference.html", "operations.html"} <= pages.keys()
    loaded = {name: found for name, text in pages.items() if (found := LOADED.findall(text))}
    assert not loaded
    assert not [name for name in site.rglob("*.css") if re.search(r"url\([\"']?(?:https?:)?//", name.read_text())]
    assert 'id="thermae.Sandbox.run"' in pages["python/reference.html"]


def test_what_is_loaded_from_elsewhere_is_found() -> None:
    assert LOADED.findall('<link rel="stylesheet" href="https://a.b/c.css"><script src=//d.e/f.js></script>')
    assert not LOADED.findall('<a href="https://a.b/"><link rel="stylesheet" href="../c.css">')
