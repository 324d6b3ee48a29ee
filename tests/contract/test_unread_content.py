"""gc leaves a session that looks trivial only because most of its transcript could not be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from tests.contract.agent_homes import FOUR, NOW
from tests.contract.agents import (
    cline,
    continue_cli,
    copilot,
    droid,
    gptme,
    kimi_code,
    openhands,
    pi,
    qwen,
    vibe,
)
from tests.contract.agents.home import AgentHome
from tests.contract.agents.recorded import RECORDED

CLAUDE, CODEX, GEMINI, _ = FOUR
#: Not less than the longest sample has.
MOST = 40

In = Callable[[Path], Path]


def opened(root: Path) -> Home:
    return holdfast.open(root, clock=lambda: NOW)


def transcript(root: Path, agent: AgentHome) -> Path:
    return next(root.glob(agent.file))


def reason(root: Path, agent: AgentHome, most: int = MOST) -> str:
    """Why gc keeps the whole session of a sample; "" if it goes."""
    with opened(root) as home:
        [item] = [each for each in home.plan_gc(trivial_max=most).items if each.id == agent.whole]
        return "" if item.action.value == "remove" else item.reason


def made(agent: AgentHome, root: Path) -> Path:
    agent.make(root)
    assert reason(root, agent) == ""
    return root


@pytest.mark.parametrize("agent", RECORDED, ids=lambda each: each.name)
def test_what_agents_write_around_messages_is_no_unread_content(
    agent: AgentHome, tmp_path: Path
) -> None:
    agent.make(tmp_path / "home")
    with opened(tmp_path / "home") as home:
        plan = home.plan_gc(trivial_max=MOST)
        assert not [item.reason for item in plan.items if "unreadable" in item.reason]


LINES = (
    CLAUDE,
    CODEX,
    GEMINI,
    copilot.HOME,
    droid.HOME,
    gptme.HOME,
    kimi_code.HOME,
    pi.HOME,
    qwen.HOME,
)


@pytest.mark.parametrize("agent", LINES, ids=lambda each: each.name)
def test_a_session_with_unreadable_lines_is_not_trivial(agent: AgentHome, tmp_path: Path) -> None:
    root = made(agent, tmp_path / "home")
    with transcript(root, agent).open("a") as file:
        file.writelines(f'{{"type": "user", "text": {number}\n' for number in range(300))
    assert reason(root, agent) == "partly unreadable: 300 lines of it cannot be read"


@pytest.mark.parametrize("agent", LINES, ids=lambda each: each.name)
def test_a_session_of_far_more_bytes_than_its_messages_is_not_trivial(
    agent: AgentHome, tmp_path: Path
) -> None:
    root = made(agent, tmp_path / "home")
    with transcript(root, agent).open("a") as file:
        for _ in range(9):
            file.write(json.dumps({"type": "cipher", "body": "0123456789" * 10_000}) + "\n")
    said = reason(root, agent)
    assert said.startswith("partly unreadable: ")
    assert " MB for " in said or " kB for " in said


@pytest.mark.parametrize("agent", LINES, ids=lambda each: each.name)
def test_a_session_with_messages_in_an_unknown_form_is_not_trivial(
    agent: AgentHome, tmp_path: Path
) -> None:
    """What a later release of the agent might write."""
    root = made(agent, tmp_path / "home")
    with transcript(root, agent).open("a") as file:
        for number in range(200):
            text = [{"type": "text", "text": f"Question {number}: why does the build fail?"}]
            turn = {"role": "user", "content": text}
            file.write(json.dumps({"type": "turn_v9", "turn": turn}) + "\n")
    assert reason(root, agent) == (
        "partly unreadable: records of type 'turn_v9' that may be messages"
    )


def test_most_records_of_codex_renamed(tmp_path: Path) -> None:
    root = made(CODEX, tmp_path / "home")
    with transcript(root, CODEX).open("a") as file:
        for number in range(200):
            call = {"type": "function_call", "name": "shell", "call_id": f"c{number}"}
            file.write(json.dumps({"type": "response_item_v2", "payload": call}) + "\n")
    assert reason(root, CODEX) == ("partly unreadable: records of unknown type 'response_item_v2'")


def _torn_event(root: Path) -> None:
    events = root / "conversations" / openhands.HOME.whole / "events"
    (events / "event-00099-torn.json").write_text('{"kind": "MessageEvent", "llm_mess')


def _unknown_event(root: Path) -> None:
    events = root / "conversations" / openhands.HOME.whole / "events"
    said = {"role": "user", "content": [{"type": "text", "text": "Why does the build fail?"}]}
    new = {"kind": "DialogueEvent", "said": said}
    (events / "event-00099-new.json").write_text(json.dumps(new))


def _unknown_turn(of: AgentHome, place: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        path = transcript(root, of)
        said = json.loads(path.read_text())
        said[place] = [{"role": "user", "content": f"Question {n}?"} for n in range(200)]
        path.write_text(json.dumps(said))

    return change


def _torn_journal(root: Path) -> None:
    journal = max(root.rglob(f"{vibe.HOME.whole}/journal/*.jsonl"))
    with journal.open("a") as file:
        file.write('{"sequence": 900, "payload": {"delta": [{"entry"\n')


@pytest.mark.parametrize(
    ("agent", "change", "why"),
    [
        (openhands.HOME, _torn_event, "event-00099-torn.json is not a complete document"),
        (openhands.HOME, _unknown_event, "records of type 'DialogueEvent' that may be messages"),
        (cline.HOME, _unknown_turn(cline.HOME, "turns"), "records that may be messages"),
        (
            continue_cli.HOME,
            _unknown_turn(continue_cli.HOME, "log"),
            "records that may be messages",
        ),
        (vibe.HOME, _torn_journal, "1 line of it cannot be read"),
    ],
)
def test_other_forms_of_transcripts(
    agent: AgentHome, change: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    root = made(agent, tmp_path / "home")
    change(root)
    assert reason(root, agent) == f"partly unreadable: {why}"


def test_a_line_that_is_too_long_and_a_few_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """66 MB in one line, for a reader that reads at most 64 MB of it."""
    root = made(CLAUDE, tmp_path / "home")
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "x" * 300_000}})
    for module in ("json_lines", "appended_transcript"):
        monkeypatch.setattr(f"holdfast.homes.agents.{module}.MOST_LINE_BYTES", 200_000)
    monkeypatch.setattr("holdfast.homes.foreign.unread_content.MOST_LINE_BYTES", 200_000)
    with transcript(root, CLAUDE).open("a") as file:
        file.write(f"{line}\n")
    assert reason(root, CLAUDE) == "partly unreadable: 1 line of it cannot be read"


def test_what_a_list_of_small_sessions_says_it_frees(tmp_path: Path) -> None:
    """The tip of `stats` counts what gc would take."""
    root = made(CLAUDE, tmp_path / "home")
    wanted = holdfast.SessionFilter(max_messages=MOST)
    with opened(root) as home:
        before = home._place.home.session_store().weigh(wanted).count  # type: ignore[union-attr]
    with transcript(root, CLAUDE).open("a") as file:
        file.write("{torn\n")
    with opened(root) as home:
        after = home._place.home.session_store().weigh(wanted).count  # type: ignore[union-attr]
    assert after == before - 1
