"""The page on the API has what a reader can use, as they would write it."""

from __future__ import annotations

import re

import pytest

from tools import api_reference


@pytest.fixture(scope="module")
def page() -> str:
    return api_reference.render()


def test_signatures_are_python_that_a_reader_would_write(page: str) -> None:
    for odd in ("Ellipsis", "mappingproxy", "Unpack", ": str = None", "object at 0x", "repr=False"):
        assert odd not in page
    assert "maps: Mapping[str, StrPath] = {}" in page
    assert "model: str | Unchanged | None = …" in page


def test_keywords_that_methods_share_are_there_once(page: str) -> None:
    assert page.count("`active_before: Moment | float`") == 1
    assert "**filters: SessionFilters)" in page
    keywords = page.partition("## Keywords that methods share")[2]
    assert set(re.findall(r"\*\*\w+: (\w+(?:Filters|Options|Rules))\b", page)) == set(
        re.findall(r"^\*\*`(\w+)`\*\*$", keywords, re.MULTILINE)
    )


def test_what_is_for_commands_is_not_there(page: str) -> None:
    for kind, name in api_reference.INTERNAL:
        assert callable(getattr(kind, name))
    for name in ("settled_if_refused", "need_store", "lost_with_directory", "own_store"):
        assert f"**`{name}" not in page
