"""Ids that other agents made up: taken as they are, and never as the name of a file."""

from __future__ import annotations

import pytest

from holdfast.errors import UsageError
from holdfast.model.arguments import check_foreign_id, file_stem


@pytest.mark.parametrize(
    "text", ["20260325_112518_6995d1", "api:chat/1", "../../x", "日本", "x" * 300, "a\nb"]
)
def test_any_text_that_can_be_stored_is_an_id(text: str) -> None:
    assert check_foreign_id(text) == text


@pytest.mark.parametrize("text", ["", "x" * 301, "a\0b", "\ud800"])
def test_what_cannot_be_stored_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="not a session id"):
        check_foreign_id(text)


@pytest.mark.parametrize(
    ("text", "stem"),
    [
        ("20260325_112518_6995d1", "20260325_112518_6995d1"),
        ("a.b", "a.b"),
        ("api:chat/1", "api_chat_1_5a5c7f8235ba"),
    ],
)
def test_files_are_called_by_the_id_where_it_can_be_a_name(text: str, stem: str) -> None:
    assert file_stem(text) == stem


@pytest.mark.parametrize(
    "text", ["../../x", "/etc/passwd", "..", ".hidden", "日本", "-", "x" * 300]
)
def test_no_name_of_a_file_leads_anywhere(text: str) -> None:
    stem = file_stem(text)
    assert "/" not in stem
    assert not stem.startswith(".")
    assert len(stem) < 128


def test_ids_that_look_alike_have_names_of_their_own() -> None:
    assert file_stem("a:b") != file_stem("a/b") != file_stem("a_b")
