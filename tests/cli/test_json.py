"""--json: one document on stdout and nothing else, whatever happens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.machine import Machine, removals


def _shape(value: Any) -> set[str]:
    assert isinstance(value, dict)
    return set(value)


_PLAN_RUN = {"plan", "applied", "report"}
_ERROR = {"error"}

#: Command, exit code, fields of its document: on a home in use, with one operation in its log.
_RUNS: list[tuple[str, int, set[str]]] = [
    ("", 0, {"homes", "growth", "helps", "failed", "looked_at", "alarms", "in_projects"}),
    ("status", 0, {"homes", "growth", "helps", "failed", "looked_at", "alarms", "in_projects"}),
    ("sessions prune --dry-run", 0, _PLAN_RUN),
    ("sessions prune", 0, _PLAN_RUN),
    ("sessions prune --older-than 1d", 3, _PLAN_RUN),
    ("sessions prune --older-than 1d --yes", 0, _PLAN_RUN),
    ("sessions prune --older-than 1d --now --yes", 0, _PLAN_RUN),
    ("sessions prune --plan-out PLAN", 0, _PLAN_RUN),
    ("sessions prune --older-than nonsense", 2, _ERROR),
    ("sessions", 0, {"command", "text", "commands"}),
    ("redo", 1, _ERROR),
    ("config get trash_days", 0, {"key", "value", "origin"}),
    ("apply PLAN", 2, _ERROR),
    ("log", 0, {"operations", "problems"}),
    ("log --limit 0", 2, _ERROR),
    ("undo", 0, {"undone", "applied", "report"}),
    ("undo --dry-run", 0, {"undone", "applied", "items", "since"}),
    ("undo 99", 2, _ERROR),
    ("trash", 0, {"trash", "bytes"}),
    ("trash list", 0, {"trash", "bytes"}),
    ("trash empty", 3, _PLAN_RUN),
    ("trash empty --dry-run", 0, _PLAN_RUN),
    ("trash empty --yes", 0, _PLAN_RUN),
    ("config", 0, {"path", "settings"}),
    ("config show", 0, {"path", "settings"}),
    ("config check", 0, {"path", "exists", "ok", "warnings"}),
    ("config path", 0, {"path", "exists"}),
    ("config init", 0, {"path", "created", "applied"}),
    ("completion bash", 0, {"shell", "script"}),
    ("completion tcsh", 2, _ERROR),
    ("nonsense", 2, _ERROR),
    ("status --nonsense", 2, _ERROR),
    ("--home /no/such/home status", 2, _ERROR),
    ("--home /no/such/home log", 2, _ERROR),
]


@pytest.mark.parametrize(("command", "code", "fields"), _RUNS, ids=[run[0] for run in _RUNS])
def test_on_a_home_in_use(pruned: Machine, command: str, code: int, fields: set[str]) -> None:
    words = command.replace("PLAN", str(pruned.root / "plan.json")).split()
    result = pruned.run(*words, "--json")
    assert result.code == code, result
    assert _shape(result.document) == fields
    if code == 0:
        assert result.err == ""
    else:
        assert result.err.startswith("error: ")
    if fields == _ERROR:
        error = result.document["error"]
        assert _shape(error) == {"kind", "message", "hint"}
        assert error["message"] in result.err


@pytest.mark.parametrize(
    ("command", "code", "expected"),
    [
        ("status", 0, {"homes": []}),
        ("sessions prune --dry-run", 2, {}),
        ("sessions prune --yes", 2, {}),
        ("log", 2, {}),
        ("undo", 2, {}),
        ("trash list", 2, {}),
        ("config show", 0, {}),
        ("config check", 0, {"exists": False, "ok": True}),
        ("config path", 0, {"exists": False}),
    ],
)
def test_without_any_home(
    machine: Machine, command: str, code: int, expected: dict[str, Any]
) -> None:
    document = machine.json(*command.split(), code=code)
    assert expected.items() <= document.items()
    assert ("error" in document) is (code != 0)


@pytest.mark.parametrize(
    ("command", "code", "expected"),
    [
        ("sessions prune --yes", 0, {"applied": False, "report": None}),
        ("log", 0, {"operations": [], "problems": []}),
        ("undo", 1, {}),
        ("trash list", 0, {"trash": [], "bytes": 0}),
        ("trash empty --yes", 0, {"applied": False, "report": None}),
    ],
)
def test_on_an_empty_home(
    machine: Machine, command: str, code: int, expected: dict[str, Any]
) -> None:
    machine.sessions.mkdir(parents=True)
    document = machine.json(*command.split(), code=code)
    assert expected.items() <= document.items()


def test_the_document_of_a_prune(used: Machine) -> None:
    """The fields that SPEC §9 promises to scripts."""
    document = used.json("sessions", "prune", "--yes")
    plan, report = document["plan"], document["report"]
    assert document["applied"] is True
    for item in plan["items"]:
        assert {"kind", "id", "action", "bytes", "reason"} <= _shape(item)
        assert item["kind"] in {"transcript", "request_dump"}
        assert item["action"] in {"keep", "remove"}
        assert item["bytes"] > 0
        assert item["reason"]
    going = [item for item in plan["items"] if item["action"] == "remove"]
    assert plan["bytes"] == sum(item["bytes"] for item in going)
    assert report["removed"] == len(going) == 5
    assert report["skipped"] == report["failed"] == 0
    assert report["bytes_freed"] == 0
    assert report["bytes_in_trash"] == plan["bytes"]
    assert report["operation"] == "1"


def test_the_document_of_log_and_trash(used: Machine) -> None:
    done = used.json("sessions", "prune", "--yes")
    [operation] = used.json("log")["operations"]
    assert operation["id"] == "1"
    assert operation["state"] == "done"
    assert operation["command"] == "sessions prune"
    assert operation["removed"] == operation["can_bring_back"] == 5
    assert operation["started_at"] <= operation["finished_at"]
    trash = used.json("trash", "list")
    assert sorted(entry["id"] for entry in trash["trash"]) == removals(done)
    assert trash["bytes"] == done["plan"]["bytes"]
    for entry in trash["trash"]:
        assert entry["operation"] == "1"
        assert entry["session"] in entry["id"]
        assert entry["reason"].startswith("older than 90 d")
        assert entry["expires_at"] - entry["removed_at"] == 7 * 86_400


def test_the_document_of_status(used: Machine) -> None:
    dry = used.json("sessions", "prune", "--dry-run")
    [home] = used.json("status")["homes"]
    assert home["home"] == str(used.home)
    assert home["kind"] == "holdfast"
    assert home["policy_would_remove"] == len(removals(dry))
    assert home["policy_would_free"] == dry["plan"]["bytes"]
    assert sum(share["count"] for share in home["by_kind"]) == 6
    assert {share["name"] for share in home["by_source"]} == {"cron", "telegram"}
    assert (
        sum(share["bytes"] for share in home["by_age"]) + home["other_bytes"]
        == (home["total_bytes"])
    )


def test_a_declined_prune_still_shows_its_plan(used: Machine) -> None:
    declined = used.json("sessions", "prune", code=3)
    assert declined["applied"] is False
    assert declined["report"] is None
    assert removals(declined) == removals(used.json("sessions", "prune", "--dry-run"))


def test_a_prompt_stays_off_stdout(used: Machine) -> None:
    with used.terminal("--json", "sessions", "prune", pipe_stdout=True) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        result = terminal.end()
    assert result.code == 0
    assert result.document["report"]["removed"] == 5
