"""The calls that change a home from Python: each plans, applies, and is in the log.

A home is a path, with `~` for the user's home directory, or one that `open_home` opened. What its
config.toml says holds where a call says nothing else; the environment is not looked at. A call
raises `HoldfastError` and nothing else, except what the host's own clock raises. With `dry_run` it
returns the plan and touches nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast import config
from holdfast.config import Settings
from holdfast.errors import UsageError
from holdfast.homes.maintenance import close_home
from holdfast.homes.options import HomeOptions
from holdfast.homes.registry import check_folder, config_file, open_home
from holdfast.model.operation import Operation
from holdfast.model.places import StrPath, named_place
from holdfast.model.plan import Plan
from holdfast.model.report import Report
from holdfast.model.run import Run
from holdfast.model.session import SessionFilter
from holdfast.policy.rules import DAY, Files, Rules
from holdfast.policy.selection import Selection
from holdfast.ports import Clock, Home, SessionStore
from holdfast.services import undo as undoing
from holdfast.services.apply import apply
from holdfast.services.plans import (
    plan_archive,
    plan_delete,
    plan_home_gc,
    plan_prune,
    plan_prune_checkpoints,
)
from holdfast.services.restore import chosen, restore

#: A path, or a home that is open already.
AnyHome: TypeAlias = StrPath | Home
_CLOCK: Clock = time.time  # noqa: TID251 - a host that has no clock of its own wants this one


def delete_sessions(
    home: AnyHome,
    ids: str | Iterable[str],
    *,
    dry_run: bool = False,
    use_trash: bool = True,
    clock: Clock = _CLOCK,
) -> Run:
    """Remove sessions with their files, by id or by the start of one if no other begins so.

    A session that a process holds stays, and so does one without an end unless its process is
    provably gone; the plan says which and why. A pin does not protect what is named.
    """
    names = _names(ids, "ids")
    with _opened(home, clock) as opened:
        plan = plan_delete(
            opened.home,
            names,
            now=clock(),
            command="delete_sessions",
            undoable=use_trash,
            trivial_max=opened.settings.sessions.trivial_max,
        )
        return opened.run(plan, dry_run=dry_run, clock=clock)


def garbage_collect(  # noqa: PLR0913 - all but one are optional, and named
    home: AnyHome,
    *,
    source: str | Iterable[str] | None = None,
    empty_hours: float | None = None,
    trivial_days: float | None = None,
    trivial_max: int | None = None,
    keep_titled: bool | None = None,
    dry_run: bool = False,
    use_trash: bool = True,
    clock: Clock = _CLOCK,
) -> Run:
    """Remove sessions in which nothing was said, or hardly anything, as `sessions gc` does."""
    wanted = _wanted(source)
    given = {
        "empty_hours": empty_hours,
        "trivial_days": trivial_days,
        "trivial_max": trivial_max,
        "keep_titled": keep_titled,
    }
    with _opened(home, clock) as opened:
        settings = opened.settings.changed("sessions", given)
        plan, _ = plan_home_gc(
            opened.home,
            settings.gc_rules(),
            settings.policy(use_trash=use_trash),
            now=clock(),
            command="garbage_collect",
            wanted=wanted,
        )
        return opened.run(plan, dry_run=dry_run, clock=clock)


def prune_sessions(
    home: AnyHome,
    *,
    older_than_days: float | None = None,
    source: str | Iterable[str] | None = None,
    files: str = Files.WITH,
    dry_run: bool = False,
    use_trash: bool = True,
    clock: Clock = _CLOCK,
) -> Run:
    """Remove sessions that the policy in config.toml does not keep, as `sessions prune` does.

    `older_than_days` replaces its rules but not its caps. `files` is "with" their sessions, "only"
    the files, or "none" of them. For any other policy there are `plan` and `apply`.
    """
    wanted = _wanted(source)
    with _opened(home, clock) as opened:
        policy = opened.settings.policy(use_trash=use_trash)
        if older_than_days is not None:
            days = config.checked("sessions", "retention_days", older_than_days, "older_than_days")
            policy = policy.with_own(Rules(max_age=days * DAY))
        plan, _ = plan_prune(
            opened.home,
            policy,
            now=clock(),
            command="prune_sessions",
            selection=Selection(sessions=wanted),
            files=_files(files),
        )
        return opened.run(plan, dry_run=dry_run, clock=clock)


def prune_checkpoints(
    home: AnyHome,
    *,
    retention_days: float | None = None,
    max_snapshots: int | None = None,
    max_total_size_mb: int | None = None,
    dry_run: bool = False,
    use_trash: bool = True,
    clock: Clock = _CLOCK,
) -> Run:
    """Bring the checkpoints within their bounds, as `checkpoints prune` does. 0 is no bound.

    What a bound that was not reached is held by, `plan.shortfalls` says.
    """
    given = {
        "retention_days": retention_days,
        "max_snapshots": max_snapshots,
        "max_total_size_mb": max_total_size_mb,
    }
    with _opened(home, clock) as opened:
        policy = opened.settings.changed("checkpoints", given).checkpoint_policy(
            use_trash=use_trash
        )
        plan, _ = plan_prune_checkpoints(
            opened.home.checkpoint_upkeep,
            policy,
            now=clock(),
            command="prune_checkpoints",
            changing=not dry_run,
        )
        return opened.run(plan, dry_run=dry_run, clock=clock)


def archive_sessions(
    home: AnyHome,
    ids: str | Iterable[str] | SessionFilter,
    *,
    dry_run: bool = False,
    clock: Clock = _CLOCK,
) -> Run:
    """Move ended sessions with their files into the archive: by id, or those a filter picks."""
    names = None if isinstance(ids, SessionFilter) else _names(ids, "ids")
    with _opened(home, clock) as opened:
        store = opened.store()
        plan, _ = plan_archive(
            opened.home,
            opened.home.archive,
            ids=[store.resolve(each) for each in names or ()],
            wanted=ids if isinstance(ids, SessionFilter) else None,
            policy=opened.settings.policy(),
            now=clock(),
            command="archive_sessions",
        )
        return opened.run(plan, dry_run=dry_run, clock=clock)


def restore_sessions(
    home: AnyHome,
    ids: str | Iterable[str],
    *,
    clock: Clock = _CLOCK,
) -> Report:
    """Bring archived sessions back into the store, whole, with their files."""
    names = _names(ids, "ids")
    with _opened(home, clock) as opened:
        sessions = chosen(opened.home.archive, names)
        return restore(opened.home, sessions, command="restore_sessions", clock=clock)


def undo(home: AnyHome, operation: str | None, *, clock: Clock = _CLOCK) -> Report:
    """Bring back what one operation removed: `undo(home, report.operation)`.

    The operation of a report that did nothing is None. Then there is nothing to undo, nothing is
    done, and the report is empty: what somebody else did meanwhile is not yours to undo.
    """
    if operation is None:
        return Report(operation=None)
    if not isinstance(operation, str):
        raise UsageError(f"An operation is its number as text, not {operation!r}.")
    with _opened(home, clock) as opened:
        return undoing.undo(opened.home, operation, clock=clock)[1]


def undo_latest(home: AnyHome, *, clock: Clock = _CLOCK) -> tuple[Operation, Report]:
    """Bring back what the latest operation removed, whoever asked for it; which one that was.

    What agents did on their own is passed over: that is undone by its number.
    """
    with _opened(home, clock) as opened:
        return undoing.undo_latest(opened.home, clock=clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    home: Home
    settings: Settings

    def store(self) -> SessionStore:
        store = self.home.session_store()
        if store is None:
            raise UsageError(f"{self.home.root} has no session store, and so no sessions.")
        return store

    def run(self, plan: Plan, *, dry_run: bool, clock: Clock) -> Run:
        return Run(plan=plan, report=None if dry_run else apply(plan, self.home, clock=clock))


@contextmanager
def _opened(home: AnyHome, clock: Clock) -> Iterator[_Opened]:
    """The home, its settings, and nothing left open behind."""
    if not isinstance(home, str | os.PathLike) and hasattr(home, "checkpoint_upkeep"):
        yield _Opened(home=home, settings=config.load(config_file(home.root), {}))
        return
    root = check_folder(named_place(home))
    settings = config.load(config_file(root), {})
    opened = open_home(root, clock=clock, options=HomeOptions.of(settings))
    try:
        yield _Opened(home=opened, settings=settings)
    finally:
        close_home(opened)


def _names(given: object, what: str) -> tuple[str, ...]:
    """One name or several; a text is one name, not its letters."""
    found: tuple[Any, ...] = ()
    if isinstance(given, str):
        found = (given,)
    elif isinstance(given, Iterable):
        found = tuple(given)
    if not found or not all(isinstance(each, str) and each for each in found):
        raise UsageError(f"{what} must be one or more texts that are not empty, not {given!r}.")
    return found


def _wanted(source: str | Iterable[str] | None) -> SessionFilter:
    return SessionFilter(sources=None if source is None else _names(source, "source"))


def _files(wanted: str) -> Files:
    try:
        return Files(wanted)
    except ValueError:
        raise UsageError(f'files must be "with", "only" or "none", not {wanted!r}.') from None
