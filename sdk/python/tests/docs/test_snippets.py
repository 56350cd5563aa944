"""Every snippet of the documentation runs, and prints what the page says."""

import contextlib
import io
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.snippets import PAGES, ROOT, Snippet, name_of, runnable, snippets
from served import KEY, Served

SHOWN_URL = "amqp://acme:acme@127.0.0.1:5672"
"""The fleet of `compose.yaml`, which the pages use."""

SHOWN_GATEWAY = "http://127.0.0.1:8420"
"""The gateway that `thermae serve` is by default."""


@pytest.fixture
def gateway() -> Iterator[str]:
    """URL of a gateway."""
    served = Served()
    yield served.url
    served.stop()


def run(name: str, blocks: list[Snippet], monkeypatch: pytest.MonkeyPatch, url: str = "", gateway: str = "") -> None:
    """Runs the blocks of a page, and compares what they print."""
    module = types.ModuleType("page")
    module.__file__ = str(ROOT / name)
    monkeypatch.setitem(sys.modules, "page", module)
    for block in blocks:
        source = block.in_place.replace(SHOWN_URL, url) if block.fleet else block.in_place
        source = source.replace(SHOWN_GATEWAY, gateway) if block.gateway else source
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, name, "exec"), module.__dict__)
        assert printed.getvalue() == block.prints, f"{name}, line {block.line}"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.fleet] if any(s.fleet for s in runnable(page)) else [])
        for page in PAGES
        if runnable(page)
    ],
)
def test_the_page(page: Path, fleet: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    blocks = runnable(page)
    gateway = request.getfixturevalue("gateway") if any(one.gateway for one in blocks) else ""
    if gateway:
        monkeypatch.setenv("THERMAE_API_KEY", KEY)
    run(name_of(page), blocks, monkeypatch, fleet, gateway)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_parts_of_files_are_parts_of_them(page: Path) -> None:
    for one in snippets(page.read_text()):
        if one.part_of is not None:
            whole = (ROOT / one.part_of).read_text()
            parts = ["\n".join(line.lstrip() for line in text.splitlines()) for text in (one.code, whole)]
            assert parts[0] in parts[1], f"{name_of(page)}, line {one.line}: not in {one.part_of}"


PAGE = """\
```python
x = 1
```

A word.

```python
print(x)
```

It prints:

```text
1
```

<!-- fleet -->

```python
print("amqp://acme:acme@127.0.0.1:5672")
```
```sh
ls
```
```text
no output of the block before
```
<!-- gateway -->
```python
print("http://127.0.0.1:8420")
```
<!-- part of a/b.py -->
```python
...
```
"""


def test_blocks_are_found_with_what_they_print(monkeypatch: pytest.MonkeyPatch) -> None:
    found = snippets(PAGE)
    assert [one.code for one in found] == [
        "x = 1\n",
        "print(x)\n",
        'print("amqp://acme:acme@127.0.0.1:5672")\n',
        'print("http://127.0.0.1:8420")\n',
        "...\n",
    ]
    assert [one.prints for one in found] == ["", "1\n", "", "", ""]
    assert [one.fleet for one in found] == [False, False, True, False, False]
    assert [one.gateway for one in found] == [False, False, False, True, False]
    assert [one.part_of for one in found] == [None, None, None, None, "a/b.py"]
    assert found[1].line == 8
    run("PAGE.md", found[:2], monkeypatch)
    with pytest.raises(AssertionError, match=r"PAGE.md, line 20\n.*amqp://elsewhere"):
        run("PAGE.md", found[:3], monkeypatch, "amqp://elsewhere")
    with pytest.raises(AssertionError, match=r"(?s)PAGE.md, line 30\n.*http://elsewhere"):
        run("PAGE.md", found[3:4], monkeypatch, gateway="http://elsewhere")


def test_other_output_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for page in ("```python\nprint(2)\n```\n```text\n1\n```\n", "```python\nprint(1)\n```\n"):
        with pytest.raises(AssertionError, match=r"PAGE.md, line 2"):
            run("PAGE.md", snippets(page), monkeypatch)


@pytest.mark.parametrize(
    "page", ["<!-- fleet -->\n\nA word.\n", "<!-- fleet -->\n```sh\nls\n```\n", "```py\nx = 1\n```\n"]
)
def test_what_would_not_be_run_is_an_error(page: str) -> None:
    with pytest.raises(ValueError, match="line"):
        snippets(page)
