"""What a run looks at: kinds, and for files without a row only what can be asked of them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model.item import REQUEST_DUMP, SESSION, TRANSCRIPT, Item
from holdfast.model.session import SessionFilter
from holdfast.policy.rules import DAY
from holdfast.policy.session_filter import Selection
from tests.builders import NOW, a_file_of, a_session_item, a_space_item, a_trash_item, an_item

STORED = ["s1", "owned"]


def everything() -> list[Item]:
    return [
        a_session_item("s1", age=3 * DAY),
        a_file_of("s1", "owned", kind=REQUEST_DUMP),
        an_item("t", age=DAY),
        an_item("d", kind=REQUEST_DUMP, age=2 * DAY),
        an_item("cron", source="cron", age=4 * DAY),
        a_trash_item("op/0"),
        a_trash_item("op/1", source="cron"),
        a_space_item("space"),
    ]


def selected(selection: Selection) -> list[str]:
    return [item.id for item in selection.of(everything())]


def test_all() -> None:
    assert Selection().of(everything()) == tuple(everything())


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        pytest.param({REQUEST_DUMP}, ["d", "op/0", "op/1"], id="one"),
        pytest.param({SESSION}, [*STORED, "op/0", "op/1", "space"], id="sessions with all theirs"),
        pytest.param(
            {SESSION, TRANSCRIPT}, [*STORED, "t", "cron", "op/0", "op/1", "space"], id="two"
        ),
        pytest.param(set(), ["op/0", "op/1"], id="none but the trash"),
    ],
)
def test_kinds(kinds: set[str], expected: list[str]) -> None:
    assert selected(Selection(kinds=frozenset(kinds))) == expected


@pytest.mark.parametrize(
    ("wanted", "orphans"),
    [
        pytest.param({"sources": ("cron",)}, ["cron", "op/1"], id="a source"),
        pytest.param({"sources": ()}, [], id="no source at all"),
        pytest.param(
            {"active_before": NOW - 2 * DAY}, ["cron", "op/0", "op/1"], id="before, exclusive"
        ),
        pytest.param({"active_after": NOW - 2 * DAY}, ["t", "op/0", "op/1"], id="after, exclusive"),
        pytest.param(
            {"active_after": NOW - 3 * DAY, "active_before": NOW - DAY, "sources": ("cli",)},
            ["d", "op/0"],
            id="a window and a source",
        ),
    ],
)
def test_what_can_be_asked_of_a_file_without_a_row(
    wanted: dict[str, Any], orphans: list[str]
) -> None:
    assert selected(Selection(sessions=SessionFilter(**wanted))) == [*STORED, *orphans, "space"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"ids": ("s1",)},
        {"title": "a"},
        {"end_reasons": ("ended",)},
        {"cwd": "/"},
        {"model": "m"},
        {"ended": True},
        {"pinned": False},
        {"titled": False},
        {"min_messages": 0},
        {"max_cost": 9.0},
    ],
    ids=lambda wanted: next(iter(wanted)),
)
def test_what_only_a_row_can_answer_leaves_out_files_without_one(wanted: dict[str, Any]) -> None:
    narrow = Selection(sessions=SessionFilter(**wanted))
    assert selected(narrow) == [*STORED, "op/0", "op/1", "space"]
