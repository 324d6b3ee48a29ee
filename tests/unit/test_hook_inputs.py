"""What agents really said to a hook, recorded, and the answer that each of them understands."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.hooks.agents import AGENTS, parsed
from holdfast.model.loop import Decision, LoopEvent, Moment, Touches, Verdict

RECORDED = Path(__file__).parents[1] / "data" / "hooks"


def inputs_of(agent: str) -> list[bytes]:
    return (RECORDED / f"{agent}.jsonl").read_bytes().splitlines()


def events_of(agent: str) -> list[LoopEvent]:
    return [parsed(agent, each) for each in inputs_of(agent)]


def before(agent: str, tool: str) -> LoopEvent:
    return next(e for e in events_of(agent) if e.moment is Moment.BEFORE_TOOL and e.tool == tool)


@pytest.mark.parametrize("agent", AGENTS)
def test_every_recorded_event_names_its_session_and_directory(agent: str) -> None:
    for event in events_of(agent):
        assert (event.agent, event.cwd) == (agent, "/work/site")
        assert event.session


@pytest.mark.parametrize(
    ("agent", "moments"),
    [
        ("claude-code", {"prompt": 2, "before_tool": 7, "other": 16}),
        ("codex", {"prompt": 2, "before_tool": 5, "other": 7}),
        ("gemini", {"prompt": 1, "before_tool": 9, "other": 26}),
        ("opencode", {"prompt": 2, "before_tool": 8, "other": 5}),
    ],
)
def test_every_event_is_a_moment_of_the_loop(agent: str, moments: dict[str, int]) -> None:
    assert Counter(event.moment.value for event in events_of(agent)) == moments


@pytest.mark.parametrize(
    ("agent", "turns", "model"),
    [("claude-code", 1, ""), ("codex", 2, "a-model"), ("gemini", 0, ""), ("opencode", 0, "")],
)
def test_each_call_is_told_apart_and_says_where_it_is_written_down(
    agent: str, turns: int, model: str
) -> None:
    found = [event for event in events_of(agent) if event.moment is Moment.BEFORE_TOOL]
    assert len({event.call for event in found} - {""}) == len(found)
    assert len({event.turn for event in found} - {""}) == turns
    assert {event.model for event in found} == {model}
    assert all(event.transcript for event in found)


@pytest.mark.parametrize(
    ("agent", "tool", "touches", "paths"),
    [
        ("claude-code", "Write", Touches.NAMED, ("/work/site/made.txt",)),
        ("claude-code", "Bash", Touches.ANYTHING, ()),
        ("claude-code", "Read", Touches.NOTHING, ()),
        ("claude-code", "Agent", Touches.NOTHING, ()),
        ("codex", "Bash", Touches.ANYTHING, ()),
        ("codex", "view_image", Touches.NOTHING, ()),
        ("gemini", "replace", Touches.NAMED, ("/work/site/made.txt",)),
        ("gemini", "run_shell_command", Touches.ANYTHING, ()),
        ("gemini", "read_file", Touches.NOTHING, ()),
        ("opencode", "edit", Touches.NAMED, ("/work/site/made.txt",)),
        ("opencode", "bash", Touches.ANYTHING, ()),
        ("opencode", "task", Touches.NOTHING, ()),
    ],
)
def test_what_a_tool_may_touch(
    agent: str, tool: str, touches: Touches, paths: tuple[str, ...]
) -> None:
    event = before(agent, tool)
    assert (event.touches, event.paths) == (touches, paths)


def test_an_unknown_tool_may_touch_anything() -> None:
    for agent, field in (("claude-code", "tool_name"), ("codex", "tool_name")):
        raw = json.loads(inputs_of(agent)[3])
        raw |= {"hook_event_name": "PreToolUse", field: "mcp__shop__buy"}
        assert parsed(agent, json.dumps(raw).encode()).touches is Touches.ANYTHING


def test_a_subagent_works_for_the_session_that_started_it() -> None:
    for agent in ("claude-code", "codex"):
        found = [e for e in events_of(agent) if e.subagent and e.moment is Moment.BEFORE_TOOL]
        assert {each.session for each in found} == {events_of(agent)[0].session}
    said = json.loads(inputs_of("opencode")[0])
    event = parsed("opencode", json.dumps(said | {"session": "ses_top"}).encode())
    assert (event.session, event.subagent) == ("ses_top", said["input"]["sessionID"])


def test_a_patch_of_codex_names_its_files() -> None:
    raw = json.loads(inputs_of("codex")[2])
    patch = "*** Begin Patch\n*** Add File: a b.txt\n+x\n*** Update File: c.py\n*** End Patch\n"
    raw |= {"tool_name": "apply_patch", "tool_input": {"command": patch}}
    event = parsed("codex", json.dumps(raw).encode())
    assert (event.touches, event.paths) == (Touches.NAMED, ("a b.txt", "c.py"))


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"{}", b'{"session_id": 7, "cwd": "/"}', b"\xff"]
)
@pytest.mark.parametrize("agent", [*AGENTS, "nobody"])
def test_what_no_agent_would_say_is_refused(agent: str, raw: bytes) -> None:
    with pytest.raises(UsageError):
        parsed(agent, raw)


# --- Answers --------------------------------------------------------------------------------------

STOP = Decision(verdict=Verdict.STOP, reason="over")
BLOCK = Decision(verdict=Verdict.BLOCK, reason="not now")
TOOLS = {
    "claude-code": "Bash",
    "codex": "Bash",
    "gemini": "run_shell_command",
    "opencode": "bash",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_that_may_go_on_hears_nothing(agent: str) -> None:
    """Allowing would pass over what the user is asked."""
    for event in events_of(agent):
        reply = AGENTS[agent].answer(event, Decision())
        assert (reply.out, reply.err, reply.code) == ("", "", 0)


def answered(agent: str, decision: Decision) -> dict[str, object]:
    reply = AGENTS[agent].answer(before(agent, TOOLS[agent]), decision)
    assert reply.code == 0
    document: dict[str, object] = json.loads(reply.out)
    return document


def test_claude_code_is_denied_and_stopped_in_one_answer() -> None:
    said = answered("claude-code", STOP)
    assert said["continue"] is False  # alone, it would let the tool run
    assert said["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": "over",
    }
    assert "continue" not in answered("claude-code", BLOCK)


def test_codex_is_only_ever_denied() -> None:
    for decision in (STOP, BLOCK):  # `continue` would make the answer invalid, and the tool runs
        assert answered("codex", decision).keys() == {"hookSpecificOutput"}


def test_gemini_is_denied_and_stopped() -> None:
    assert answered("gemini", BLOCK) == {"decision": "deny", "reason": "not now"}
    stopped = {"decision": "deny", "reason": "over", "continue": False, "stopReason": "over"}
    assert answered("gemini", STOP) == stopped


def test_the_plugin_of_opencode_is_told_what_to_throw() -> None:
    assert answered("opencode", STOP) == {"verdict": "stop", "reason": "over"}
    assert answered("opencode", BLOCK) == {"verdict": "block", "reason": "not now"}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_prompt_over_budget_is_blocked(agent: str) -> None:
    prompt = next(each for each in events_of(agent) if each.moment is Moment.PROMPT)
    assert "over" in AGENTS[agent].answer(prompt, STOP).out


@pytest.mark.parametrize("agent", AGENTS)
def test_advice_and_notices_do_not_block(agent: str) -> None:
    decision = Decision(advice="read the error", notice="no checkpoint")
    reply = AGENTS[agent].answer(before(agent, TOOLS[agent]), decision)
    assert "no checkpoint" in reply.out
    assert "read the error" in reply.out
    assert not {"deny", "block", "continue", "allow"} & set(reply.out.replace('"', " ").split())
