"""What people write who know another library, or have not read the page yet: each mistake is an
error that says what to write instead."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast
from holdfast import AsyncSessions, Budgets, Home, Message, TakeOutcome, Tokens
from holdfast.api.sessions import open_sessions
from holdfast.errors import (
    COMMAND_FLAG,
    HoldfastError,
    NotAHomeError,
    SessionEndedError,
    UnknownSessionError,
    UsageError,
)
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.session_limits import SessionLimits
from holdfast.stores.checkpoints import projects


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    with holdfast.open(tmp_path / "home", create=True) as home:
        home.sessions.create(source="cli", id="mine")
        home.sessions.append("mine", Message("user", "hello"), Message("assistant", "hi"))
        yield home


# --- Errors where they are met --------------------------------------------------------------------


def test_an_error_that_is_not_at_the_top_is_pointed_at() -> None:
    with pytest.raises(AttributeError, match=r"'SessionEndedError'; it is in holdfast\.errors$"):
        _ = holdfast.SessionEndedError  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'NoSuchError'$"):
        _ = holdfast.NoSuchError  # type: ignore[attr-defined]


def test_a_traceback_shows_the_hint(home: Home) -> None:
    with pytest.raises(UnknownSessionError) as caught:
        home.sessions.get("nowhere")
    caught.value.add_note("It was asked for by the gateway.")
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.splitlines()[-2:] == [
        "`home.sessions.find()` shows them.",
        "It was asked for by the gateway.",
    ]
    assert str(caught.value) == "There is no session 'nowhere'."
    command = COMMAND_FLAG.set("")
    try:  # it prints the hint itself
        assert caught.value.__notes__ == ["It was asked for by the gateway."]
    finally:
        COMMAND_FLAG.reset(command)
    assert HoldfastError("It failed.").__notes__ == []


# --- Sessions -------------------------------------------------------------------------------------


def test_a_session_that_passed_a_limit_says_where_it_goes_on(tmp_path: Path) -> None:
    options = SessionOptions(limits=SessionLimits(max_messages=2))
    with open_sessions(tmp_path / "home", options=options) as sessions:
        old = sessions.create(source="cli", id="old")
        guard = sessions.guard(old)
        new = sessions.append(old, Message("user", "a"), Message("assistant", "b")).continued_as
        assert new is not None
        calls: list[Callable[[], object]] = [
            lambda: sessions.append(old, Message("user", "c")),
            lambda: sessions.replace_messages(old, [Message("user", "c")]),
        ]
        for call in calls:
            with pytest.raises(SessionEndedError) as caught:
                call()
            assert caught.value.hint == f"It goes on in {new.id}: append there."
        with pytest.raises(SessionEndedError) as caught, guard.call():
            pass
        assert "sessions.tip(session)" in (caught.value.hint or "")
        sessions.end(new)
        with pytest.raises(SessionEndedError) as caught:
            sessions.append(old, Message("user", "c"))
        assert caught.value.hint == f"It goes on in {new.id}: reopen that before adding to it."
        with pytest.raises(SessionEndedError) as caught:
            sessions.append(new, Message("user", "c"))
        assert caught.value.hint == "Reopen it before adding to it."


def test_a_number_of_no_message_is_refused(home: Home) -> None:
    sessions = home.sessions
    last = [*sessions.messages("mine")][-1].number or 0
    calls: list[Callable[[], object]] = [
        lambda: sessions.take_back("mine", last + 1),
        lambda: sessions.replace_messages("mine", [], after=last + 1),
        lambda: sessions.compact("mine", [Message("user", "summary")], after=last + 1),
    ]
    for call in calls:
        with pytest.raises(UsageError, match=f"no message with the number {last + 1}"):
            call()
    sessions.replace_messages("mine", [Message("user", "more")], after=last)
    assert [each.content for each in sessions.messages("mine")] == ["hello", "hi", "more"]
    newest = [*sessions.messages("mine")][-1].number or 0
    for _ in range(2):  # a call that is repeated changes nothing
        sessions.take_back("mine", newest)
        assert [each.content for each in sessions.messages("mine")] == ["hello", "hi"]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"older_than": "1d"}, "active_before"),
        ({"newer_than": "1d"}, "active_after"),
        ({"since": "1d"}, "active_after"),
        ({"sorce": "cli"}, "source"),
    ],
)
def test_a_filter_by_another_name(home: Home, given: dict[str, Any], meant: str) -> None:
    for find in (home.sessions.find, home.sessions.count, home.archive.find):
        with pytest.raises(UsageError) as caught:
            find(**given)
        assert caught.value.hint == f"Did you mean `{meant}`?"


def test_messages_as_hosts_have_them(home: Home) -> None:
    """A type checker accepts them too: this file is checked."""
    call = {"id": "c1", "function": {"name": "shell", "arguments": "{}"}}
    home.sessions.append("mine", Message("assistant", "Let me look.", tool_calls=[call]))
    [*_, last] = home.sessions.messages("mine")
    assert last.tool_calls == [call]
    assert home.sessions.get("mine").tool_call_count == 1
    home.sessions.take_back("mine", last)
    assert [each.content for each in home.sessions.messages("mine")] == ["hello", "hi"]
    with pytest.raises(UsageError, match="has no number"):
        home.sessions.take_back("mine", Message("user", "never stored"))


def test_one_role_is_a_role(home: Home) -> None:
    searches: list[Any] = [
        home.sessions.search,
        home.search_sessions,
        home.archive.search,
        holdfast.machine().search_sessions,
    ]
    for search in searches:
        search("hello", role="user")
        with pytest.raises(UsageError, match="same option"):
            search("hello", role="user", roles=["user"])
    assert home.sessions.search("hello", role="user")
    assert not home.sessions.search("hello", role="assistant")
    assert not home.search_sessions("hello", role="assistant").hits


def test_sessions_have_find_where_others_have_list(home: Home) -> None:
    readers: list[Any] = [home.sessions, home.archive, AsyncSessions(home.sessions)]
    for sessions in readers:
        with pytest.raises(AttributeError, match=r"no attribute 'list'; `find\(\)` lists"):
            _ = sessions.list
        assert not hasattr(sessions, "lst")


def test_a_message_in_the_words_of_others(home: Home) -> None:
    with pytest.raises(UsageError) as caught:
        home.sessions.append("mine", {"role": "user", "text": "hi"})
    assert (caught.value.hint or "").startswith("Did you mean `content`?")
    wrong: list[tuple[Message, str]] = [
        (Message("user", "x", timestamp=datetime.now()), "epoch seconds"),  # type: ignore[arg-type]  # noqa: DTZ005
        (Message("user", "x", tokens="5"), r"whole number from 0 to .*, or Tokens\(…\)"),  # type: ignore[arg-type]
        (Message("user", "x", tokens=Tokens(input="5")), "not '5'"),  # type: ignore[arg-type]
        (Message("user", "x", cost="0.1"), "must be a finite number of 0 or more, not '0.1'"),  # type: ignore[arg-type]
    ]
    for message, said in wrong:
        with pytest.raises(UsageError, match=said):
            home.sessions.append("mine", message)
    with pytest.raises(UsageError) as caught:
        home.sessions.append("mine", wrong[0][0])
    assert caught.value.hint == "For a datetime, pass `when.timestamp()`."


def test_a_budget_that_is_no_number_of_its_kind() -> None:
    for wrong in (5.5, "5", True, None):
        with pytest.raises(UsageError, match="`tokens` must be a whole number, not"):
            Budgets(tokens=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="`cost` must be a number, not '5'"):
        Budgets(cost="5")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="must be from 0 to") as caught:
        Budgets(tokens=-1)
    assert caught.value.hint == "0 turns a budget off."
    assert Budgets(tokens=5, cost=0.5, wall_seconds=1.5).cost == 0.5


def test_a_call_is_entered_before_it_has_a_reply(home: Home) -> None:
    call = home.sessions.guard("mine").call()
    for early in (lambda: call.append(Message("assistant", "x")), call.used):
        with pytest.raises(UsageError, match="not entered") as caught:
            early()
        assert "`with guard.call() as call:`" in (caught.value.hint or "")
    refused = home.sessions.guard("mine", budgets=Budgets(tokens=1)).call(tokens=Tokens(input=5))
    with pytest.raises(holdfast.BudgetExceededError), refused:
        pass
    with pytest.raises(UsageError, match="was refused"):
        refused.used()


# --- Checkpoints and homes ------------------------------------------------------------------------


def test_a_checkpoint_of_a_directory_that_does_not_exist(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "file").write_text("x")
    for wrong, said in ((project / "nodir", "There is no directory"), (project / "file", "is not")):
        for take in (home.checkpoints.take, home.checkpoints.foresee):
            with pytest.raises(UsageError, match=said):
                take(wrong)
    assert not (home.path / "checkpoints").exists()
    home.checkpoints.take(project)
    skipped = home.checkpoints.recorder().before_change(tmp_path / "gone" / "file")
    assert skipped.outcome is not None  # a recorder never raises
    # The disk of a project may only be unmounted.
    project.rename(tmp_path / "elsewhere")
    monkeypatch.setattr("holdfast.api.checkpoints.unmounted", lambda _: "its disk is not mounted")
    monkeypatch.setattr(projects, "unmounted", lambda _: "its disk is not mounted")
    taking = home.checkpoints.take(project)
    assert taking.outcome is TakeOutcome.SKIPPED
    assert "not mounted" in taking.reason


def test_an_agent_that_is_not_here(home: Home) -> None:
    with pytest.raises(NotAHomeError, match="no home of Codex here") as caught:
        holdfast.open("codex")
    hint = caught.value.hint or ""
    assert "Did you mean" not in hint
    assert "create" not in hint


def test_an_agent_that_nobody_knows() -> None:
    with pytest.raises(UsageError, match="no agent 'codx'") as caught:
        holdfast.machine(agents=("codx",))
    assert (caught.value.hint or "").startswith("Did you mean 'codex'?")


def test_a_wrong_argument_names_what_was_called(home: Home, tmp_path: Path) -> None:
    calls: list[tuple[str, Callable[[], object]]] = [
        ("home.checkpoints.take()", lambda: home.checkpoints.take(tmp_path, why="x")),  # type: ignore[call-arg]
        ("home.undo()", lambda: home.undo("1", now=True)),  # type: ignore[call-arg]
        ("home.export()", lambda: home.export("mine", now=True)),  # type: ignore[call-arg]
        ("home.delete()", lambda: home.delete("mine", now=True)),  # type: ignore[call-arg]
        ("home.plan_delete()", lambda: home.plan_delete("mine", now=True)),  # type: ignore[call-arg]
        ("sessions.guard()", lambda: home.sessions.guard("mine", now=True)),  # type: ignore[call-arg]
        ("sessions.append()", cast("Any", home.sessions.append)),
        ("machine.status()", lambda: holdfast.machine().status(now=True)),  # type: ignore[call-arg]
        ("home.archive.find()", lambda: home.archive.find(None, None)),  # type: ignore[call-arg, arg-type]
    ]
    for name, call in calls:
        with pytest.raises(TypeError, match=f"^{re.escape(name)} "):
            call()


def test_a_prune_in_other_words(home: Home) -> None:
    parts: list[Any] = [home, home.checkpoints, home.archive]
    for part in parts:
        for prune in (part.prune, part.plan_prune):
            with pytest.raises(TypeError, match="did you mean `older_than`"):
                prune(days=90)
    with pytest.raises(TypeError, match=r"home\.plan_prune\(\) shows the plan"):
        home.prune(dry_run=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"home\.plan_delete\(\) shows the plan"):
        home.delete("mine", dry_run=True)  # type: ignore[call-arg]
    assert home.sessions.count() == 1


def test_a_run_that_skipped_everything_is_in_the_log(home: Home) -> None:
    home.sessions.end("mine")
    plan = home.plan_delete("mine")
    assert plan.apply().removed == 1
    again = plan.apply()
    assert (again.removed, again.skipped, again.operation) == (0, 1, "2")
    assert [each.id for each in home.log.list()] == ["2", "1"]
    assert "Nothing" in str(again.undo())  # it brought nothing to undo
    assert home.sessions.count() == 0
    nothing = home.plan_gc().apply()
    assert (nothing.operation, nothing.skipped) == (None, 0)


def test_what_calls_return_can_be_read_in_a_console(home: Home, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "file").write_text("old")
    taking = home.checkpoints.take(project)
    (project / "file").write_text("new")
    home.sessions.end("mine")
    machine = holdfast.machine(user_home=tmp_path)
    shown = [
        home.plan_prune(),
        home.plan_delete("mine"),
        home.delete("mine"),
        home.plan_undo("1"),
        home.undo("1"),
        home.plan_redo("1"),
        home.archive.plan_restore(),
        home.checkpoints.diff(taking),
        home.checkpoints.plan_restore(taking),
        home.checkpoints.restore(taking),
        home.checkpoints.plan_prune(),
        home.status(),
        home.maintain(force=True),
        home.plan_maintain(),
        machine.status(),
        machine.plan_connect("claude-code"),
    ]
    assert [each for each in map(repr, shown) if " at 0x" in each] == []
