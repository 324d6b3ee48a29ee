"""The records of each agent's transcripts with token usage and tool results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.agents.json_lines import Record, files_in, names_in, objects_in, within
from holdfast.homes.agents.message_blocks import CLAUDE, CODEX, GEMINI
from holdfast.homes.meters.tally import MOST_CALLS, Tally, counts_in, without_price
from holdfast.value import dataclass

_EXIT = re.compile(r"(?:Process exited with code|Exit [Cc]ode:?|\"exit_code\":) ?(-?\d+)")
#: Where Gemini CLI puts the exit code: below the command's output, which may contain a similar
#: line.
_GEMINI_SHELL = "run_shell_command"
_GEMINI_EXIT = re.compile(r"(?:^|\\n|\n)Exit Code: (-?\d+)")
#: How many answers of Claude Code are remembered, so that none is counted twice.
_MOST_ANSWERS = 50
#: The model name in messages that Claude Code itself writes when a request fails or is withdrawn.
_NO_MODEL = "<synthetic>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How to read the transcripts of one agent. Only lines that contain one of `having` are parsed.
    `beside` finds the transcripts of subagents."""

    having: tuple[bytes, ...]
    step: Callable[[Record, Tally], None]
    beside: Callable[[Path], Sequence[Path]] = lambda _: ()


def _claude_code(said: Record, tally: Tally) -> None:
    """An answer is written block by block, each with the usage of the whole answer."""
    message = said.get("message")
    if not isinstance(message, dict):
        return
    name, usage = message.get("id"), message.get("usage")
    if isinstance(usage, dict):
        found = without_price(CLAUDE(counts_in(usage, tally)))
        if isinstance(name, str) and name:
            when, model = said.get("timestamp"), message.get("model")
            tally.replace(name, when, model, found, most=_MOST_ANSWERS)
        else:  # without an id, each is a separate answer
            tally.add(said.get("timestamp"), message.get("model"), found)
    elif _is_answer(said, message):
        tally.unsaid(name)
    content = message.get("content")
    for block in content if isinstance(content, list) and said.get("type") == "user" else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            tally.ended(failed=block.get("is_error") is True)


def _is_answer(said: Record, message: Record) -> bool:
    """True if a model wrote it, not the agent in its place. What the agent sends is recorded too,
    including answers, but as another record type."""
    own = message.get("model") == _NO_MODEL or said.get("isApiErrorMessage") is True
    return said.get("type") == "assistant" and not own


def _codex(said: Record, tally: Tally) -> None:
    payload = said.get("payload")
    if not isinstance(payload, dict):
        tally.unclear += said.get("type") == "token_usage_record"
        return
    kind = said.get("type") if said.get("type") != "event_msg" else payload.get("type")
    _codex_turn(kind, payload, tally)
    if kind == "turn_context":
        tally.carry["model"] = payload.get("model")
    elif kind == "token_usage_record":
        tally.carry["recorded"] = True
        _codex_usage(said, payload.get("usage"), tally)
    elif kind == "token_count" and not tally.carry.get("recorded"):
        _codex_usage(said, within(payload, "info").get("last_token_usage"), tally)
    elif kind == "response_item" and str(payload.get("type")).endswith("_output"):
        found = _EXIT.search(str(payload.get("output"))[:2_000])
        if found is not None:
            tally.ended(failed=found[1] != "0")


def _codex_turn(kind: object, payload: Record, tally: Tally) -> None:
    """Usage is written after the answer. So usage is unclear if a turn has two answers without
    usage in between, or ends without it. An aborted turn is not unclear: its answer was not billed
    as a whole; and a copied history has no turns. `turn` is the state of the current turn."""
    turn = tally.carry.get("turn")
    if kind in ("task_started", "turn_started"):
        tally.carry["turn"] = "begun"
    elif kind in ("token_usage_record", "token_count", "turn_aborted"):
        if kind != "token_count" or payload.get("info") is not None:
            tally.carry["turn"] = ""
    elif kind == "response_item" and _is_codex_answer(payload):
        if turn == "between":
            tally.unclear, tally.carry["turn"] = tally.unclear + 1, ""
        elif turn == "begun":
            tally.carry["turn"] = "answered"
    elif kind == "response_item" and turn == "answered":
        tally.carry["turn"] = "between"
    elif kind == "task_complete":
        tally.unclear += turn in ("answered", "between")
        tally.carry["turn"] = ""


def _is_codex_answer(payload: Record) -> bool:
    kind = payload.get("type")
    return payload.get("role") == "assistant" if kind == "message" else kind in _CODEX_CALLS


def _codex_usage(said: Record, usage: object, tally: Tally) -> None:
    tokens = CODEX(counts_in(usage, tally))
    if tokens is None:
        tally.unclear += said.get("type") == "token_usage_record" and usage is None
    else:
        tally.add(said.get("timestamp"), tally.carry.get("model"), without_price(tokens))


def _gemini(said: Record, tally: Tally) -> None:
    """A message is written again when it changes, and a resumed chat begins with the messages so
    far. A withdrawn message has been paid for."""
    listed = (within(said, "$set") if "$set" in said else said).get("messages")
    for each in objects_in(listed if isinstance(listed, list) else [said]):
        if each.get("type") != "gemini" or "id" not in each:
            continue
        tokens = GEMINI(counts_in(each.get("tokens"), tally))
        if tokens is not None:
            name = str(each["id"])
            tally.replace(name, each.get("timestamp"), each.get("model"), without_price(tokens))
        elif each.get("tokens") is None and each.get("content"):
            tally.unsaid(str(each["id"]))  # a message without text may have only tool calls
        calls = each.get("toolCalls")
        for call in calls if isinstance(calls, list) else ():
            _gemini_call(call, tally)


def _gemini_call(call: object, tally: Tally) -> None:
    if not isinstance(call, dict) or call.get("status") not in ("success", "error"):
        return
    counted: list[Any] = tally.carry.setdefault("calls", [])
    if call.get("id") in counted:
        return
    counted.append(call.get("id"))
    del counted[:-MOST_CALLS]
    result = call.get("result") if call.get("name") == _GEMINI_SHELL else None
    exits = _GEMINI_EXIT.findall(str(result)[-2_000:])
    tally.ended(failed=call["status"] == "error" or (bool(exits) and exits[-1] != "0"))


def _subagents_of_gemini(path: Path) -> Sequence[Path]:
    """Subagents are in a folder named after the full id; the chat's file name ends with the
    beginning of the id."""
    start = path.stem.rpartition("-")[2]
    folders = [path.parent / each for each in names_in(path.parent) if each.startswith(start)]
    return [each for folder in folders if folder.is_dir() for each in files_in(folder, ".jsonl")]


_CODEX_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
FORMS = {
    "claude-code": Form(
        having=(b'"usage"', b'"tool_result"', b'"assistant"'),
        step=_claude_code,
        beside=lambda path: files_in(path.with_suffix("") / "subagents", ".jsonl"),
    ),
    "codex": Form(
        having=(
            b'"turn_context"',
            b'"token_usage_record"',
            b'"token_count"',
            b'_output"',
            b'_call"',
            b'"assistant"',
            b'"task_',
            b'"turn_',
        ),
        step=_codex,
    ),
    "gemini": Form(having=(b'"gemini"',), step=_gemini, beside=_subagents_of_gemini),
}
