"""What callers hand to the API: a session for its id, one value for several, times as people write
them. What cannot work says what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Home, Message, Session, SessionFilter, TakeOutcome
from holdfast.api.capture import open_recorder
from holdfast.errors import UsageError
from holdfast.value import replace
from tests.contract.agent_homes import make_claude

NOW = 1_790_000_000.0
DAY = 86_400.0


class Clock:
    """The time that a test has made it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def home(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    with holdfast.open(tmp_path / "home", create=True, clock=clock) as home:
        yield home


@pytest.fixture
def session(home: Home) -> Session:
    made = home.sessions.create(source="cli", id="mine")
    home.sessions.append(made, Message("user", "hello"))
    return home.sessions.end(made)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "person" / "project"
    made.mkdir(parents=True)
    (made / ".git").mkdir()
    (made / "old").write_text("old")
    (made / "new").write_text("new")
    return made.resolve()


# --- A session stands for its id ------------------------------------------------------------------


def test_checkpoints_take_a_session_for_its_id(home: Home, session: Session, project: Path) -> None:
    checkpoints = home.checkpoints
    taken = checkpoints.take(project, session=session, turn=3)
    assert checkpoints.get(taken.id or "").session == "mine"
    assert checkpoints.get(taken.id or "").turn == "3"
    (project / "new").write_text("newer")
    recorded = checkpoints.recorder(session=session).before_change(project / "new")
    assert recorded.outcome is TakeOutcome.TAKEN
    by_session = [each.id for each in checkpoints.list(session=session)]
    assert by_session == [recorded.id, taken.id]
    assert by_session == [each.id for each in checkpoints.list(session="mine")]
    assert checkpoints.list(session="other") == []
    assert by_session == [each.id for each in checkpoints.list(session="mi")]
    (project / "new").write_text("newest")
    checkpoints.take(project, session="min")
    assert len(checkpoints.list(session="min")) == 1  # a whole id counts more than a start
    assert checkpoints.list(session=replace(session, id="mi")) == []  # a session is that one
    with pytest.raises(UsageError, match="could be any of 2 sessions:\n  min\n  mine"):
        checkpoints.list(session="mi")


def test_what_was_found_of_a_session_stands_for_it(home: Home, session: Session) -> None:
    [hit] = home.sessions.search("hello")
    assert home.sessions.get(hit) == session
    home.archive_sessions(session)
    [archived] = home.archive.find()
    assert home.archive.get(archived) == archived
    assert [message.content for message in home.archive.messages(archived)] == ["hello"]
    assert home.restore_sessions(home.archive.find()).brought_back
    assert home.sessions.get(archived).id == "mine"
    assert home.sessions.find(ids=archived) == home.sessions.find(ids=[session])


@pytest.mark.parametrize("wrong", [5, b"mine", object(), ["mine"]])
def test_a_recorder_says_when_it_is_made_that_it_cannot_work(
    home: Home, project: Path, tmp_path: Path, wrong: Any
) -> None:
    with pytest.raises(UsageError, match="a string or a Session"):
        home.checkpoints.recorder(session=wrong)
    with pytest.raises(UsageError, match="a string or a Session"):
        open_recorder(tmp_path / "other", session=wrong)
    with pytest.raises(UsageError, match="a string or a Session"):
        home.checkpoints.list(session=wrong)
    with pytest.raises(UsageError, match="a string or a Session"):
        home.checkpoints.take(project, session=wrong)


@pytest.mark.parametrize(("knob", "wrong"), [("workdirs", 5), ("workdirs", [5]), ("enabled", "no")])
def test_a_recorder_checks_its_other_arguments_too(home: Home, knob: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=knob):
        home.checkpoints.recorder(**{knob: wrong})


# --- One value where several are wanted -----------------------------------------------------------


def test_one_path_is_one_path(home: Home, project: Path) -> None:
    checkpoints = home.checkpoints
    first = checkpoints.take(project).id or ""
    for name in ("old", "new"):
        (project / name).write_text("changed")
    for wanted in ("new", project / "new", ["new"], (each for each in ["new"])):
        [change] = checkpoints.diff(first, paths=wanted).changes
        assert change.path == "new"
    second = checkpoints.take(project, paths="new").id or ""
    assert [change.path for change in checkpoints.diff(first, second).changes] == ["new"]
    recorder = checkpoints.recorder(workdirs=str(project))
    third = recorder.before_change(project, "old").id or ""
    assert [change.path for change in checkpoints.diff(second, third).changes] == ["old"]
    assert checkpoints.restore(first, "new").written == ("new",)


def test_a_file_in_the_one_workdir_belongs_to_it(home: Home, project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    (inner / "file").write_text("x")
    home.checkpoints.recorder(workdirs=inner).before_change(inner / "file")
    assert [each.workdir for each in home.checkpoints.projects()] == [str(inner)]


@pytest.mark.parametrize("wrong", [5, [5], [None], b"new"])
def test_what_is_no_path_is_refused(home: Home, project: Path, wrong: Any) -> None:
    with pytest.raises(UsageError, match="one path or several"):
        home.checkpoints.take(project, paths=wrong)
    skipped = home.checkpoints.recorder().before_change(project, wrong)  # never raises
    assert "one path or several" in skipped.reason
    with pytest.raises(UsageError, match="cannot be empty"):
        home.checkpoints.take(project, paths="")


def test_one_kind_is_one_kind(home: Home, session: Session, clock: Clock) -> None:
    clock.now += 10 * DAY
    [gone] = home.plan_prune(kinds="session", older_than="1d").removals
    assert gone.session == session.id
    assert not home.plan_prune(kinds="transcript", older_than="1d").removals
    with pytest.raises(UsageError, match="session, transcript, request_dump, leftover, not 'foo'"):
        home.plan_prune(kinds=["foo"], older_than="1d")
    with pytest.raises(UsageError, match="`kinds` must be"):
        home.plan_prune(kinds=5, older_than="1d")  # type: ignore[arg-type]


# --- Filters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["roots", "ended", "pinned", "titled", "agent_archived"])
@pytest.mark.parametrize("wrong", ["no", "yes", 1, []])
def test_a_flag_of_a_filter_is_true_or_false(home: Home, flag: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"`{flag}` of a filter must be True or False"):
        home.sessions.find(**{flag: wrong})


@pytest.mark.parametrize(
    "field",
    [
        *("id_prefix", "title", "title_is", "cwd", "model", "routing_key"),
        *("sources", "not_sources", "end_reasons"),
    ],
)
def test_an_empty_text_selects_neither_all_nor_none(home: Home, field: str) -> None:
    """It comes from a variable that nobody set."""
    several = field.endswith("s") and field != "title_is"
    for wrong in ("", [""], ["cli", ""]) if several else ("",):
        with pytest.raises(UsageError, match=f"`{field}` of a filter is empty"):
            SessionFilter(**{field: wrong})  # type: ignore[arg-type]
    if not several and field != "id_prefix":
        empty: dict[str, Any] = {field: ""}
        with pytest.raises(UsageError, match="is empty"):
            home.sessions.find(**empty)


def test_the_archive_takes_the_same_filters(home: Home, session: Session) -> None:
    home.archive_sessions(session)
    assert [each.session.id for each in home.archive.find(source="cli")] == ["mine"]
    assert home.archive.find(source="cron") == []
    assert home.archive.find(SessionFilter(sources="cli"), active_before="1d") == []
    assert home.archive.count(source="cli") == home.archive.page(source="cli").total == 1
    assert home.archive.search("hello", source="cron").hits == ()
    with pytest.raises(UsageError, match="sauce"):
        home.archive.find(sauce="cli")  # type: ignore[call-arg]


Wish = Callable[[float], Any]
TIMES: list[Wish] = [
    lambda _: "2d",
    lambda _: timedelta(days=2),
    lambda now: datetime.fromtimestamp(now - 2 * DAY, UTC),
    lambda now: datetime.fromtimestamp(now - 2 * DAY, UTC).isoformat(),
    lambda now: now - 2 * DAY,
]


@pytest.mark.parametrize("moment", TIMES, ids=["text", "timedelta", "datetime", "iso", "epoch"])
def test_times_of_a_filter_are_moments(
    home: Home, session: Session, clock: Clock, moment: Wish
) -> None:
    clock.now += 3 * DAY
    home.sessions.create(source="cli", id="young")
    when = moment(clock.now)

    def found(**wanted: Any) -> list[str]:
        return [each.id for each in home.sessions.find(**wanted)]

    assert found(started_before=when) == found(active_before=when) == [session.id]
    assert found(started_after=when) == found(active_after=when) == ["young"]
    assert home.sessions.count(started_after=when) == 1
    assert not home.sessions.search("hello", since=when)
    assert len(home.sessions.search("hello", until=when)) == 1


def test_what_is_no_moment_is_refused(home: Home) -> None:
    with pytest.raises(UsageError, match="`started_after` must be a moment"):
        home.sessions.find(started_after=[])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="neither a duration nor a date"):
        home.sessions.find(started_after="soon")


# --- Operations -----------------------------------------------------------------------------------


def test_an_operation_by_its_number_or_itself(home: Home, session: Session) -> None:
    report = home.delete(session)
    operation = home.log.get(int(report.operation or 0))
    assert operation.id == report.operation == home.log.get(operation).id
    for way in (operation, operation.id, int(operation.id), [operation]):
        assert len(home.trash.plan_empty(way).removals) == 1
    assert home.plan_undo(int(operation.id)).operation == operation
    assert home.undo(int(operation.id)).brought_back == 1
    for wrong in (1.0, True, b"1"):
        with pytest.raises(UsageError, match="its number"):
            home.log.get(wrong)  # type: ignore[arg-type]


# --- Dates, folders and ids as people have them ---------------------------------------------------


def test_a_date_is_a_moment_everywhere(home: Home, session: Session, clock: Clock) -> None:
    clock.now += 3 * DAY
    today = datetime.fromtimestamp(clock.now, UTC).date()
    assert [each.id for each in home.sessions.find(active_before=today)] == [session.id]
    assert home.sessions.find(SessionFilter(active_after=today)) == []  # type: ignore[arg-type]
    assert home.sessions.search("hello", since=today) == []
    old = today - timedelta(days=1)
    assert [each.id for each in home.plan_prune(older_than=old).removals if each.kind == "session"]
    assert home.plan_gc(older_than=old, trivial_max=5).removals
    home.delete(session)
    assert not home.trash.plan_empty(older_than=old).removals
    assert home.checkpoints.plan_prune(older_than=old).removals == ()
    for wrong in (5, True, b"2026-01-01"):
        with pytest.raises(UsageError, match="must be a length of time or a date"):
            home.plan_prune(older_than=wrong)  # type: ignore[arg-type]


def test_a_folder_is_found_however_it_was_written(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")
    ways = ("b", "./b/", f"{inner}/", tmp_path / "a" / ".." / "a" / "b")
    made = {home.sessions.create(source="cli", cwd=way).id for way in ways}
    assert {each.cwd for each in home.sessions.find()} == {str(inner)}
    for way in (*ways, ".", tmp_path):
        assert {each.id for each in home.sessions.find(cwd=way)} == made
        assert home.plan_gc(wanted=SessionFilter(cwd=way)) is not None
    assert home.sessions.update(made.pop(), cwd="..").cwd == str(tmp_path)
    elsewhere = home.sessions.create(source="cli", cwd="ssh://host/a/../b")
    assert elsewhere.cwd == "ssh://host/a/../b"


def test_a_filter_says_which_field_was_meant(home: Home) -> None:
    with pytest.raises(UsageError, match="no field `source`") as caught:
        SessionFilter(source="cli")  # type: ignore[call-arg]
    assert caught.value.hint == "Did you mean `sources`?"
    with pytest.raises(UsageError, match="`active_after` of a filter must be a time") as caught:
        SessionFilter(active_after="2d")  # type: ignore[arg-type]
    assert "`find(active_after='2d')`" in (caught.value.hint or "")
    moment = datetime.fromtimestamp(NOW, UTC)
    assert SessionFilter(active_after=moment).active_after == NOW  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="`source` and `sources` are the same"):
        home.sessions.find(source="a", sources="b")
    with pytest.raises(UsageError, match="`sources` and `source` are the same"):
        home.sessions.find(sources="a", source="b")


def test_sessions_to_import_may_be_sessions(home: Home, session: Session, tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "other", create=True) as other:
        for wrong in ("", [""], 5, [5]):
            with pytest.raises(UsageError, match=r"id cannot be empty|Each of `sessions`"):
                other.import_(home.path, sessions=wrong)  # type: ignore[arg-type]
        assert other.import_(home.path, sessions=session).report.imported == 1
        assert other.import_(home.path, sessions=[session]).report.skipped == ("mine",)


def test_what_take_returned_is_a_checkpoint(home: Home, project: Path) -> None:
    taken = home.checkpoints.take(project)
    assert home.checkpoints.get(taken).id == taken.id
    (project / "new").write_text("changed")
    assert [each.path for each in home.checkpoints.diff(taken).changes] == ["new"]
    assert home.checkpoints.pin(taken).pinned
    assert home.checkpoints.restore(taken).written == ("new",)
    assert home.checkpoints.delete(taken).removed == 1
    nothing = home.checkpoints.recorder(enabled=False).before_change(project)
    with pytest.raises(UsageError, match="left no checkpoint: checkpoints are off"):
        home.checkpoints.get(nothing)


def test_the_start_of_an_id_is_not_taken_for_a_typo(home: Home) -> None:
    for name in ("20260325_one", "20260325_two"):
        home.sessions.create(source="cli", id=name)
    for call in (home.sessions.get, lambda name: home.sessions.append(name, Message("user", "x"))):
        with pytest.raises(UsageError, match="no session '20260325_'") as caught:
            call("20260325_")
        assert "This is the start of several ids" in (caught.value.hint or "")
        with pytest.raises(UsageError) as caught:
            call("20260325_o")
        assert "the start of 20260325_one" in (caught.value.hint or "")
        with pytest.raises(UsageError) as caught:
            call("20260325_ono")
        assert caught.value.hint == "Did you mean 20260325_one?"


# --- Messages name what the caller wrote ----------------------------------------------------------


def test_a_message_names_the_argument(home: Home, session: Session) -> None:
    with pytest.raises(UsageError, match="max_snapshots must be"):
        home.checkpoints.plan_prune(max_snapshots=0)
    sessions = home.sessions
    sessions.reopen(session)
    with pytest.raises(UsageError, match="The role of a message must be text, not 5"):
        sessions.append(session, Message(5, "x"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^`extra` of the session cannot be stored as JSON: it "):
        sessions.update(session, extra={"a": {"b": object()}})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match=r"contains \{5\}\.") as caught:
        sessions.append(session, Message("user", [{"a": {5}}]))
    assert caught.value.hint == "Pass text, numbers, True, False, None, lists and dicts."
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UsageError, match=r"contains itself|[Cc]ircular"):
        sessions.append(session, Message("user", loop))
    with pytest.raises(UsageError, match="must be a mapping of names"):
        sessions.update(session, extra={1: 2})  # type: ignore[dict-item]
    skipped = home.checkpoints.recorder().before_change(None)  # type: ignore[arg-type]
    assert skipped.reason == "`place` must be one path or several, not None."


def test_a_method_is_named_as_it_was_called(home: Home, project: Path) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: home.delete("a", "b"),  # type: ignore[call-arg, arg-type]
        lambda: home.checkpoints.clear(project),  # type: ignore[call-arg, arg-type]
        lambda: home.gc(now=True),  # type: ignore[call-arg]
    )
    for call in calls:
        with pytest.raises(TypeError) as caught:
            call()
        assert "plan_" not in str(caught.value)


def test_sessions_of_another_agent_are_read_and_imported_and_not_written(
    home: Home, tmp_path: Path
) -> None:
    make_claude(tmp_path / ".claude")
    with holdfast.open(tmp_path / ".claude") as claude:
        found = claude.sessions.find(roots=True)[0]
        writes: tuple[Callable[[], object], ...] = (
            lambda: claude.sessions.append(found, Message("user", "x")),
            lambda: claude.sessions.replace_messages(found, []),
        )
        for write in writes:
            said = f"^Cannot write to {found.id}: Claude Code writes"
            with pytest.raises(UsageError, match=said):
                write()
        with pytest.raises(UsageError, match=r"^Cannot create a session: Claude Code writes"):
            claude.sessions.current("key", source="cli")
    assert home.import_(tmp_path / ".claude", sessions=[found]).report.imported == 1
    assert home.sessions.get(found.id).message_count == found.message_count
