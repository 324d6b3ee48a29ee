"""A transcript that grows is counted on from where the last reader stopped, and never wrongly."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.homes.agents import appended_transcript
from holdfast.homes.agents.appended_transcript import Appended, Lines
from holdfast.homes.agents.claude_code import ClaudeCode
from holdfast.homes.agents.codex import Codex
from holdfast.model.part import Counts
from holdfast.model.session import Message


def _claude(number: int) -> list[dict[str, object]]:
    """One turn: a question, an answer in two blocks, its result in between, and now and then the
    cost of everything so far."""
    usage = {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 5}
    answer = {"id": f"msg_{number}", "role": "assistant", "usage": usage}
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "done"}
    said: list[dict[str, object]] = [
        {"type": "user", "message": {"role": "user", "content": f"question {number}"}},
        {"type": "progress", "data": "x" * 200},
        {"type": "assistant", "message": {**answer, "content": [{"type": "text", "text": "hm"}]}},
        {"type": "assistant", "message": {**answer, "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
        {"type": "assistant", "message": {**answer, "content": [{"type": "text", "text": "ok"}]}},
    ]
    if number % 3 == 2:
        said.append({"type": "cost-state", "totalCostUSD": number / 100})
    return said


def _codex(number: int) -> list[dict[str, object]]:
    call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": f"c{number}"}
    usage = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2}
    return [
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "hi"}},
        {"type": "response_item", "payload": call},
        {"type": "token_usage_record", "payload": {"usage": usage}},
    ]


_TURNS: dict[str, Callable[[int], list[dict[str, object]]]] = {"claude": _claude, "codex": _codex}


def _of(agent: str, path: Path) -> Appended:
    return (ClaudeCode() if agent == "claude" else Codex()).spoken_in(path)


def _text(agent: str, turns: int) -> bytes:
    records = [each for number in range(turns) for each in _TURNS[agent](number)]
    return b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in records)


@pytest.mark.parametrize("agent", _TURNS)
def test_wherever_it_was_cut_the_sums_are_those_of_one_reading(agent: str, tmp_path: Path) -> None:
    """Cut at every line, and in the middle of each: what was counted before counts once."""
    path = tmp_path / "transcript.jsonl"
    whole = _text(agent, 8)
    path.write_bytes(whole)
    expected = Counts.of(_of(agent, path).messages())
    assert expected.messages > 8
    read: list[int] = []
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for end in [cut for each in ends for cut in (each - 30, each)]:
        path.write_bytes(whole[:end])
        before = _of(agent, path).count()
        assert before.whole
        with path.open("ab") as file:  # the same file: it only grows
            file.write(whole[end:])
        after = _of(agent, path).count(before.point)
        assert after.counts == expected
        read.append(after.bytes)
    assert sum(each < len(whole) for each in read) > len(read) / 2


@pytest.mark.parametrize("agent", _TURNS)
def test_piece_by_piece_it_comes_to_the_end(agent: str, tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(_text(agent, 40))
    reading = _of(agent, path)
    pieces, counted = 1, reading.count(most_bytes=500)
    while not counted.whole and pieces < 1_000:
        counted = reading.count(counted.point, most_bytes=500)
        pieces += 1
    assert counted.counts == Counts.of(reading.messages())
    assert pieces > 5


def _shorter(path: Path, text: bytes) -> None:
    path.write_bytes(text[: len(text) // 3])


def _edited(path: Path, text: bytes) -> None:
    path.write_bytes(text.replace(b"question 0", b"QUESTION 0"))


def _another(path: Path, text: bytes) -> None:
    """A copy that took its name: the same bytes at both ends say nothing about the middle."""
    shutil.copy(path, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize("change", [_shorter, _edited, _another])
def test_another_file_is_counted_from_the_beginning(
    change: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    path = tmp_path / "transcript.jsonl"
    text = _text("claude", 20)
    path.write_bytes(text)
    before = _of("claude", path).count()
    change(path, text)
    after = _of("claude", path).count(before.point)
    assert after.bytes == path.stat().st_size
    assert after.counts == Counts.of(_of("claude", path).messages())


def test_without_a_place_to_go_on_from_everything_is_read(tmp_path: Path) -> None:
    """Else the same bytes would be read every time, and the end would never be reached."""

    def never_settles(lines: Lines) -> Iterator[Message]:
        for _ in lines:
            yield Message("user", "x")

    path = tmp_path / "transcript.jsonl"
    path.write_text('{"a": 1}\n' * 100)
    counted = Appended(path=path, spoken=never_settles).count(most_bytes=50)
    assert counted.whole
    assert counted.counts.messages == 100
    assert counted.point is None


def test_a_line_that_is_too_long_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(appended_transcript, "MOST_LINE_BYTES", 300)
    path = tmp_path / "transcript.jsonl"
    said = [*_claude(0), {"type": "user", "message": {"content": "y" * 900}}, *_claude(1)]
    lines = [json.dumps(each, separators=(",", ":")) + "\n" for each in said]
    path.write_text("".join(lines))
    counted = _of("claude", path).count()
    assert counted.counts.messages == Counts.of(_of("claude", path).messages()).messages
    assert counted.bytes == path.stat().st_size


def test_the_usage_of_an_answer_counts_once_and_its_cost_covers_all(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(_text("claude", 3))
    counts = Counts.of(_of("claude", path).messages())
    assert (counts.tokens.input, counts.tokens.output, counts.tokens.cached) == (30, 9, 15)
    assert counts.cost == 0.02
    assert not counts.unpriced.any
