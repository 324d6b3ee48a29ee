"""What the documents point at is there: tests by name, and files by link."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_TEST = re.compile(r"`(?:tests/)?((?:\w+/)+test_\w+\.py)(?:::(test_\w+))?`")
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_points_at_is_there(page: Path) -> None:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    for file, test in _TEST.findall(text):
        code = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in code, f"{file} has no {test}"
    for link in _LINK.findall(text):
        assert (page.parent / link).exists(), link


def test_every_law_names_tests() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    laws = re.split(r"^## (?=\d)", text, flags=re.MULTILINE)[1:]
    assert len(laws) == 7
    assert all(_TEST.search(law) for law in laws)
