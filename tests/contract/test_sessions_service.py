"""Sessions as an agent embeds them: limits, resets, transcripts, leases, and the asyncio face."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.api.sessions import open_sessions
from holdfast.errors import SessionEndedError, SessionExistsError, StorageError, UsageError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.guard import Alert, AlertKind
from holdfast.model.session import EndReason, Message, Relation, Session, SessionFilter
from holdfast.model.stored_session import Holder
from holdfast.policy.lifecycle import OnReset, SessionOptions, Transcript
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.policy.session_limits import SessionLimits
from holdfast.services.async_sessions import AsyncSessions
from holdfast.services.sessions import Sessions
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo
from holdfast.stores import processes
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.model.faults import SIZE, Fault, suffering
from tests.stored import leases_of

START = 1_800_000_000.0


class Time:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


Open = Callable[..., Sessions]


@pytest.fixture
def moment() -> Time:
    return Time()


@pytest.fixture
def open_(tmp_path: Path, moment: Time) -> Iterator[Open]:
    opened: list[Sessions] = []

    def factory(on_alert: Callable[[Alert], None] | None = None, **options: object) -> Sessions:
        sessions = open_sessions(
            tmp_path / "home",
            options=SessionOptions(**options),  # type: ignore[arg-type]
            clock=moment,
            on_alert=on_alert,
        )
        opened.append(sessions)
        return sessions

    yield factory
    for sessions in opened:
        sessions.close()


def said(text: str) -> Message:
    return Message(role="user", content=text)


def test_ids_tell_when_and_what(open_: Open) -> None:
    sessions = open_()
    plain = sessions.create(source="cli").id
    assert plain.startswith("20270115_080000_")
    assert len(plain) == len("20260325_112518_6995d1")
    assert sessions.create(source="cron", job="backup").id == "cron_backup_20270115_080000"
    with pytest.raises(UsageError):
        sessions.create(source="cron", job="../x")


def test_messages_are_appended_one_by_one_or_as_lists(open_: Open) -> None:
    sessions = open_()
    session = sessions.create(source="cli").id
    sessions.append(session, [said("a"), {"role": "user", "content": "b"}])
    sessions.append(session, (said("c"),), said("d"), [])
    sessions.append(session, (said(each) for each in "ef"))
    assert [each.content for each in sessions.messages(session)] == list("abcdef")
    for wrong in ("text", b"bytes", 5, None, [["nested"]]):
        with pytest.raises(UsageError, match="A message must be"):
            sessions.append(session, wrong)  # type: ignore[arg-type]


def test_a_limit_warns_once_then_continues_in_a_new_session(open_: Open) -> None:
    heard: list[Alert] = []
    sessions = open_(heard.append, limits=SessionLimits(max_messages=10, max_bytes=0))
    first = sessions.create(source="cli", title="long", routing_key="key", cwd="/work")
    results = [sessions.append(first.id, said(str(number))) for number in range(10)]
    assert [alert.kind for alert in heard] == [AlertKind.NEAR_LIMIT, AlertKind.OVER_LIMIT]
    assert [alert.value for alert in heard] == [8, 10]
    assert all(result.continued_as is None for result in results[:-1])
    fresh = results[-1].continued_as
    assert fresh is not None
    assert (fresh.parent_id, fresh.relation) == (first.id, Relation.CONTINUATION)
    assert (fresh.routing_key, fresh.title, fresh.cwd) == ("key", "long", "/work")
    assert sessions.get(first.id).end_reason == EndReason.LIMIT
    assert sessions.get(first.id).message_count == 10  # the message that passed it is not lost
    with pytest.raises(SessionEndedError):
        sessions.append(first.id, said("more"))
    assert sessions.current("key", source="cli").id == fresh.id


def test_a_limit_in_bytes_and_limits_that_are_off(open_: Open) -> None:
    sessions = open_(limits=SessionLimits(max_messages=0, max_bytes=1_000))
    session = sessions.create(source="cli")
    assert sessions.append(session.id, said("x" * 1_000)).continued_as is not None
    unlimited = open_(limits=SessionLimits(max_messages=0, max_bytes=0))
    session = unlimited.create(source="cli")
    assert unlimited.append(session.id, *[said("x" * 100)] * 2_000).continued_as is None


def test_reset_ends_the_old_and_routes_to_the_new(open_: Open) -> None:
    sessions = open_()
    old = sessions.current("chat:1", source="telegram")
    assert sessions.current("chat:1", source="telegram").id == old.id
    new = sessions.reset("chat:1")
    assert sessions.get(old.id).end_reason == EndReason.SESSION_RESET
    assert (new.source, new.parent_id, new.routing_key) == ("telegram", None, "chat:1")
    assert sessions.current("chat:1", source="telegram").id == new.id
    with pytest.raises(UsageError):
        sessions.reset("chat:2")


def test_an_idle_session_is_reset_by_the_next_use(open_: Open, moment: Time) -> None:
    sessions = open_(idle_minutes=30)
    old = sessions.current("key", source="cli")
    moment.now += 29 * 60
    sessions.append(old.id, said("still here"))
    moment.now += 30 * 60
    assert sessions.current("key", source="cli").id == old.id
    moment.now += 1
    new = sessions.current("key", source="cli")
    assert new.id != old.id
    assert sessions.get(old.id).end_reason == EndReason.IDLE_RESET


def test_transcripts_follow_their_source(open_: Open, tmp_path: Path) -> None:
    sessions = open_(transcripts={"default": Transcript.JSONL_SYNCED, "cron": Transcript.NONE})
    spoken = sessions.create(source="cli")
    silent = sessions.create(source="cron", job="backup")
    for number in range(3):
        sessions.append(spoken.id, said(f"line {number}\n\udc80"))
        sessions.append(silent.id, said("not written"))
    [path] = (tmp_path / "home/sessions").iterdir()
    assert path.name == f"{spoken.id}.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["content"] for line in lines] == [f"line {n}\n\udc80" for n in range(3)]
    assert {line["session_id"] for line in lines} == {spoken.id}


@pytest.mark.parametrize("what", list(OnReset))
def test_on_reset_says_what_becomes_of_the_files(
    open_: Open, tmp_path: Path, moment: Time, what: OnReset
) -> None:
    sessions = open_(on_reset=what, transcripts={"default": Transcript.JSONL})
    old = sessions.current("key", source="cli")
    sessions.append(old.id, said("hello"))
    dump = sessions.dump_request(old.id, {"model": "m"})
    transcript = tmp_path / "home/sessions" / f"{old.id}.jsonl"
    content = transcript.read_bytes()
    sessions.reset("key")
    assert transcript.exists() is dump.exists() is (what is OnReset.KEEP)
    archived = tmp_path / "home/archive" / f"{old.id}.files.tar.zst"
    assert archived.exists() is (what is OnReset.ARCHIVE)
    if what is not OnReset.KEEP:
        home = HoldfastHome(tmp_path / "home", clock=moment, idle=DAY)
        undo(home, home.log.read().operations[-1].id, clock=moment, progress=Silent())
        assert transcript.read_bytes() == content
        assert dump.exists()


def test_a_transcript_that_cannot_be_written_does_not_fail_the_append(
    open_: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The message is stored; a host that saw an error would send it again."""
    sessions = open_(transcripts={"default": Transcript.JSONL})
    session = sessions.create(source="cli")
    (tmp_path / "home/sessions").write_text("a file in the way")
    with caplog.at_level(logging.ERROR, logger="holdfast"):
        sessions.append(session.id, said("kept"))
    assert "transcript" in caplog.text
    assert [message.content for message in sessions.messages(session.id)] == ["kept"]


def a_dead_process() -> Holder:
    """A process that really lived and really is gone."""
    code = (
        "from holdfast.stores.processes import this_process\n"
        "me = this_process()\n"
        "print(me.process, me.started)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    process, started = done.stdout.split()
    here = processes.this_process()
    return Holder(host=here.host, boot=here.boot, process=int(process), started=started)


def leave(tmp_path: Path, session_id: str, *holders: Holder) -> None:
    """An open session that only these processes ever held."""
    store = SqliteSessionStore(tmp_path / "home/sessions.db")
    store.create(Session(id=session_id, source="cli", started_at=START, last_active_at=START))
    for holder in holders:
        store.hold(session_id, holder, now=START)
    store.close()


def test_a_session_of_a_dead_process_is_ended_after_a_day_and_undo_reopens_it(
    open_: Open, tmp_path: Path, moment: Time
) -> None:
    sessions = open_()
    leave(tmp_path, "left", a_dead_process())
    before = sessions.get("left")
    moment.now += DAY - 1
    assert sessions.end_abandoned() == []
    moment.now += 1
    [ended] = sessions.end_abandoned()
    assert (ended.id, ended.end_reason) == ("left", EndReason.ABANDONED)
    assert ended.ended_at == ended.last_active_at == START + DAY
    home = HoldfastHome(tmp_path / "home", clock=moment)
    [operation] = home.log.read().operations
    assert operation.ended == 1
    undo(home, operation.id, clock=moment)
    assert sessions.get("left") == before


def test_a_session_that_was_reopened_has_a_day_from_there(
    open_: Open, tmp_path: Path, moment: Time
) -> None:
    sessions = open_()
    leave(tmp_path, "left", a_dead_process())
    store = SqliteSessionStore(tmp_path / "home/sessions.db")
    store.end("left", "done", at=START)
    moment.now += 2 * DAY
    store.reopen("left", at=moment.now)
    store.close()
    moment.now += DAY - 1
    assert sessions.end_abandoned() == []
    moment.now += 1
    assert [each.id for each in sessions.end_abandoned()] == ["left"]


def test_an_end_that_failed_and_is_tried_again_gives_the_lease_back(
    open_: Open, tmp_path: Path
) -> None:
    sessions = open_()
    session = sessions.create(source="cli")
    with suffering(Fault(SIZE, 0)), pytest.raises(StorageError):
        sessions.end(session.id)
    assert not sessions.get(session.id).ended
    sessions.end(session.id)
    store = SqliteSessionStore(tmp_path / "home/sessions.db")
    assert [each.released for each in leases_of(store, session.id)] == [True]
    store.close()


def test_0_seconds_turn_it_off_and_other_seconds_hold(
    open_: Open, tmp_path: Path, moment: Time
) -> None:
    open_()
    leave(tmp_path, "left", a_dead_process())
    moment.now += 3_700
    assert open_(abandoned_after=0.0).end_abandoned() == []
    assert open_().end_abandoned() == []
    assert [each.id for each in open_(abandoned_after=3_600.0).end_abandoned()] == ["left"]


def test_who_gave_a_session_back_and_lives_protects_it(open_: Open, moment: Time) -> None:
    sessions = open_()
    session = sessions.create(source="cli")
    sessions.close()
    moment.now += 100 * DAY
    assert open_().end_abandoned() == []
    assert not open_().get(session.id).ended


def test_what_cannot_be_proved_dead_is_alive(open_: Open, tmp_path: Path, moment: Time) -> None:
    open_()
    here = processes.this_process()
    dead = a_dead_process()
    holders = {
        "this-process": here,
        "another-host": Holder(host="elsewhere", boot="x", process=1, started="1"),
        "no-start-time": Holder(host=here.host, boot=here.boot, process=dead.process, started=""),
    }
    for name, holder in holders.items():
        leave(tmp_path, name, dead, holder)
    leave(tmp_path, "nobodys")
    moment.now += 100 * DAY
    assert open_().end_abandoned() == []


@pytest.mark.parametrize("change", ["started", "boot"])
def test_a_reused_process_id_is_not_taken_for_life(
    open_: Open, tmp_path: Path, moment: Time, change: str
) -> None:
    open_()
    here = processes.this_process()
    other = {"host": here.host, "boot": here.boot, "process": here.process, "started": here.started}
    other[change] = "another"
    leave(tmp_path, "left", Holder(**other))  # type: ignore[arg-type]
    moment.now += 2 * DAY
    assert [ended.id for ended in open_().end_abandoned()] == ["left"]


def test_lineage_is_whole_or_not_at_all(open_: Open) -> None:
    sessions = open_()
    parent = sessions.create(source="cli")
    child = sessions.create(source="subagent", parent_id=parent.id, relation="delegate")
    assert (child.parent_id, child.relation) == (parent.id, Relation.DELEGATE)
    with pytest.raises(UsageError):
        sessions.create(source="cli", parent_id=parent.id)
    with pytest.raises(UsageError, match="branch, continuation, delegate"):
        sessions.create(source="cli", parent_id=parent.id, relation="cousin")
    with pytest.raises(UsageError):
        sessions.create(source="cli", parent_id="nobody", relation="branch")


def test_the_files_of_a_stored_session_are_no_orphans(
    open_: Open, tmp_path: Path, moment: Time
) -> None:
    sessions = open_(transcripts={"default": Transcript.JSONL})
    session = sessions.create(source="cli")
    sessions.append(session.id, said("x"))
    sessions.end(session.id)
    moment.now += 400 * DAY
    home = HoldfastHome(tmp_path / "home", clock=moment, idle=DAY)
    stored, file = home.scan(moment.now).items
    assert (stored.kind, stored.alive, file.owned) == ("session", None, True)
    policy = Policy(everywhere=Limits(rules=Rules(max_age=90 * DAY)), pins=(session.id,))
    made = plan(policy, home.scan(moment.now), moment.now, command="sessions prune")
    assert not made.steps  # old as it is, the file stays with its session


def test_asyncio_has_the_same_sessions_and_keeps_the_loop_free(open_: Open) -> None:
    async def scenario() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        async with AsyncSessions(open_()) as sessions:
            ticker = asyncio.create_task(tick())
            session = await sessions.create(source="cli")
            before = ticks
            await asyncio.gather(
                *(sessions.append(session.id, said(str(number))) for number in range(50))
            )
            assert ticks > before  # the loop ran while the store wrote
            read = [message.content async for message in sessions.messages(session.id, limit=45)]
            assert read == [str(number) for number in range(45)]
            assert len(await sessions.find(SessionFilter(sources=("cli",)))) == 1
            with pytest.raises(UsageError):
                await sessions.create(source="")
            ticker.cancel()

    asyncio.run(scenario())


def test_real_time_is_used_when_nothing_else_is_said(tmp_path: Path) -> None:
    with open_sessions(tmp_path) as sessions:
        session = sessions.create(source="cli")
        assert abs(session.started_at - time.time()) < 60


def test_two_processes_past_a_limit_go_on_in_one_session(open_: Open, moment: Time) -> None:
    """Both stored their message before either ended the session: the second joins the first."""
    one, two = (open_(limits=SessionLimits(max_messages=1)) for _ in range(2))
    full = one.create(source="cli", routing_key="key")
    fresh = one.append(full.id, said("the last")).continued_as
    joined = two._continue_full(full.id, moment.now)
    assert fresh is not None
    assert joined is not None
    assert joined.id == fresh.id


def test_an_id_that_is_taken_is_made_up_again(open_: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = open_()
    chance = iter(["aaaaaa", "aaaaaa", "aaaaaa", "bbbbbb"])
    monkeypatch.setattr(sessions, "_random_hex", lambda: next(chance))
    first, second = sessions.create(source="cli"), sessions.create(source="cli")
    assert (first.id[-6:], second.id[-6:]) == ("aaaaaa", "bbbbbb")
    with pytest.raises(SessionExistsError):
        sessions.create(source="cli", id=first.id)
    assert len(sessions.find(SessionFilter())) == 2


def is_held(sessions: Sessions, session_id: str) -> bool:
    mine = processes.this_process()
    store = sessions._store
    assert isinstance(store, SqliteSessionStore)
    leases = leases_of(store, session_id)
    return any(lease.holder == mine and not lease.released for lease in leases)


def test_a_session_that_is_open_again_is_held_whatever_was_tried_while_it_was_not(
    open_: Open,
) -> None:
    """An append that is refused must not make believe that there is a lease."""
    sessions = open_()
    session = sessions.create(source="cli")
    sessions.end(session.id)
    with pytest.raises(SessionEndedError):
        sessions.append(session.id, Message(role="user", content="x"))
    sessions.reopen(session.id)
    assert is_held(sessions, session.id)


def test_a_creation_that_was_rolled_back_leaves_no_lease_to_believe_in(open_: Open) -> None:
    sessions = open_()

    def fail() -> None:
        with sessions._store.transaction():
            sessions.create(source="cli", id="20260325_112518_6995d1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    sessions.create(source="cli", id="20260325_112518_6995d1")
    assert is_held(sessions, "20260325_112518_6995d1")
