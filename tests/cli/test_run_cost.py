"""What a run costs: several models, prices of our own, and sessions from before."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

from tests.cli.machine import Machine
from tests.cli.test_run import run, sh

_SESSION = "11111111-2222-4333-8444-555555555555"


def answer(cwd: Path, model: str, tokens: int, name: str) -> str:
    return json.dumps(
        {
            "type": "assistant",
            "uuid": name,
            "sessionId": _SESSION,
            "cwd": str(cwd),
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 5)),
            "message": {
                "id": name,
                "role": "assistant",
                "model": model,
                "content": [{"type": "text", "text": "hm"}],
                "usage": {"input_tokens": tokens, "output_tokens": 0},
            },
        },
        separators=(",", ":"),
    )


def transcript(machine: Machine, *before: str) -> Path:
    """A session of Claude Code; Holdfast's own configuration has a price for one model."""
    folder = machine.user / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    (machine.user / ".claude" / "settings.json").write_text("{}")
    machine.home.mkdir()
    (machine.home / "config.toml").write_text('[prices]\n"big-*" = { input = 15, output = 75 }\n')
    file = folder / f"{_SESSION}.jsonl"
    file.write_text("".join(f"{line}\n" for line in before))
    return file


def written(file: Path, *lines: str) -> str:
    return "".join(f"echo {shlex.quote(line)} >> {file}; " for line in lines)


def test_what_is_known_is_over_the_budget_whatever_else_has_no_price(
    machine: Machine, project: Path
) -> None:
    """The last model has no price: that hides nothing of what the other one cost."""
    answers = [answer(project, "big-4", 510_000, "a"), answer(project, "small-1", 20, "b")]
    command = written(transcript(machine), *answers) + "exec sleep 30"
    limits = ("--budget", "5USD", "--on-failure", "allow", "--no-checkpoints")
    code, said, err = run(machine, project, *limits, *sh(command))
    assert code != 0
    assert said["stopped"] == "it cost at least $7.65, the budget is $5.00"
    assert (said["cost"], said["cost_known"]) == (None, 7.65)
    assert said["unpriced_models"] == ["small-1"]
    assert "at least $7.65, in 1 session; the cost of the rest is unknown: no price for" in err


def test_only_what_is_new_counts_and_the_model_without_a_price_is_named(
    machine: Machine, project: Path
) -> None:
    """Its directory goes through a link, and before the run it used more than the budget."""
    link = machine.root / "link"
    link.symlink_to(project)
    before = [answer(link, "big-4", 900_000, "a"), answer(link, "other-2", 100, "b")]
    answers = [answer(link, "small-1", 20, "c"), answer(link, "big-4", 100_000, "d")]
    command = written(transcript(machine, *before), *answers) + "sleep 1.5"
    limits = ("--budget", "5USD", "--on-failure", "allow", "--no-checkpoints")
    code, said, err = run(machine, project, *limits, *sh(command))
    assert (code, said["stopped"]) == (0, None)
    assert (said["tokens"], said["cost_known"]) == (100_020, 1.5)
    assert (
        "the budget cannot be checked, but the command keeps running: small-1 has no price" in err
    )
    assert "other-2" not in err
