"""Prune on real homes: exactly what the plan says goes, and undo is identity."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.item import REQUEST_DUMP, SESSION, SPACE, TRANSCRIPT
from holdfast.model.plan import Action, Plan
from holdfast.model.session import EndReason, Session, SessionFilter
from holdfast.policy.rules import DAY, Caps, Files, GcRules, Limits, Policy, Rules
from holdfast.policy.session_filter import Selection
from holdfast.services.plans import plan_delete, plan_home_endings, plan_home_gc, plan_prune
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo_latest
from holdfast.stores import processes
from tests.builders import NOW, a_policy
from tests.stored import (
    Seen,
    a_dead_holder,
    a_line,
    bring_in,
    check_whole,
    opened,
    see,
)

IDS = tuple(f"20250101_00000{n}_00000{n}" for n in range(7))
FILE_KINDS = (TRANSCRIPT, REQUEST_DUMP)


def clock() -> float:
    return NOW


@contextmanager
def a_home() -> Iterator[HoldfastHome]:
    with tempfile.TemporaryDirectory() as folder:
        home = HoldfastHome(Path(folder), clock=clock, idle=DAY)
        yield home
        store = home.session_store()
        if store is not None:
            store.close()


# --- Filters, against a model over the imported lines ---------------------------------------------

TEXTS = st.sampled_from(["disk", "Disk clean", "CLEAN", "sonnet-4", "other", "a%b", "_"])
FOLDERS = st.sampled_from(["/", "/work", "/work/a", "/work/ab", "/work/a/b"])
SOURCES = st.sampled_from(["cli", "cron", "telegram"])
REASONS = st.sampled_from(["done", "limit", "session_reset"])
DAYS = st.sampled_from([0.5, 10.0, 89.0, 90.0, 91.0, 120.0, 300.0])
COUNTS = st.integers(0, 8)
COSTS = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def maybe(each: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | each


@st.composite
def lines(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Imported sessions; their messages are not in the order of time."""
    made = []
    for number in range(draw(st.integers(1, 8))):
        at = NOW - draw(DAYS) * DAY
        line = a_line(
            f"s{number}",
            at=at,
            messages=0,
            started_at=at - draw(st.sampled_from([0.0, 100 * DAY])),
            source=draw(SOURCES),
            title=draw(maybe(TEXTS)),
            cwd=draw(maybe(FOLDERS)),
            model=draw(maybe(TEXTS)),
            end_reason=draw(REASONS),
            pinned=draw(st.sampled_from([False, False, True])),
        )
        line["messages"] = [
            {
                "role": draw(st.sampled_from(["user", "assistant"])),
                "content": "zebra",
                "timestamp": at - draw(st.sampled_from([0.0, DAY, 50 * DAY])),
                "tokens": draw(COUNTS),
                "cost": draw(COSTS),
            }
            for _ in range(draw(st.integers(0, 7)))
        ]
        line["ended_at"] = line["ended_at"] + draw(st.sampled_from([0.0, 0.0, 80 * DAY]))
        if draw(st.sampled_from([False, False, True])):
            line |= {"ended_at": None, "end_reason": None}
        made.append(line)
    return made


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "sources": st.lists(SOURCES, min_size=1, max_size=2).map(tuple),
    "title": TEXTS,
    "end_reasons": st.lists(REASONS, min_size=1, max_size=2).map(tuple),
    "cwd": FOLDERS,
    "model": TEXTS,
    "active_before": DAYS.map(lambda days: NOW - days * DAY),
    "active_after": DAYS.map(lambda days: NOW - days * DAY),
    "min_messages": COUNTS,
    "max_messages": COUNTS,
    "min_tokens": COUNTS,
    "max_tokens": COUNTS,
    "min_cost": COSTS,
    "max_cost": COSTS,
}
FILTERS = st.one_of(
    st.sampled_from(sorted(FIELDS)).flatmap(
        lambda name: st.fixed_dictionaries({name: FIELDS[name]})
    ),
    st.fixed_dictionaries({}, optional=FIELDS),
)


def last_active(line: dict[str, Any]) -> float:
    times = [line["started_at"], *(message["timestamp"] for message in line["messages"])]
    return float(max(times if line["ended_at"] is None else [*times, line["ended_at"]]))


def is_wanted(line: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """What the flags of the command promise, said once more over plain JSON."""
    total = {
        "messages": len(line["messages"]),
        "tokens": sum(message["tokens"] for message in line["messages"]),
        "cost": sum(message["cost"] for message in line["messages"]),
    }

    def below(folder: str) -> bool:
        cwd = line["cwd"]
        return cwd is not None and (cwd == folder or cwd.startswith(folder.rstrip("/") + "/"))

    tests: dict[str, Callable[[Any], bool]] = {
        "sources": lambda value: line["source"] in value,
        "end_reasons": lambda value: line["end_reason"] in value,
        "title": lambda value: value.lower() in (line["title"] or "").lower(),
        "model": lambda value: value.lower() in (line["model"] or "").lower(),
        "cwd": below,
        "active_before": lambda value: last_active(line) < value,
        "active_after": lambda value: last_active(line) > value,
        "min_messages": lambda value: total["messages"] >= value,
        "max_messages": lambda value: total["messages"] <= value,
        "min_tokens": lambda value: total["tokens"] >= value,
        "max_tokens": lambda value: total["tokens"] <= value,
        "min_cost": lambda value: total["cost"] >= value,
        "max_cost": lambda value: total["cost"] <= value,
    }
    return all(tests[name](value) for name, value in wanted.items())


@settings(max_examples=25)
@given(
    stored=lines(),
    wanted=st.lists(FILTERS, min_size=8, max_size=20),
    days=st.sampled_from([1.0, 90.0, 100.0]),
)
def test_filters_combine_as_the_flags_promise(
    stored: list[dict[str, Any]], wanted: list[dict[str, Any]], days: float
) -> None:
    with a_home() as home:
        bring_in(home.root, stored, now=NOW)
        for fields in wanted:
            plan, _ = plan_prune(
                home,
                a_policy(max_age=days * DAY),
                now=NOW,
                command="sessions prune",
                selection=Selection(sessions=SessionFilter(**fields)),
            )
            chosen = [line for line in stored if is_wanted(line, fields)]
            assert of_kind(plan, SESSION) == {line["id"] for line in chosen}
            assert of_kind(plan, SESSION, Action.REMOVE) == {
                line["id"]
                for line in chosen
                if line["ended_at"] is not None
                and not line["pinned"]
                and last_active(line) < NOW - days * DAY
            }


def of_kind(plan: Plan, kind: str, *actions: Action) -> set[str]:
    return {
        item.id
        for item in plan.items
        if item.kind == kind and (not actions or item.action in actions)
    }


# --- Whole homes ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Leases on one session: of a process that is gone, of one that lives, or given back."""

    dead: bool = False
    living: bool = False
    released: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One session of a home, with its leases and its files: name, mode, days."""

    line: dict[str, Any]
    held: Held
    files: tuple[tuple[str, int, float], ...]

    @property
    def id(self) -> str:
        return str(self.line["id"])

    @property
    def idle(self) -> float:
        return NOW - last_active(self.line)

    @property
    def is_open(self) -> bool:
        return self.line["ended_at"] is None

    @property
    def abandoned(self) -> bool:
        """Every process that ever held it is gone: this one lives, whether or not it gave its
        lease back."""
        lives = self.held.living or self.held.released
        return self.is_open and self.held.dead and not lives and self.idle >= DAY

    @property
    def living(self) -> bool:
        """Law 2, said once more: held, or without an end."""
        return self.held.living or self.is_open


RARELY = st.sampled_from([False, False, False, True])
MODES = st.sampled_from([0o600, 0o640, 0o444, 0o4711])
NAMES = ("session_{}.json", "{}.jsonl", "request_dump_{}_20250101_000000.json")
FILES = st.lists(
    st.tuples(st.sampled_from(NAMES), MODES, DAYS), max_size=2, unique_by=lambda each: each[0]
).map(tuple)


@st.composite
def made_sessions(draw: st.DrawFn) -> list[Made]:
    made = []
    for number, name in enumerate(IDS[: draw(st.integers(1, len(IDS)))]):
        parent = draw(maybe(st.sampled_from(IDS[:number]))) if number else None
        relation = st.sampled_from(["branch", "continuation", "delegate"])
        line = a_line(
            name,
            at=NOW - draw(DAYS) * DAY,
            messages=draw(st.sampled_from([0, 1, 5, 6, 12])),
            tokens=draw(COUNTS),
            cost=draw(COSTS),
            source=draw(SOURCES),
            parent_id=parent,
            relation=draw(relation) if parent else None,
            title=draw(st.sampled_from([None, None, "titled"])),
            pinned=draw(RARELY),
            routing_key=f"key of {name}" if draw(RARELY) else None,
            note={"of": ["the", "host", number]},
        )
        if draw(RARELY):
            line |= {"ended_at": None, "end_reason": None}
        held = draw(st.builds(Held, dead=st.booleans(), living=RARELY, released=RARELY))
        made.append(Made(line=line, held=held, files=draw(FILES)))
    return made


ORPHANS = st.lists(st.tuples(st.sampled_from(NAMES), MODES, DAYS), max_size=2).map(tuple)


def build(
    home: HoldfastHome, made: list[Made], orphans: tuple[tuple[str, int, float], ...]
) -> None:
    bring_in(home.root, [each.line for each in made], now=NOW)
    folder = home.root / "sessions"
    folder.mkdir()
    (folder / "sessions.json").write_text("somebody's state")
    with opened(home.root) as store:
        for each in made:
            _hold(store, each)
    for each in made:
        for name, mode, days in each.files:
            _write(folder / name.format(each.id), each.id, mode, days)
    for number, (name, mode, days) in enumerate(orphans):
        stranger = f"20240101_000000_00000{number}"
        _write(folder / name.format(stranger), stranger, mode, days)


def _hold(store: Any, made: Made) -> None:
    """Leases are taken on open sessions only; one that has ended gets them before its end."""
    before = store.get(made.id)
    if before.ended:
        store.reopen(made.id, at=before.last_active_at)
    me = processes.this_process()
    if made.held.dead:
        store.hold(made.id, a_dead_holder(), now=NOW)
    if made.held.living or made.held.released:
        store.hold(made.id, me, now=NOW)
    if made.held.released and not made.held.living:
        store.release(made.id, me)
    if before.ended:
        store.end(made.id, before.end_reason, at=before.ended_at)


def _write(path: Path, session_id: str, mode: int, days: float) -> None:
    path.write_text(json.dumps({"session_id": session_id, "text": "x" * 5_000}))
    path.chmod(mode)
    moment = int((NOW - days * DAY) * 10**9) + 123
    os.utime(path, ns=(moment, moment))


POLICIES = st.builds(
    Policy,
    everywhere=st.builds(
        Limits,
        rules=st.builds(
            Rules,
            max_age=st.sampled_from([DAY, 50 * DAY, 90 * DAY]),
            keep_last=st.sampled_from([0, 0, 1]),
        ),
        caps=st.builds(Caps, max_count=st.sampled_from([None, None, 0, 2])),
    ),
    pins=st.sampled_from([(), (), (IDS[0],), ("*_000001",)]),
    trash_age=st.none(),
)


def planned(home: HoldfastHome, kind: str, policy: Policy, files: Files) -> Plan:
    if kind == "gc":
        rules = GcRules(empty_after=DAY, trivial_after=7 * DAY)
        return plan_home_gc(
            home, rules, policy, now=NOW, command="sessions gc", wanted=SessionFilter()
        )[0]
    if kind == "end":
        return plan_home_endings(home, now=NOW, command="maintain")[0]
    if kind == "delete":
        return plan_delete(home, [IDS[0]], now=NOW, command="sessions delete")
    return plan_prune(
        home, policy, now=NOW, command="sessions prune", selection=Selection(), files=files
    )[0]


def check_plan(plan: Plan, made: list[Made], kind: str, policy: Policy, files: Files) -> None:
    """Living ones never, but for those that were left and named; pinned ones by name only; each
    file stays, or is removed with its session. Nothing is ended but by the plan for that."""
    gone = of_kind(plan, SESSION, Action.REMOVE)
    ended = of_kind(plan, SESSION, Action.END)
    removed_files = set.union(*(of_kind(plan, each, Action.REMOVE) for each in FILE_KINDS))
    for each in made:
        if each.living and not (kind == "delete" and each.abandoned):
            assert each.id not in gone
        assert (each.id in ended) == (kind == "end" and each.abandoned)
        if each.line["pinned"] and kind != "delete":
            assert each.id not in gone
        names = {f"sessions/{name.format(each.id)}" for name, _, _ in each.files}
        if files is Files.WITH and kind == "prune" and each.id in gone and not policy.pins:
            assert names <= removed_files
        if files is Files.NONE or (each.id not in gone and files is Files.WITH):
            assert not names & removed_files
    if files is Files.ONLY and kind == "prune":
        assert not gone
    assert "sessions/sessions.json" not in {item.id for item in plan.items}


def decided(plan: Plan) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (item.kind, item.id): (item.action.value, item.reason)
        for item in plan.items
        if item.kind != SPACE
    }


def expected(before: Seen, plan: Plan) -> tuple[set[str], set[str]]:
    """The sessions and the files that stay."""
    files = set.union(*(of_kind(plan, each, Action.REMOVE) for each in FILE_KINDS))
    return (
        before.sessions.keys() - of_kind(plan, SESSION, Action.REMOVE),
        {name for name in before.files if f"sessions/{name}" not in files},
    )


@settings(max_examples=25)
@given(
    made=made_sessions(),
    orphans=ORPHANS,
    policy=POLICIES,
    kind=st.sampled_from(["prune", "prune", "gc", "delete", "end"]),
    files=st.sampled_from(Files),
)
def test_what_the_plan_says_goes_and_undo_gives_everything_back(
    made: list[Made],
    orphans: tuple[tuple[str, int, float], ...],
    policy: Policy,
    kind: str,
    files: Files,
) -> None:
    files = files if kind == "prune" else Files.WITH
    with a_home() as home:
        build(home, made, orphans)
        before = see(home.root)
        plan = planned(home, kind, policy, files)
        check_plan(plan, made, kind, policy, files)
        report = apply(plan, home, clock=clock)
        assert (report.failed, report.skipped) == (0, 0), report
        assert (report.removed, report.ended) == (len(plan.removals), len(plan.ends))
        after = see(home.root)
        assert (set(after.sessions), set(after.files)) == expected(before, plan)
        ended = of_kind(plan, SESSION, Action.END)
        for name, session in after.sessions.items():
            check_kept(session, before.sessions[name], after, ended=name in ended)
            assert after.messages[name] == before.messages[name]
        check_whole(home.root)
        if plan.removals or plan.ends:
            _, back = undo_latest(home, clock=clock)
            assert (back.brought_back, back.failed) == (report.removed + report.ended, 0)
        assert see(home.root) == before
        assert not list(home.root.glob("trash/*"))
        assert decided(planned(home, kind, policy, files)) == decided(plan)
        check_whole(home.root)


def check_kept(session: Session, before: Session, after: Seen, *, ended: bool) -> None:
    """What stays is as it was, but for a parent that is gone, or an end that it got."""
    assert session.parent_id in (None, before.parent_id)
    if before.parent_id in after.sessions:
        assert session.parent_id == before.parent_id
    assert session.ended == (before.ended or ended)
    if ended:
        assert (session.end_reason, session.ended_at) == (EndReason.ABANDONED, NOW)
        assert session.last_active_at == NOW, "retention begins where it was ended"
    assert (session.message_count, session.tokens, session.cost, session.bytes) == (
        before.message_count,
        before.tokens,
        before.cost,
        before.bytes,
    )
    assert (session.routing_key, session.title) == (before.routing_key, before.title)
