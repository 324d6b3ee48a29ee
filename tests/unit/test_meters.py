"""What a running session has used, read on from where the last look stopped."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.homes.agents.json_lines import parsed
from holdfast.homes.meters import meter as meters
from holdfast.homes.meters.meter import read_meter, transcript_paths

DAY = "2026-03-25"
AT = f"{DAY}T12:00:00.000Z"


def claude_answer(number: int, read: int = 100, written: int = 10) -> dict[str, Any]:
    usage = {"input_tokens": read, "output_tokens": written, "cache_read_input_tokens": 5}
    message = {"id": f"msg_{number}", "model": "opus", "usage": usage, "content": []}
    return {"type": "assistant", "timestamp": AT, "message": message}


def claude_result(*, failed: bool) -> dict[str, Any]:
    content = [{"type": "tool_result", "content": "x", "is_error": failed}]
    return {"type": "user", "timestamp": AT, "message": {"role": "user", "content": content}}


def codex_answer(number: int) -> dict[str, Any]:
    usage = {"input_tokens": 105, "cached_input_tokens": 5, "output_tokens": 10}
    return {"type": "token_usage_record", "timestamp": AT, "payload": {"usage": usage}}


def codex_result(*, failed: bool) -> dict[str, Any]:
    output = f"Wall time: 0 seconds\nProcess exited with code {int(failed)}\nOutput:\n"
    payload = {"type": "function_call_output", "output": output}
    return {"type": "response_item", "timestamp": AT, "payload": payload}


def gemini_answer(number: int) -> dict[str, Any]:
    tokens = {"input": 105, "output": 10, "cached": 5, "thoughts": 0}
    return {"type": "gemini", "id": f"m{number}", "timestamp": AT, "tokens": tokens, "model": "f"}


def gemini_result(*, failed: bool) -> dict[str, Any]:
    gemini_result.number += 1  # type: ignore[attr-defined]
    number = gemini_result.number  # type: ignore[attr-defined]
    call: dict[str, Any] = {
        "id": f"c{number}",
        "status": "error" if failed else "success",
        "result": [],
    }
    return {"type": "gemini", "id": "tools", "timestamp": AT, "toolCalls": [call]}


gemini_result.number = 0  # type: ignore[attr-defined]

AGENTS = {
    "claude-code": (claude_answer, claude_result),
    "codex": (codex_answer, codex_result),
    "gemini": (gemini_answer, gemini_result),
}


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return tmp_path / "session-2026-abc.jsonl"


def append(path: Path, *records: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines(f"{json.dumps(each, separators=(',', ':'))}\n" for each in records)


@pytest.mark.parametrize("agent", AGENTS)
def test_it_reads_on_and_never_twice(
    agent: str, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, _ = AGENTS[agent]
    read: list[bytes] = []

    def noted(line: bytes) -> Iterator[dict[str, Any]]:
        read.append(line)
        return parsed(line)

    monkeypatch.setattr(meters, "parsed", noted)
    append(transcript, *map(answer, range(50)))
    reading, marks = read_meter(agent, [transcript], {})
    assert (reading.metered.tokens.total, len(read)) == (50 * 110, 50)
    append(transcript, answer(50))
    reading, marks = read_meter(agent, [transcript], json.loads(json.dumps(marks)))
    assert (reading.metered.tokens.total, len(read)) == (51 * 110, 51)
    assert reading.metered.tokens.cached == 51 * 5
    assert {day for day, _ in reading.metered.by_day} == {DAY}
    assert read_meter(agent, [transcript], marks)[0] == reading
    assert len(read) == 51


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("how", ["written anew", "emptied", "removed"])
def test_what_was_used_never_falls_and_more_is_added(
    agent: str, how: str, transcript: Path
) -> None:
    answer, _ = AGENTS[agent]
    append(transcript, *map(answer, range(9)))
    _, marks = read_meter(agent, [transcript], {})
    transcript.unlink()
    if how != "removed":
        transcript.touch()
    if how == "written anew":
        append(transcript, answer(0))
    for _ in range(2):
        reading, marks = read_meter(agent, [transcript], json.loads(json.dumps(marks)))
        assert reading.metered.tokens.total == 9 * 110
        assert reading.missing == ((str(transcript),) if how == "removed" else ())
    append(transcript, answer(20), answer(21))
    expected = 9 if how == "removed" else 11  # one that comes back may be the same as before
    assert read_meter(agent, [transcript], marks)[0].metered.tokens.total == expected * 110


@pytest.mark.parametrize("agent", AGENTS)
def test_the_same_transcript_as_another_file_counts_once(agent: str, transcript: Path) -> None:
    answer, _ = AGENTS[agent]
    append(transcript, *map(answer, range(9)))
    _, marks = read_meter(agent, [transcript], {})
    content = transcript.read_bytes()
    transcript.rename(transcript.with_suffix(".old"))
    transcript.write_bytes(content)
    append(transcript, answer(9))
    assert read_meter(agent, [transcript], marks)[0].metered.tokens.total == 10 * 110


@pytest.mark.parametrize("agent", AGENTS)
def test_a_half_written_line_waits(agent: str, transcript: Path) -> None:
    answer, _ = AGENTS[agent]
    append(transcript, answer(0))
    whole = transcript.read_bytes()
    append(transcript, answer(1))
    both = transcript.read_bytes()
    transcript.write_bytes(both[: len(whole) + 30])
    reading, marks = read_meter(agent, [transcript], {})
    assert reading.metered.tokens.total == 110
    with transcript.open("ab") as file:
        file.write(both[len(whole) + 30 :])
    assert read_meter(agent, [transcript], marks)[0].metered.tokens.total == 220


@pytest.mark.parametrize("agent", AGENTS)
def test_tool_errors_in_a_row(agent: str, transcript: Path) -> None:
    _, result = AGENTS[agent]
    marks: Any = {}
    for failed, expected in ((True, 1), (True, 2), (False, 0), (True, 1)):
        append(transcript, result(failed=failed))
        reading, marks = read_meter(agent, [transcript], marks)
        assert reading.errors == expected


def test_a_failed_command_of_gemini_is_an_error(transcript: Path) -> None:
    """As Gemini CLI writes it: the call succeeded, and the command did not."""
    for number, output in enumerate(
        ("Exit Code: 0\nOutput: x\nExit Code: 3\nPGID: 1", "Output: Exit Code: 3")
    ):
        record = gemini_result(failed=False)
        [call] = record["toolCalls"]
        response = {"functionResponse": {"response": {"output": f"<untrusted>\n{output}"}}}
        call |= {"name": "run_shell_command", "result": [response], "resultDisplay": "x"}
        append(transcript, record)
        assert read_meter("gemini", [transcript], {})[0].errors == 1 - number


def test_an_answer_of_claude_in_several_blocks_counts_once(transcript: Path) -> None:
    append(transcript, claude_answer(1, written=1), claude_answer(1, written=10))
    reading, marks = read_meter("claude-code", [transcript], {})
    assert reading.metered.tokens.output == 10
    append(transcript, claude_answer(1, written=12))
    assert read_meter("claude-code", [transcript], marks)[0].metered.tokens.output == 12


def test_answers_of_claude_whose_lines_interleave_count_once(transcript: Path) -> None:
    marks: Any = {}
    for written in (1, 5, 10):
        append(transcript, claude_answer(1, written=written), claude_answer(2, written=written))
        reading, marks = read_meter("claude-code", [transcript], json.loads(json.dumps(marks)))
        assert reading.metered.tokens.total == 2 * (100 + written)


def test_a_chat_of_gemini_that_is_written_again_counts_once(transcript: Path) -> None:
    append(transcript, gemini_answer(1), gemini_answer(2))
    _, marks = read_meter("gemini", [transcript], {})
    append(transcript, {"$set": {"messages": [gemini_answer(1), gemini_answer(2)]}})
    assert read_meter("gemini", [transcript], marks)[0].metered.tokens.total == 220


@pytest.mark.parametrize(
    ("agent", "beside", "answer"),
    [
        ("claude-code", "session-2026-abc/subagents/agent-1.jsonl", claude_answer),
        ("gemini", "abc-1-2-3/worker.jsonl", gemini_answer),
    ],
)
def test_subagents_count(
    agent: str, beside: str, answer: Callable[[int], dict[str, Any]], transcript: Path
) -> None:
    append(transcript, answer(1))
    other = transcript.parent / beside
    other.parent.mkdir(parents=True)
    append(other, answer(1))
    reading, marks = read_meter(agent, [transcript], {})
    assert reading.metered.tokens.total == 220
    other.unlink()
    assert read_meter(agent, [transcript], marks)[0].metered.tokens.total == 220


def test_a_transcript_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.jsonl"
    reading, _ = read_meter("codex", [missing], {})
    assert reading.missing == (str(missing),)


def test_a_pipe_in_place_of_a_transcript_is_not_waited_for(transcript: Path) -> None:
    os.mkfifo(transcript)
    assert read_meter("codex", [transcript], {})[0].missing == (str(transcript),)


def test_answers_without_an_id_are_answers_of_their_own(transcript: Path) -> None:
    answer = claude_answer(1)
    del answer["message"]["id"]
    append(transcript, answer, answer)
    assert read_meter("claude-code", [transcript], {})[0].metered.tokens.total == 220


@pytest.mark.parametrize(
    ("said", "counted", "unclear"),
    [(100, 100, 0), ("90", 90, 0), (100.0, 100, 0), ("many", 0, 1), (-5, 0, 1), ([], 0, 1)],
)
def test_numbers_as_an_agent_may_write_them(
    said: Any, counted: int, unclear: int, transcript: Path
) -> None:
    append(transcript, claude_answer(1, read=said))
    reading, _ = read_meter("claude-code", [transcript], {})
    assert (reading.metered.tokens.input, reading.unclear) == (counted, unclear)


@pytest.mark.parametrize("how", ["a link", "a way around", "moved", "another disk", "a hard link"])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_transcript_counts_once_whatever_its_name(
    agent: str, how: str, transcript: Path, tmp_path: Path
) -> None:
    answer, _ = AGENTS[agent]
    append(transcript, answer(1))
    names = [str(transcript)]
    _, marks = read_meter(agent, transcript_paths(names), {})
    other = tmp_path / "other-abc.jsonl"
    if how == "a link":
        other.symlink_to(transcript)
    elif how == "a way around":
        (tmp_path / "sub").mkdir()
        other = Path(f"{tmp_path}/sub/../{transcript.name}")
    elif how == "a hard link":
        other.hardlink_to(transcript)
    else:
        other.write_bytes(transcript.read_bytes())
        transcript.replace(other) if how == "moved" else transcript.unlink()
    names.append(str(other))
    append(other, answer(2))
    for _ in range(2):
        reading, marks = read_meter(agent, transcript_paths(names), json.loads(json.dumps(marks)))
        assert (reading.metered.tokens.total, reading.missing) == (220, ())


def test_a_name_that_no_file_can_have_is_no_transcript() -> None:
    [path] = transcript_paths(["/a\0b", "relative", ""])
    assert read_meter("codex", [path], {})[0].missing == (str(path),)


# --- What cannot be read is not nothing -----------------------------------------------------------


def codex_turn(*records: dict[str, Any]) -> list[dict[str, Any]]:
    began, ended = (
        {"type": "event_msg", "timestamp": AT, "payload": {"type": kind}}
        for kind in ("task_started", "task_complete")
    )
    call = {"type": "response_item", "timestamp": AT, "payload": {"type": "function_call"}}
    return [began, call, *records, codex_result(failed=False), ended]


def unsaid(agent: str, usage: Any) -> list[dict[str, Any]]:
    """An answer that does not say what it used, or says it in a way that nobody reads."""
    if agent == "codex":
        return codex_turn(codex_answer(1) | {"payload": {"usage": usage}} if usage else {})
    answer = AGENTS[agent][0](1)
    said, name = (answer, "tokens") if agent == "gemini" else (answer["message"], "usage")
    answer["content"] = "text"
    said[name] = usage
    if usage is None:
        del said[name]
    return [answer]


@pytest.mark.parametrize("usage", [None, [100], "100"])
@pytest.mark.parametrize("agent", AGENTS)
def test_an_answer_that_does_not_say_what_it_used_is_unclear(
    agent: str, usage: Any, transcript: Path
) -> None:
    append(transcript, *unsaid(agent, usage))
    assert read_meter(agent, [transcript], {})[0].unclear == 1


def test_what_no_model_said_uses_nothing(transcript: Path) -> None:
    """What Claude Code writes when a request fails, and what it sent; a turn of Codex that was
    broken off; the calls of Gemini CLI before its words."""
    failed, sent = claude_answer(1), claude_answer(2)
    failed["message"] |= {"model": "<synthetic>"}
    sent |= {"type": "api-request-blob"}
    for each in (failed, sent):
        del each["message"]["usage"]
    append(transcript, failed, sent, claude_answer(3) | {"isApiErrorMessage": True})
    assert read_meter("claude-code", [transcript], {})[0].unclear == 0
    transcript.unlink()
    aborted = {"type": "event_msg", "payload": {"type": "turn_aborted"}}
    append(transcript, *codex_turn(codex_answer(1)), *codex_turn(aborted))
    assert read_meter("codex", [transcript], {})[0].unclear == 0
    transcript.unlink()
    append(transcript, gemini_result(failed=False), gemini_answer(1))
    assert read_meter("gemini", [transcript], {})[0].unclear == 0


def test_a_later_line_of_the_same_answer_may_say_what_it_used(transcript: Path) -> None:
    first = claude_answer(1)
    del first["message"]["usage"]
    append(transcript, first, first)
    reading, marks = read_meter("claude-code", [transcript], {})
    assert reading.unclear == 1
    append(transcript, claude_answer(1))
    reading, _ = read_meter("claude-code", [transcript], json.loads(json.dumps(marks)))
    assert (reading.unclear, reading.metered.tokens.total) == (0, 110)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    ("damage", "counted"), [(b"\0" * 100, 2), (b"\0" * 100 + b"\n", 2), (b'{"type":"as', 1)]
)
def test_a_damaged_line_is_unclear(
    agent: str, damage: bytes, counted: int, transcript: Path
) -> None:
    answer, _ = AGENTS[agent]
    append(transcript, answer(1))
    with transcript.open("ab") as file:
        file.write(damage)
    append(transcript, answer(2))
    reading, marks = read_meter(agent, [transcript], {})
    assert (reading.metered.tokens.total, reading.unclear) == (counted * 110, 1)
    append(transcript, answer(3))
    assert read_meter(agent, [transcript], marks)[0].unclear == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_what_has_no_time_counts_for_the_day_on_which_it_was_written(
    agent: str, transcript: Path
) -> None:
    answer, _ = AGENTS[agent]
    append(transcript, answer(1) | {"timestamp": None}, answer(2) | {"timestamp": "soon"})
    os.utime(transcript, (1_774_440_000, 1_774_440_000))
    reading, _ = read_meter(agent, [transcript], {})
    assert {day for day, _ in reading.metered.by_day} == {DAY}


class OpenCode:
    """As much of its database as the meter reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.do("CREATE TABLE session (id, parent_id)")
        self.do("CREATE TABLE message (session_id, time_created, data)")
        self.do("CREATE TABLE part (id, session_id, data)")
        self.do("INSERT INTO session VALUES ('s1', NULL)")

    def do(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(statement, values)

    def answer(self, cost: float = 0.5) -> None:
        tokens = {"input": 100, "output": 10, "reasoning": 0, "cache": {"read": 5, "write": 0}}
        data = {"role": "assistant", "modelID": "m", "tokens": tokens, "cost": cost}
        self.do("INSERT INTO message VALUES ('s1', 1774440000000, ?)", json.dumps(data))


def test_what_opencode_took_back_was_used(tmp_path: Path) -> None:
    database = OpenCode(tmp_path / "opencode.db")
    database.answer()
    database.answer()
    marks: Any = {}
    for statement, used, cost in (
        ("SELECT 1", 220, 1.0),
        ("DELETE FROM message", 220, 1.0),
        ("SELECT 1", 220, 1.0),
    ):
        database.do(statement)
        marks = json.loads(json.dumps(marks))
        reading, marks = read_meter("opencode", [database.path], marks, session="s1")
        assert reading.metered.tokens.total == used
        assert sum(each.cost for each in reading.metered.by_day.values()) == cost
    database.answer()
    reading, marks = read_meter("opencode", [database.path], marks, session="s1")
    assert reading.metered.tokens.total == 330
    other = read_meter("opencode", [database.path], {}, session="elsewhere")[0]
    assert other.missing == (str(database.path),)


def test_a_finished_answer_of_opencode_says_what_it_used(tmp_path: Path) -> None:
    database = OpenCode(tmp_path / "opencode.db")
    data: dict[str, Any] = {"role": "assistant", "modelID": "m", "tokens": {"input": "?"}}
    add = "INSERT INTO message VALUES ('s1', NULL, ?)"
    database.do(add, json.dumps(data))  # it is under way
    database.do(add, json.dumps({**data, "time": {"completed": 1}, "error": {"name": "Aborted"}}))
    assert read_meter("opencode", [database.path], {}, session="s1")[0].unclear == 0
    database.do(add, json.dumps({**data, "time": {"completed": 1}}))
    os.utime(database.path, (1_774_440_000, 1_774_440_000))
    reading, _ = read_meter("opencode", [database.path], {}, session="s1")
    assert reading.unclear == 1
    assert {day for day, _ in reading.metered.by_day} == {DAY}
