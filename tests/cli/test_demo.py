"""holdfast demo: real commands on a sample home that can be looked at and removed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.cli.machine import Machine, removals


def test_the_demo_for_people(used: Machine) -> None:
    """It works whatever this shell is set to, and leaves the user's own home alone."""
    temporary = used.root / "tmp"
    temporary.mkdir()
    settings = {
        "TMPDIR": str(temporary),
        "HOLDFAST_HOME": str(used.home),
        "HOLDFAST_SESSIONS_RETENTION_DAYS": "0",
        "NO_COLOR": "1",
    }
    with used.terminal("demo", columns=120, env=settings) as terminal:
        result = terminal.end()
    assert result.code == 0
    assert "\x1b[32m" not in result.out
    [home] = temporary.iterdir()
    text = "\n".join(result.lines)
    for step in ("status", "sessions prune --dry-run", "sessions prune --yes", "log", "undo"):
        assert f"$ holdfast --home {home} {step}\n" in text
    shown = re.findall(r"holdfast home \S+ +([\d.]+ .B)", text)
    assert len(shown) == 2
    removed, back = (
        re.search(rf"([\d,]+) {word}", text) for word in ("removed  ", "brought back  ")
    )
    assert removed is not None
    assert back is not None
    assert removed.group(1) == back.group(1)
    assert f"rm -r {home}" in text
    shutil.rmtree(home)
    assert len(used.names()) == 7
    assert not (used.home / "operations").exists()


def test_the_demo_as_json(machine: Machine) -> None:
    result = machine.run("--json", "demo", env={"TMPDIR": str(machine.root)})
    assert result.code == 0
    assert result.err == ""
    assert [step["exit_code"] for step in result.document["steps"]] == [0] * 6
    home = Path(result.document["home"])
    assert home.parent == machine.root

    undo, prune = machine.json("--home", str(home), "log")["operations"]
    assert prune["removed"] == undo["brought_back"] > 300
    assert prune["state"] == "undone"
    assert machine.json("--home", str(home), "trash")["trash"] == []
    again = machine.json("--home", str(home), "sessions", "prune", "--dry-run")
    assert len(removals(again)) == prune["removed"]
    [status] = machine.json("--home", str(home), "status")["homes"]
    counts = {share["name"]: share["count"] for share in status["by_kind"]}
    assert counts["transcript"] > 700
    assert counts["request_dump"] > 150
    sources = {share["name"]: share["count"] for share in status["by_source"]}
    assert sources["cron"] / sum(sources.values()) > 0.6
    shutil.rmtree(home)
