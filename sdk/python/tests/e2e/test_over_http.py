"""What of the tests runs over HTTP."""

import re
from collections import Counter
from pathlib import Path

import pytest
from fleets import SERVED
from other_systems import OVER_HTTP
from over_http import COUNTS

PAGE = Path(__file__).parents[4] / "docs/development.md"
ROW = re.compile(r"^\| (.+?) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


@pytest.mark.skipif(not OVER_HTTP, reason="it is about tests over HTTP")
def test_the_page_says_which_tests_do_not_run_over_http_and_why(request: pytest.FixtureRequest) -> None:
    columns: dict[str, Counter[str]] = {"fleet": Counter(), "served": Counter(), "unit": Counter()}
    for what, *counts in ROW.findall(PAGE.read_text()):
        for column, count in zip(columns.values(), counts, strict=True):
            column[what] += int(count)
    for folder, counts in request.config.stash[COUNTS].items():
        said = columns[folder if folder == "unit" else "served" if SERVED else "fleet"]
        assert +said == counts
