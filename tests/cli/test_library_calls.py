"""A call from Python plans what the command plans, whatever the configuration says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
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
CALLS: dict[str, Callable[[holdfast.Home], holdfast.HomePlan]] = {
    "sessions delete boss": lambda home: home.plan_delete("boss"),
    "sessions delete boss lone-1": lambda home: home.plan_delete(["boss", "lone-1"]),
    "sessions delete boss --now": lambda home: home.plan_delete("boss", use_trash=False),
    "sessions prune": lambda home: home.plan_prune(),
    "sessions prune --now": lambda home: home.plan_prune(use_trash=False),
    "sessions prune --older-than 20d": lambda home: home.plan_prune(older_than="20d"),
    "sessions prune --older-than 3650d": lambda home: home.plan_prune(older_than="3650d"),
    "sessions prune --older-than 0s": lambda home: home.plan_prune(older_than=timedelta()),
    "sessions prune --older-than 20d --source cron": lambda home: home.plan_prune(
        older_than=timedelta(days=20), source="cron"
    ),
    "sessions prune --keep-last 2 --keep-daily 3": lambda home: home.plan_prune(
        keep_last=2, keep_daily=3
    ),
    "sessions prune --max-count 4 --max-total-size 1MB": lambda home: home.plan_prune(
        max_count=4, max_total_size=1_000_000
    ),
    "sessions prune --files-only": lambda home: home.plan_prune(files="only"),
    "sessions prune --no-files --older-than 20d": lambda home: home.plan_prune(
        files="none", older_than="20d"
    ),
    "sessions prune --archived --older-than 1d": lambda home: home.archive.plan_prune(
        older_than="1d"
    ),
    "sessions gc": lambda home: home.plan_gc(),
    "sessions gc --trivial-max 4 --trivial-days 2": lambda home: home.plan_gc(
        trivial_max=4, trivial_days=2
    ),
    "sessions gc --empty-hours 0 --titled-too": lambda home: home.plan_gc(
        empty_hours=0, keep_titled=False
    ),
    "sessions gc --older-than 20d": lambda home: home.plan_gc(older_than="20d"),
    "sessions archive boss": lambda home: home.plan_archive("boss"),
    "checkpoints prune": lambda home: home.checkpoints.plan_prune(),
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
    for words, call in CALLS.items():
        said = say("--home", str(root), "--json", *words.split(), "--dry-run")
        shown = json.loads(said.out)["plan"]["items"] if said.code == 0 else said.text
        with holdfast.open(root, clock=lambda: NOW) as home:
            planned = call(home).items
        assert sorted(map(_decision, map(PlanItem.from_json, shown))) == sorted(
            map(_decision, planned)
        ), words


def _decision(item: PlanItem) -> tuple[str, str, str, str, bool]:
    return item.kind, item.id, item.action.value, item.reason, item.undoable
