"""Saved plans: what comes back, what is refused, what is never overwritten."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError, PlanFileError, StorageError, UsageError
from holdfast.model.plan import Action, Plan, Shortfall
from holdfast.stores import plan_file
from holdfast.stores.plan_file import load, save
from tests.builders import a_plan, a_plan_item

PLAN = a_plan(
    a_plan_item("sessions/a.json", bytes=2**60, last_active_at=1_774_437_918.123_456_7),
    a_plan_item("sessions/kept.json", action=Action.KEEP, reason="pinned", undoable=False),
    a_plan_item("sessions/\udcff\n\u2028é🐚.jsonl", last_active_at=-(2.0**63)),
    home="/home/\udc80",
    shortfalls=(
        Shortfall(cap="max_count", limit=1, remaining=3, held_by={"pinned": 2, "in use": 1}),
    ),
)


def sealed(body: object) -> str:
    """The seal, said a second time: plans saved by this version must stay readable."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


@pytest.fixture
def document(path: Path) -> dict[str, Any]:
    """A saved plan, as JSON values."""
    save(PLAN, path)
    value: dict[str, Any] = json.loads(path.read_bytes())
    return value


def refusal(path: Path, content: object) -> PlanFileError:
    """What `load` says of a file with this content: text, or a JSON value."""
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlanFileError) as refused:
        load(path)
    return refused.value


# --- Back as it was -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan", [pytest.param(PLAN, id="full"), pytest.param(a_plan(), id="empty")]
)
def test_a_plan_comes_back_as_it_was(plan: Plan, path: Path) -> None:
    save(plan, path)
    assert load(path) == plan


def test_the_file_is_private_and_readable_json(path: Path, document: dict[str, Any]) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert document == {
        "holdfast_plan": 1,
        "seal": sealed(PLAN.to_json()),
        "plan": PLAN.to_json(),
    }
    assert path.read_bytes().isascii()


def test_the_layout_of_the_file_does_not_matter(path: Path, document: dict[str, Any]) -> None:
    """A tool that prints JSON anew changes nothing that was shown."""
    path.write_text(json.dumps(document, sort_keys=True, indent=8), encoding="utf-8")
    assert load(path) == PLAN


# --- Refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("null", id="null"),
        pytest.param("[]", id="a list"),
        pytest.param('"plan"', id="text"),
        pytest.param("{}", id="an empty object"),
        pytest.param("Dear diary", id="a note"),
        pytest.param('{"holdfast_plan": 1, "seal": "x"}', id="no plan"),
        pytest.param('{"holdfast_plan": 1, "plan": {}}', id="no seal"),
        pytest.param('{"holdfast_plan": 1, "seal": 7, "plan": {}}', id="a seal that is no text"),
        pytest.param('{"holdfast_plan": true, "seal": "", "plan": {}}', id="true is not 1"),
        pytest.param('{"holdfast_plan": 1.0, "seal": "", "plan": {}}', id="1.0 is not 1"),
        pytest.param('{"holdfast_plan": -1, "seal": "", "plan": {}}', id="a negative format"),
        pytest.param('{"holdfast_plan": ' + "9" * 5_000 + "}", id="a number of 5,000 digits"),
        pytest.param('{"holdfast_plan": 1e999, "seal": "", "plan": {}}', id="infinity"),
    ],
)
def test_not_a_saved_plan(path: Path, content: str) -> None:
    refused = refusal(path, content)
    assert refused.message == f"{path} is not a saved plan."
    assert refused.hint == "Make one with `plan.save(path)`."


def test_binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)))
    with pytest.raises(PlanFileError, match="is not a saved plan"):
        load(path)


def test_another_format(path: Path, document: dict[str, Any]) -> None:
    refused = refusal(path, document | {"holdfast_plan": 2})
    assert refused.message == f"{path} was saved by a newer version of Holdfast."


def test_edited(path: Path, document: dict[str, Any]) -> None:
    document["plan"]["items"][1]["action"] = "remove"
    refused = refusal(path, document)
    assert "was edited or damaged" in refused.message
    assert "Make a new plan" in (refused.hint or "")


def test_truncated_anywhere(path: Path, document: dict[str, Any]) -> None:
    whole = path.read_bytes().rstrip()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(PlanFileError):
            load(path)


@pytest.mark.parametrize("brackets", ["[]", '{"a":}'], ids=["lists", "objects"])
def test_nested_to_any_depth(path: Path, brackets: str) -> None:
    """Around the interpreter's limit reading may work and sealing may not, or neither."""
    opening, closing = brackets[:-1], brackets[-1]
    for depth in (1, 100, *range(800, 1_010), 100_000):
        nested = opening * depth + "1" + closing * depth
        refused = refusal(path, f'{{"holdfast_plan": 1, "seal": "x", "plan": {nested}}}')
        assert str(path) in refused.message


def test_a_file_too_large_is_not_read(path: Path) -> None:
    path.touch()
    os.truncate(path, plan_file._LARGEST + 1)
    with pytest.raises(PlanFileError, match="too large to be a saved plan"):
        load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"home": None}, "`home` of a plan must be text, not null"),
        ({"command": 7}, "`command` of a plan must be text, not a number"),
        ({"made_at": "now"}, "`made_at` of a plan must be a number, not text"),
        ({"made_at": True}, "`made_at` of a plan must be a number, not true or false"),
        ({"made_at": float("nan")}, "`made_at` of a plan must be a number, not a number"),
        ({"made_at": 10**400}, "`made_at` of a plan must be a number, not a number"),
        ({"items": {}}, "`items` of a plan must be a list, not an object"),
        ({"items": [[]]}, "a plan item must be an object, not a list"),
        ({"items": [{}]}, "a plan item without `kind`"),
        ({"shortfalls": [{"held_by": []}]}, "a held_by must be an object, not a list"),
    ],
)
def test_a_sound_seal_does_not_excuse_a_wrong_field(
    path: Path, change: dict[str, Any], message: str
) -> None:
    body = PLAN.to_json() | change
    refused = refusal(path, {"holdfast_plan": 1, "seal": sealed(body), "plan": body})
    assert refused.message == message


_ACTIONS = "one of keep, remove, archive, end, reclaim, roll_back, rename, pin, rewrite, restore"


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("bytes", -1, "a whole number, 0 or more"),
        ("bytes", 1.5, "a whole number, 0 or more"),
        ("bytes", True, "a whole number, 0 or more"),
        ("undoable", 1, "true or false"),
        ("action", "burn", _ACTIONS),
        ("action", ["remove"], _ACTIONS),
        ("version", None, "text"),
        ("last_active_at", float("-inf"), "a number"),
    ],
)
def test_the_fields_of_an_item_are_checked(
    path: Path, field: str, value: object, wanted: str
) -> None:
    body = PLAN.to_json()
    body["items"][0][field] = value
    refused = refusal(path, {"holdfast_plan": 1, "seal": sealed(body), "plan": body})
    assert refused.message.startswith(f"`{field}` of a plan item must be {wanted}, not ")


# --- Nothing else is overwritten ------------------------------------------------------------------


def test_an_earlier_plan_is_replaced(path: Path) -> None:
    save(PLAN, path)
    save(a_plan(), path)
    assert load(path) == a_plan()
    assert [each.name for each in path.parent.iterdir()] == ["plan.json"]


def kept_out(path: Path) -> None:
    with pytest.raises(PlanFileError, match="exists and is not a saved plan; it was left alone"):
        save(PLAN, path)


@pytest.mark.parametrize("content", ["", "notes", "{}", '{"holdfast_plan": 2}'])
def test_another_file_is_left_alone(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")
    kept_out(path)
    assert path.read_text(encoding="utf-8") == content


def test_an_edited_plan_is_left_alone(path: Path, document: dict[str, Any]) -> None:
    document["plan"]["command"] = "rm -rf"
    path.write_text(json.dumps(document), encoding="utf-8")
    kept_out(path)


def test_a_folder_is_left_alone(path: Path) -> None:
    path.mkdir()
    kept_out(path)
    assert list(path.iterdir()) == []


def test_a_pipe_is_left_alone(path: Path) -> None:
    os.mkfifo(path)
    kept_out(path)
    assert path.is_fifo()


@pytest.mark.parametrize("target", ["nothing", "notes", "folder", "plan", "itself"])
def test_a_link_is_left_alone_wherever_it_leads(tmp_path: Path, target: str) -> None:
    (tmp_path / "notes").write_text("mine", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    save(a_plan(), tmp_path / "plan")
    link = tmp_path / "itself"
    link.symlink_to(tmp_path / target)
    kept_out(link)
    assert link.readlink() == tmp_path / target
    assert load(tmp_path / "plan") == a_plan()


# --- The file system says no ----------------------------------------------------------------------


def test_a_folder_may_be_reached_through_a_link(tmp_path: Path) -> None:
    """As `/tmp` is on macOS."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    save(PLAN, tmp_path / "link" / "plan.json")
    save(PLAN, tmp_path / "link" / "plan.json")
    assert load(tmp_path / "folder" / "plan.json") == PLAN


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        pytest.param("missing/plan.json", UsageError, id="no such folder"),
        pytest.param("file/plan.json", UsageError, id="a file for a folder"),
        pytest.param("loop/plan.json", UsageError, id="a link to itself for a folder"),
        pytest.param("x" * 256, StorageError, id="a name too long"),
    ],
)
def test_a_place_that_cannot_be_written(
    tmp_path: Path, name: str, refused: type[HoldfastError]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(refused, match=r"There is no folder|Cannot save the plan to"):
        save(PLAN, tmp_path / name)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "loop"]


@pytest.mark.parametrize("name", ["missing", "folder", "missing/plan.json", "loop"])
def test_what_is_no_file_cannot_be_loaded(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(PlanFileError, match="is not a file") as refused:
        load(tmp_path / name)
    assert refused.value.hint == "Make one with `plan.save(path)`."


def test_a_name_too_long_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Cannot read the plan"):
        load(tmp_path / ("x" * 256))
