"""Sessions of other agents as lines of an import."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.homes.agents import json_lines as records
from holdfast.model.session import Message, Session
from holdfast.services.exchange import sessions_as_lines as lines_module
from holdfast.services.exchange.json_lines import LineError
from holdfast.services.exchange.line_reader import read_messages, read_session
from holdfast.services.exchange.sessions_as_lines import WholeSession, sessions_as_lines


def _session(name: str) -> Session:
    return Session(id=name, source="cli", started_at=1.0, last_active_at=1.0)


def _messages(count: int) -> Iterator[Message]:
    return (Message("user", f"message {number}", timestamp=1.0) for number in range(count))


@pytest.mark.parametrize("short", [10, 500, 10**6])
def test_a_line_reads_back(monkeypatch: pytest.MonkeyPatch, short: int) -> None:
    """Whether it fits into memory or not."""
    monkeypatch.setattr(lines_module, "SHORT", short)
    told = [WholeSession(session=_session(name), messages=_messages(30)) for name in ("a", "b")]
    for name, line in zip(("a", "b"), sessions_as_lines(told), strict=True):
        assert line.is_short == (short == 10**6)
        assert read_session(line.text(), keep=False).message_count == 30
        assert [each.content for each in read_messages(line.text(), 1.0)] == [
            f"message {number}" for number in range(30)
        ]
        assert read_session(line.text(), keep=True).session.id == name


def test_what_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST", 1_000)
    monkeypatch.setattr("holdfast.services.exchange.json_lines.LONGEST", 1_000)
    read: list[int] = []

    def endless() -> Iterator[Message]:
        for number, message in enumerate(_messages(10_000)):
            read.append(number)
            yield message

    [line] = sessions_as_lines([WholeSession(session=_session("a"), messages=endless())])
    with pytest.raises(LineError, match="longer than"):
        line.text()
    assert len(read) < 100, "it is not read to its end"


def test_one_that_cannot_be_read_costs_itself() -> None:
    def torn() -> Iterator[Message]:
        yield Message("user", "hello")
        raise KeyError("payload")

    bad, good = sessions_as_lines(
        [
            WholeSession(session=_session("a"), messages=torn()),
            WholeSession(session=_session("b"), messages=_messages(1)),
        ]
    )
    with pytest.raises(LineError, match=r"cannot be read.*payload"):
        bad.text()
    assert bad.session == "a"
    assert read_session(good.text(), keep=True).message_count == 1


def test_what_a_reader_passes_over_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    whole = json.dumps({"type": "user"}) + "\n"
    path.write_text(whole * 2)
    assert records.unread(path) == ()
    path.write_text(whole + whole.rstrip())
    assert records.unread(path) == (), "the last line may lack its end"
    monkeypatch.setattr(records, "MOST_LINE_BYTES", 100)
    path.write_text(whole + "x" * 250 + "\n" + "oops\n\n" + whole + '{"type"')
    assert records.unread(path) == (
        "line 2 is longer than 100 B and was left out",
        "line 3 is not a JSON object and was left out",
        "line 6, the last one, is torn and was left out",
    )
    assert list(records.records(path)) == [{"type": "user"}] * 2
