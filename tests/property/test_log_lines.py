"""Lines of the log are written as text, without `json.dumps` for each item, and read at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, PlanFileError
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores import journal, log_record
from holdfast.value import replace

#: Names of files need not be UTF-8.
_TEXT = st.text(st.characters(), max_size=20) | st.just('sessions/\udc80\n"\\.json')
_WHOLE = st.integers(0, 2**63 - 1)
_ITEMS = st.builds(
    PlanItem,
    kind=_TEXT,
    id=_TEXT,
    source=_TEXT,
    session=_TEXT,
    bytes=_WHOLE,
    last_active_at=st.floats(allow_nan=False, allow_infinity=False),
    version=_TEXT,
    action=st.sampled_from(Action),
    reason=_TEXT,
    undoable=st.booleans(),
    goes_with=_TEXT,
    owned=st.booleans(),
    without_end=st.booleans(),
    target=_TEXT,
)
_OUTCOMES = st.builds(
    Outcome,
    kind=_TEXT,
    id=_TEXT,
    result=st.sampled_from(Result),
    reason=_TEXT,
    bytes_freed=_WHOLE,
    bytes_in_trash=_WHOLE,
    bytes_in_archive=_WHOLE,
    paths=_WHOLE,
    in_part=st.booleans(),
)


@given(st.lists(_ITEMS, max_size=5))
def test_what_is_announced_is_what_is_read(items: list[PlanItem]) -> None:
    batch = [Removal(operation="7", number=n, item=item) for n, item in enumerate(items)]
    written = json.loads(log_record.intent("7", batch))
    entries = [{"n": n, "item": item.to_json()} for n, item in enumerate(items)]
    assert written == {"intent": entries}
    assert [PlanItem.from_json(each["item"]) for each in written["intent"]] == items


def test_an_undo_announces_the_numbers_of_another_operation() -> None:
    item = PlanItem.from_json(_item())
    batch = [Removal(operation="7", number=n, item=item) for n in (3, 1)]
    assert json.loads(log_record.intent("8", batch)) == {"intent": [{"n": 3}, {"n": 1}]}


@given(st.lists(_OUTCOMES, max_size=5))
def test_a_result_is_what_is_read(outcomes: list[Outcome]) -> None:
    item = PlanItem.from_json(_item())
    batch = [Removal(operation="7", number=n, item=item) for n in range(len(outcomes))]
    entries = []
    for number, each in enumerate(outcomes):
        entry: dict[str, Any] = {"n": number, "result": each.result.value, "reason": each.reason}
        entry |= {"freed": each.bytes_freed, "in_trash": each.bytes_in_trash}
        entry |= {"in_archive": each.bytes_in_archive} if each.bytes_in_archive else {}
        entry |= {"paths": each.paths} if each.paths else {}
        entries.append(entry | ({"in_part": True} if each.in_part else {}))
    assert json.loads(log_record.outcome(batch, outcomes)) == {"outcome": entries}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", 1),
        ("id", None),
        ("action", "explode"),
        ("action", []),
        ("undoable", 1),
        ("bytes", -1),
        ("bytes", True),
        ("bytes", 2**63),
        ("last_active_at", float("inf")),
        ("last_active_at", float("nan")),
        ("owned", "no"),
    ],
)
def test_an_item_that_nobody_wrote_is_refused(field: str, value: object) -> None:
    with pytest.raises(PlanFileError):
        PlanItem.from_json(_item() | {field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("undoable", 1),
        ("owned", "no"),
        ("bytes", 1.5),
        ("bytes", True),
        ("bytes", -1),
        ("last_active_at", float("nan")),
        ("last_active_at", float("inf")),
        ("session", None),
        ("reason", 5),
    ],
)
def test_an_item_that_would_not_be_read_is_not_written(field: str, value: Any) -> None:
    whole = PlanItem.from_json(_item())
    log_record.intent("7", [Removal(operation="7", number=0, item=whole)])
    wrong = replace(whole, **{field: value})
    with pytest.raises(PlanFileError, match=field):
        log_record.intent("7", [Removal(operation="7", number=0, item=wrong)])
    again = json.loads(log_record.intent("7", [Removal(operation="7", number=0, item=whole)]))
    assert again["intent"] == [{"n": 0, "item": whole.to_json()}]


def test_an_outcome_or_an_end_that_would_not_be_read_is_not_written() -> None:
    removal = Removal(operation="7", number=0, item=PlanItem.from_json(_item()))
    for wrong in (1.5, -1, True):
        with pytest.raises(HoldfastError, match="the log cannot store"):
            log_record.outcome([removal], [removal.end(Result.REMOVED, freed=wrong)])  # type: ignore[arg-type]
    with pytest.raises(HoldfastError, match="the log cannot store"):
        log_record.end(float("nan"), None)


def test_a_beginning_that_would_not_be_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    for wrong in ({"command": 5}, {"at": float("nan")}):
        given: dict[str, Any] = {"command": "prune", "at": 1.0} | wrong
        with (
            pytest.raises(HoldfastError, match="log header"),
            journal.create(path, action=OperationAction.REMOVE, undoes=None, **given),
        ):
            pass
        assert not path.exists()


def test_a_field_that_is_missing_or_unknown_is_as_before() -> None:
    whole = PlanItem.from_json(_item())
    assert PlanItem.from_json(_item() | {"later": 1}) == whole
    assert PlanItem.from_json(_item() | {"last_active_at": 3}).last_active_at == 3.0
    without = _item()
    del without["version"]
    with pytest.raises(PlanFileError):
        PlanItem.from_json(without)


def _item() -> dict[str, Any]:
    return {
        "kind": "transcript",
        "id": "sessions/a.jsonl",
        "source": "cli",
        "session": "a",
        "action": "remove",
        "undoable": True,
        "bytes": 3,
        "last_active_at": 1.5,
        "version": "f.1",
        "reason": "older than 90 d",
        "goes_with": "",
        "owned": False,
    }
