"""Chaos among sessions: one that talks, one that bounds, one that archives; until they are killed.

Each says beside the store what it was promised (`side_log`), and ends with an error when it sees
something that must not be: its own open session gone or ended, a removal that failed.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.api.sessions import open_sessions
from holdfast.errors import BusyError, CannotUndoError, UnknownSessionError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.maintenance import maintain
from holdfast.model.plan import Plan
from holdfast.model.report import Report, Result
from holdfast.model.session import Message, Relation, SessionFilter
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.policy.planner import plan
from holdfast.policy.rules import Caps, GcRules, Limits, Policy, Rules
from holdfast.services.plans import plan_archive, plan_delete, plan_home_gc, plan_prune_archive
from holdfast.services.restore import restore
from holdfast.services.sessions import Sessions
from holdfast.spine.apply import apply
from holdfast.spine.empty_trash import plan_empty
from holdfast.spine.undo import undo
from tests.crash.side_log import SideLog, told

IDLE = 3600.0
#: So long a bounding process rests: others shall get their turn.
_REST = 0.3
_LATELY = (10, 100, 1_000)


def opened(root: Path) -> HoldfastHome:
    return HoldfastHome(root / "home", clock=time.time, idle=IDLE)


class Talker:
    """An agent: one session of its own is always open, others it goes back to."""

    def __init__(self, sessions: Sessions, log: SideLog, chance: random.Random) -> None:
        self._sessions = sessions
        self._log = log
        self._chance = chance
        self._numbers = itertools.count()
        self._ours = [line.words[0] for line in told(log.path) if line.verb == "ended"]

    def talk(self) -> None:
        mine = self._open()
        while True:
            self._say(mine)
            match self._chance.randrange(8):
                case 0:
                    self._end(mine)
                    mine = self._open()
                case 1:
                    self._end(self._open())  # one without a message
                case 2 | 3:
                    self._go_back()
                case 4:
                    self._sessions.rename(mine, f"title {next(self._numbers)}")
                case _:
                    pass

    def _open(self) -> str:
        name = f"{self._log.path.name}_{time.time_ns()}"
        source = self._chance.choice(("cli", "cron"))
        self._log.say("opening", name)
        try:
            parent, relation = self._parent()
            self._sessions.create(source=source, id=name, parent_id=parent, relation=relation)
        except UnknownSessionError:  # the parent was pruned or archived since
            self._sessions.create(source=source, id=name)
        self._log.say("opened", name)
        return name

    def _parent(self) -> tuple[str | None, Relation | None]:
        if self._ours and self._chance.random() < 0.3:
            return self._lately(), Relation.BRANCH
        return None, None

    def _lately(self) -> str:
        """One of a moment ago, whether that is ten sessions or a thousand."""
        return self._chance.choice(self._ours[-self._chance.choice(_LATELY) :])

    def _say(self, session: str) -> None:
        text = f"{time.time_ns()}"
        self._log.say("saying", session, text)
        self._sessions.append(session, Message(role="user", content=text + " lorem" * 40, tokens=1))
        self._log.say("said", session, text)

    def _end(self, session: str) -> None:
        self._log.say("ending", session)
        self._sessions.end(session)
        self._log.say("ended", session)
        self._ours.append(session)

    def _go_back(self) -> None:
        """It may have been pruned or archived since; nothing else may happen."""
        if not self._ours:
            return
        session = self._lately()
        self._log.say("opening", session)
        try:
            self._sessions.reopen(session)
        except UnknownSessionError:
            return
        self._log.say("opened", session)
        self._say(session)
        self._end(session)


def talk(root: Path, log: SideLog, chance: random.Random) -> None:
    options = SessionOptions(transcripts={"default": Transcript.JSONL})
    with open_sessions(root / "home", options=options) as sessions:
        Talker(sessions, log, chance).talk()


def checked(report: Report) -> None:
    wrong = [each for each in report.outcomes if each.result in (Result.FAILED, Result.DAMAGED)]
    assert not wrong, wrong


def carry_out(made: Plan, home: HoldfastHome) -> None:
    checked(apply(made, home, clock=time.time))


def undo_one(home: HoldfastHome, chance: random.Random) -> None:
    """Not a rollback: that belongs to whoever works in the directory."""
    candidates = [
        each for each in home.log.read().operations if each.in_trash and not each.rolled_back
    ]
    if candidates:
        with suppress(CannotUndoError):  # somebody was faster
            checked(undo(home, chance.choice(candidates[-9:]).id, clock=time.time)[1])


def look_after(root: Path) -> None:
    result = maintain(root / "home", force=True)
    assert result.error is None, result
    for step in result.steps:
        assert step.error is None or step.error_kind == BusyError.kind, step
        for report in step.reports:
            checked(report)


def prune(home: HoldfastHome, chance: random.Random) -> None:
    policy = Policy(
        everywhere=Limits(
            rules=Rules(max_age=chance.choice((0.3, 2.0))),
            caps=Caps(max_count=chance.choice((None, 30))),
        ),
        trash_age=chance.choice((None, 5.0)),
        use_trash=chance.random() < 0.8,
    )
    made = plan(policy, home.scan(time.time()), time.time(), command="sessions prune")
    time.sleep(chance.choice((0.0, 0.2)))  # so that things change before it is carried out
    carry_out(made, home)


def collect(home: HoldfastHome, chance: random.Random) -> None:
    rules = GcRules(empty_after=0.5, trivial_after=1.0, trivial_max=2)
    made, _ = plan_home_gc(
        home,
        rules,
        Policy(),
        now=time.time(),
        command="sessions gc",
        wanted=SessionFilter(),
    )
    carry_out(made, home)


def delete(home: HoldfastHome, chance: random.Random) -> None:
    ids = some_ended(home, chance)
    with suppress(UnknownSessionError):  # gone since it was looked up
        if ids:
            carry_out(plan_delete(home, ids, now=time.time(), command="sessions delete"), home)


def empty(home: HoldfastHome, chance: random.Random) -> None:
    now = time.time()
    carry_out(plan_empty(home, now=now, command="trash empty", before=now - 8), home)


def some_ended(home: HoldfastHome, chance: random.Random) -> Sequence[str]:
    found = [each.id for each in home.create_session_store().find(SessionFilter()) if each.ended]
    return chance.sample(found, min(len(found), chance.randrange(1, 6)))


def repeat(
    root: Path, chance: random.Random, what: Sequence[Callable[[HoldfastHome, random.Random], None]]
) -> None:
    home = opened(root)
    while True:
        with suppress(BusyError):  # others had the log for long
            chance.choice(what)(home, chance)
        time.sleep(chance.random() * _REST)


def bound(root: Path, log: SideLog, chance: random.Random) -> None:
    def maintained(home: HoldfastHome, chance: random.Random) -> None:
        look_after(root)

    repeat(root, chance, (prune, prune, collect, delete, empty, undo_one, maintained))


def archive(root: Path, log: SideLog, chance: random.Random) -> None:
    repeat(root, chance, (put_away, put_away, bring_some, drop_bundles, undo_one))


def put_away(home: HoldfastHome, chance: random.Random) -> None:
    ids = some_ended(home, chance)
    if not ids:
        return
    made, _ = plan_archive(
        home,
        home.archive,
        ids=ids,
        policy=Policy(),
        now=time.time(),
        command="sessions archive",
    )
    carry_out(made, home)


def bring_some(home: HoldfastHome, chance: random.Random) -> None:
    there = list(home.archive.find(SessionFilter()))
    wanted = chance.sample(there, min(len(there), 4))
    checked(restore(home, wanted, command="sessions restore", clock=time.time))


def drop_bundles(home: HoldfastHome, chance: random.Random) -> None:
    policy = Policy(
        everywhere=Limits(caps=Caps(max_count=10)), use_trash=chance.random() < 0.7, trash_age=None
    )
    made, _ = plan_prune_archive(
        home, policy, now=time.time(), command="sessions prune", wanted=SessionFilter()
    )
    carry_out(made, home)
