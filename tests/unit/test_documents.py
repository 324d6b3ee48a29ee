"""What the documents point at is there: tests by name, and files by link."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.model import item as kinds
from holdfast.model.maintenance import MaintenanceResult, Step
from holdfast.model.operation import Operation, OperationAction
from holdfast.model.plan import Action, PlanItem

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


def section(page: str, heading: str) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    _, found, after = text.partition(f"\n## {heading}")
    assert found, heading
    return re.split(r"^## ", after, flags=re.MULTILINE)[0]


def test_the_page_on_maintenance_has_every_step_and_field() -> None:
    steps = section("how-to/maintenance.md", "What it does")
    # These are in a result only when they fail.
    beside = (Step.LOOK, Step.FIGURES, Step.RECORD, Step.PROGRESS)
    assert [each for each in Step if each not in beside and f"| {each} |" not in steps] == []
    fields = MaintenanceResult(home="", started_at=0, finished_at=0).to_json()
    document = section("how-to/maintenance.md", "As JSON")
    assert [name for name in fields if f'"{name}"' not in document] == []


def test_the_page_on_json_has_every_field_of_logs_and_plans_and_every_kind() -> None:
    done = Operation(
        id="", action=OperationAction.REMOVE, command="", started_at=0, finished_at=None
    )
    log = section("json.md", "`log`")
    assert [name for name in done.to_json() if f'"{name}"' not in log] == []
    plans = section("json.md", "`sessions prune`")
    item = PlanItem(
        kind="",
        id="",
        source="",
        session="",
        bytes=0,
        last_active_at=0,
        version="",
        action=Action.KEEP,
        reason="",
    )
    assert [name for name in item.to_json() if f'"{name}"' not in plans] == []
    names = {
        value
        for name, value in vars(kinds).items()
        if name.isupper()
        and isinstance(value, str)
        and name not in ("CHECKPOINT_SPACE", "UNKNOWN_SOURCE")
    }
    assert [name for name in sorted(names) if f"`{name}`" not in plans] == []


@pytest.mark.parametrize("command", ["sessions restore", "completion", "maintain", "doctor"])
def test_the_page_on_json_has_an_entry_for(command: str) -> None:
    assert section("json.md", f"`{command}`")


def test_the_page_on_metrics_shows_the_trend_as_it_is() -> None:
    [curve] = re.findall(r"^▁.*$", section("how-to/metrics.md", "Record figures"), re.MULTILINE)
    screen = ROOT / "tests" / "data" / "screens" / "growth.txt"
    assert curve in screen.read_text(encoding="utf-8").splitlines()
