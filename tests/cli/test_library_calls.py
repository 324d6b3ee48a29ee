"""A call from Python plans what the command plans, whatever the configuration says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.model.plan import PlanItem
from tests.cli.every_command import say
from tests.stored import a_line, bring_in

DAY = 86_400.0
NOW = 1_800_000_000.0

CONFIGURATIONS = {
    "none": "",
    "delegates": "[sessions]\ntrivial_max = 1\n",
    "more delegates": "[sessions]\ntrivial_max = 50\n",
    "caps": "[sessions]\nmax_total_size_mb = 1\nmax_count = 3\n",
    "caps of sources": "[sessions]\nretention_days = 0\nkeep_last = 2\nmax_count = 7\n"
    "[sessions.source.cron]\nretention_days = 3\nmax_count = 1\n"
    "[sessions.source.cli]\nkeep_last = 1\n",
    "pins": '[sessions]\npins = ["boss", "lone-*"]\nmax_count = 2\ntrivial_max = 3\n',
    "gc": "[sessions]\nempty_hours = 1\ntrivial_days = 1\ntrivial_max = 2\nkeep_titled = true\n",
}
CALLS: dict[str, tuple[Callable[..., holdfast.Run], dict[str, Any]]] = {
    "sessions delete boss": (holdfast.delete_sessions, {"ids": "boss"}),
    "sessions delete boss lone-1": (holdfast.delete_sessions, {"ids": ["boss", "lone-1"]}),
    "sessions delete boss --now": (holdfast.delete_sessions, {"ids": "boss", "use_trash": False}),
    "sessions prune": (holdfast.prune_sessions, {}),
    "sessions prune --now": (holdfast.prune_sessions, {"use_trash": False}),
    "sessions prune --older-than 20d": (holdfast.prune_sessions, {"older_than_days": 20}),
    "sessions prune --older-than 3650d": (holdfast.prune_sessions, {"older_than_days": 3650}),
    "sessions prune --older-than 0s": (holdfast.prune_sessions, {"older_than_days": 0}),
    "sessions prune --older-than 20d --source cron": (
        holdfast.prune_sessions,
        {"older_than_days": 20, "source": "cron"},
    ),
    "sessions prune --files-only": (holdfast.prune_sessions, {"files": "only"}),
    "sessions prune --no-files --older-than 20d": (
        holdfast.prune_sessions,
        {"files": "none", "older_than_days": 20},
    ),
    "sessions gc": (holdfast.garbage_collect, {}),
    "sessions gc --trivial-max 4 --trivial-days 2": (
        holdfast.garbage_collect,
        {"trivial_max": 4, "trivial_days": 2},
    ),
    "sessions gc --empty-hours 0 --titled-too": (
        holdfast.garbage_collect,
        {"empty_hours": 0, "keep_titled": False},
    ),
    "sessions archive boss": (holdfast.archive_sessions, {"ids": "boss"}),
    "checkpoints prune": (holdfast.prune_checkpoints, {}),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of two sources, of many ages; one has delegates of all sizes."""
    root = tmp_path_factory.mktemp("home")
    lines = [a_line("boss", at=NOW - 40 * DAY, messages=9)]
    for messages in (0, 1, 2, 4, 6, 60):
        who: dict[str, Any] = {"parent_id": "boss", "relation": "delegate"}
        lines.append(a_line(f"helper-{messages}", at=NOW - 40 * DAY, messages=messages, **who))
    for number, source in enumerate(["cli", "cron"] * 4):
        at = NOW - (number * 17 + 2) * DAY
        more: dict[str, Any] = {"source": source, "title": "kept?" if number % 3 else None}
        lines.append(a_line(f"lone-{number}", at=at, messages=number, size=400_000, **more))
    bring_in(root, lines, now=NOW)
    (root / "sessions").mkdir()
    for number in range(3):
        (root / "sessions" / f"lone-{number + 4}.jsonl").write_text("{}\n")
    return root


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_call_plans_what_the_command_plans(
    root: Path, configuration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "config.toml").write_text(configuration)
    monkeypatch.setattr(time, "time", lambda: NOW)
    for words, (call, given) in CALLS.items():
        said = say("--home", str(root), "--json", *words.split(), "--dry-run")
        shown = json.loads(said.out)["plan"]["items"] if said.code == 0 else said.text
        planned = call(root, dry_run=True, clock=lambda: NOW, **given).plan.items
        assert sorted(map(_decision, map(PlanItem.from_json, shown))) == sorted(
            map(_decision, planned)
        ), words


def _decision(item: PlanItem) -> tuple[str, str, str, str, bool]:
    return item.kind, item.id, item.action.value, item.reason, item.undoable
