"""The checkpoints of a home: list, compare, restore and limit them."""

from __future__ import annotations

import builtins
import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, Unpack

from holdfast.api.arguments import KeepRules, Size, age, own_caps, own_rules
from holdfast.api.capture import directory, session_id
from holdfast.api.checkpoint_restore import CheckpointRestorePlan, RestoreReport
from holdfast.api.plan import HomePlan, applied
from holdfast.api.remotes import CheckpointRemotes, Maps
from holdfast.errors import HoldfastError, UnknownCheckpointError, UsageError
from holdfast.model.argument_checks import called, checked
from holdfast.model.arguments import StrPath, ambiguous, several, text
from holdfast.model.checkpoint import (
    SHORTEST_PREFIX,
    Captured,
    Change,
    ChangeKind,
    Checkpoint,
    Preview,
    Project,
    Taking,
    Watched,
)
from holdfast.model.checkup import Verification
from holdfast.model.durations import Duration, Moment, seconds
from holdfast.model.item import CHECKPOINT
from holdfast.model.plan import PlanItem
from holdfast.model.session import SessionRef
from holdfast.policy.rules import CheckpointPolicy
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.services.checkpoint_status import CheckpointStatus, checkpoint_status
from holdfast.services.checkpoint_watch import Pace, watch
from holdfast.services.checkpoint_watch import Step as WatchStep
from holdfast.services.edits import carry_out_edits, pin_checkpoints, rename_checkpoint
from holdfast.services.plans import plan_clear_legacy, plan_drop, plan_prune_checkpoints
from holdfast.spine.settle import settle_if_needed
from holdfast.stores.checkpoints.projects import held_by_run, read_record, unmounted
from holdfast.stores.checkpoints.repository import project_of
from holdfast.stores.checkpoints.watch import following
from holdfast.stores.connected_sessions import FileLoopBook
from holdfast.value import dataclass, field, replace

_CLOSE = 0.7
_SHORT = 12
#: A checkpoint, by its id, by the start of one, as it was listed, or as `take` returned it.
Which: TypeAlias = str | Checkpoint | Taking


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Difference:
    """What differs between a checkpoint and another one, or the directory as it is now.

    A git worktree or a home inside the project is no part of it, even if one side has its files
    from before it was left out."""

    store: CheckpointStore = field(repr=False)
    old: Checkpoint
    new: Checkpoint | None
    new_tree: str
    paths: tuple[str, ...]
    changes: Sequence[Change]
    #: True if there are other changes, in directories that are no part of the project.
    in_part: bool = False

    def patch(self) -> Iterator[bytes]:
        """The difference as `git apply` understands it, line by line."""
        if self.in_part and not self.changes:
            return iter(())
        return self.store.patch(self.old.tree, self.new_tree, self._below())

    def statistics(self, *, width: int = 80) -> Iterator[bytes]:
        """How much differs, file by file."""
        if self.in_part and not self.changes:
            return iter(())
        return self.store.statistics(self.old.tree, self.new_tree, self._below(), width=width)

    def _below(self) -> tuple[str, ...]:
        if self.in_part:
            return tuple(each.path for each in self.changes)
        return () if "" in self.paths else self.paths


@called("home.checkpoints")
@checked
class Checkpoints(CheckpointRemotes):
    """The checkpoints of all projects of a home. Looking creates nothing."""

    def _to_capture(self, path: StrPath) -> Path:
        """Raises `UsageError` for a directory that does not exist, which is a mistake of the
        caller. On a disk that is not mounted it may exist; of such a project a take is skipped."""
        workdir = directory(path)
        try:
            is_directory = stat.S_ISDIR(workdir.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            record = read_record(self.writer(create=False).layout, project_of(workdir))
            if record is not None and unmounted(record):
                return workdir
            raise UsageError(
                f"There is no directory {workdir}.", hint="Nothing was captured: check the path."
            ) from None
        except OSError:  # the take reports it
            return workdir
        if not is_directory:
            raise UsageError(
                f"{workdir} is not a directory.",
                hint="A checkpoint is of a directory; `paths` restricts it to some of its files.",
            )
        return workdir

    # --- Seeing -----------------------------------------------------------------------------------

    def list(
        self,
        path: StrPath | None = None,
        *,
        session: SessionRef | None = None,
        limit: int | None = None,
    ) -> builtins.list[Checkpoint]:
        """The checkpoints of the project that a path is in, as `project_of` has it, or of all
        projects, the newest first. Where the path itself has none, these are of a folder above it:
        compare `workdir` before you delete what is listed.

        With `session`, a session, its id or the start of it, only those that belong to it, or that
        a tool of a connected agent started from in that session. Raises `UsageError` when several
        sessions begin like that.
        """
        wanted = session_id(session) or None
        store, place = self.store(), None if path is None else directory(path)
        if store is None:
            return []
        listed = store.list() if place is None else _around(store, place)
        if wanted is not None:
            book = FileLoopBook(self._place.state)
            newest = dict.fromkeys(each.session for each in listed if each.session)
            if isinstance(session, str):
                wanted = _meant(wanted, [*newest, *sorted(book.beginning(wanted) - newest.keys())])
            started = {each.checkpoint for each in book.calls(wanted)}
            listed = [each for each in listed if each.session == wanted or each.id in started]
        return [*listed[:limit]]

    def has_session(self, session: SessionRef) -> bool:
        """Whether a session is known here, by a checkpoint in any project or by a call of a tool:
        by its id or the start of it."""
        book = FileLoopBook(self._place.state)
        return bool(self.list(session=session) or book.beginning(session_id(session)))

    def get(self, which: Which) -> Checkpoint:
        """One checkpoint, by its id or the start of one.

        The store brings in one of an older layout, under a new id.
        """
        return self._chosen(self.need_store(), which)

    def show(self, which: Which) -> tuple[Checkpoint, Captured]:
        """One checkpoint, and every path that it holds."""
        store = self.need_store()
        with store.reading():
            found = self._chosen(store, which)
            return found, store.captured(found.tree)

    def newest(self, path: StrPath) -> Checkpoint:
        """The newest checkpoint of the project that a path is in."""
        place = directory(path)
        if found := _around(self.need_store(), place):
            return found[0]
        raise UnknownCheckpointError(
            f"There is no checkpoint of {place} yet.",
            hint="Take one with `holdfast checkpoints take`, or name the id of another.",
        )

    def diff(
        self,
        which: Which,
        other: Which | None = None,
        paths: StrPath | Iterable[StrPath] = (),
        *,
        hash_all: bool = False,
    ) -> Difference:
        """What changed since a checkpoint: until now, or until another one. With `paths`, one or
        several, only what is there or below."""
        store = self.need_store(hash_all=hash_all)
        old = store.ready(self._chosen(store, which))
        if old.machine and other is None:
            raise UsageError(
                f"Checkpoint {old.known_id[:_SHORT]} is of {old.place}, on another machine:"
                " there is no directory here to compare it with.",
                hint="Name a second checkpoint to compare it with.",
            )
        new = None if other is None else store.ready(self._chosen(store, other))
        wanted = self.inside(Path(old.workdir), paths)
        with store.reading():  # nothing else protects the tree of a look from a prune
            now = new or store.look(Path(old.workdir))
            tree = now.tree
            changes = [each for each in store.changes(old.tree, tree) if _is_below(each, wanted)]
            _refuse_unknown(store, old, tree, wanted, changes)
            left = (*old.not_captured, *now.not_captured)
            apart = tuple(each.path for each in left if each.is_apart)
            ours = [each for each in changes if not (apart and _is_below(each, apart))]
            return Difference(
                store=store,
                old=old,
                new=new,
                new_tree=tree,
                paths=wanted,
                changes=ours,
                in_part=len(ours) < len(changes),
            )

    def lost_with_directory(self, which: Which) -> Sequence[Change]:
        """What changed since a checkpoint whose directory is gone: everything in it was deleted."""
        store = self.need_store()
        with store.reading():
            held = store.captured(store.ready(self._chosen(store, which)).tree)
        entries = {**held.files, **{path: held.directories[path] for path in held.empty if path}}
        return [
            Change(path=path, kind=ChangeKind.DELETED, old=entry, new=None)
            for path, entry in sorted(entries.items())
        ]

    def projects(self) -> Sequence[Project]:
        """The directories that have checkpoints."""
        store = self.store()
        return () if store is None else store.projects()

    def project_of(self, path: StrPath) -> Project | None:
        """The project with checkpoints that a path belongs to; None when no directory around it has
        any. `project_root` says which directory would get the first one."""
        place = directory(path)
        around = {str(each) for each in (place, *place.parents)}
        here = (each for each in self.projects() if not each.machine)
        found = [each for each in here if each.workdir in around]
        return max(found, key=lambda each: len(each.workdir), default=None)

    def status(self) -> CheckpointStatus:
        """Which projects have checkpoints, their state, and the space they take."""
        place = self._place
        return checkpoint_status(
            place.home.checkpoint_upkeep,
            now=place.clock(),
            stale_after=place.settings.checkpoint_policy().stale_after,
        )

    def verify(self) -> Verification:
        """Read everything in the store, and report what is damaged and what is lost with it."""
        home = self._place.home
        if not home.has_checkpoints():
            return Verification(checkpoints=0)
        return home.checkpoint_upkeep.verify()

    def watch(
        self,
        path: StrPath,
        *,
        stopped: Callable[[], bool],
        settle: Duration | None = None,
        session: SessionRef | None = None,
        told: Callable[[WatchStep], None] = lambda _: None,
        command: str = "checkpoints watch",
    ) -> Watched:
        """Watch a directory until `stopped` returns True, and take a checkpoint after each change,
        once nothing has changed for `settle`. With `session`, they belong to that session.

        `told` is called for every attempt. One process at a time may watch a directory; in a second
        one this raises `BusyError`, which names the `command` of the first. The home is created if
        it does not exist.
        """
        workdir, pace = directory(path), Pace()
        if settle is not None:
            quiet = seconds(settle, "settle")
            pace = Pace(settle=quiet, longest=max(pace.longest, quiet))
        writer, clock = self.writer(), self._place.clock
        belongs_to = session_id(session) or None
        first = writer.take(
            workdir, reason="watch: the first look", now=clock(), session=belongs_to
        )
        if first.id is None:
            failure = HoldfastError if workdir.is_dir() else UsageError
            raise failure(f"{workdir} cannot be watched. {first.reason}.")
        with following(writer.layout, workdir, holder=command) as follower:
            return watch(
                writer,
                workdir,
                follower,
                clock=clock,
                stopped=stopped,
                told=told,
                pace=pace,
                session=belongs_to,
            )

    def held_by_run(
        self, which: Which, session: SessionRef
    ) -> contextlib.AbstractContextManager[None]:
        """Keep a checkpoint during a run that belongs to `session`, whatever is taken or pruned
        meanwhile. Afterwards newer ones do not push it out, until the next run in that directory.
        Raises `UnknownCheckpointError` if it is already gone."""
        found = self._chosen(self.need_store(), which)
        return held_by_run(self.writer().layout, found, session_id(session))

    # --- Changing ---------------------------------------------------------------------------------

    def pin(self, which: Which, pinned: bool = True) -> Checkpoint:
        """Pin a checkpoint: no rule, no bound and no newer one ever removes it."""
        return self.pin_all([which], pinned)[0]

    def pin_all(
        self, which: Which | Collection[Which], pinned: bool = True
    ) -> Sequence[Checkpoint]:
        """Pin several as one operation, or unpin them."""
        store = self.need_store()
        found = [self._chosen(store, each) for each in several(which)]
        return self._edited(store, pin_checkpoints(found, pinned=pinned), "checkpoints.pin")

    def rename(self, which: Which, name: str | None) -> Checkpoint:
        """Give a checkpoint a name, or remove the name. A named checkpoint is kept like a pinned
        one."""
        store = self.need_store()
        wanted = text(name or "", "The name").strip() or None
        items = rename_checkpoint(self._chosen(store, which), wanted)
        return self._edited(store, items, "checkpoints.rename")[0]

    def plan_restore(
        self,
        which: Which,
        paths: StrPath | Iterable[StrPath] = (),
        *,
        hash_all: bool = False,
        maps: Maps = MappingProxyType({}),
    ) -> CheckpointRestorePlan:
        """What restoring a checkpoint would do to its project now, or only to the given paths.

        A checkpoint of another machine needs `maps`: paths of that machine, and where they are
        here. It becomes a checkpoint of that directory then, under an id of its own.
        """
        store = self.need_store(hash_all=hash_all)
        target = store.ready(self.brought_here(self._chosen(store, which), maps))
        wanted = self.inside(Path(target.workdir), paths) or None
        preview = store.preview(target.id, paths=wanted)
        return CheckpointRestorePlan(
            place=self._place, store=store, checkpoint=target, paths=wanted, preview=preview
        )

    def preview(
        self,
        which: Which,
        paths: StrPath | Iterable[StrPath] = (),
        *,
        maps: Maps = MappingProxyType({}),
    ) -> Preview:
        """What `restore` would write, delete and leave. Touches nothing in the project."""
        return self.plan_restore(which, paths, maps=maps).preview

    def settle(self) -> tuple[str, ...]:
        """Finish what a killed run left open in this home; returns the numbers of those operations.

        Everything that changes the home does this first. Call it before `plan_restore`, so that the
        plan is about the project as an interrupted restore leaves it.
        """
        return tuple(settle_if_needed(self._place.home, clock=self._place.clock))

    def restore(
        self,
        which: Which,
        paths: StrPath | Iterable[StrPath] = (),
        *,
        maps: Maps = MappingProxyType({}),
    ) -> RestoreReport:
        """Bring a project back to a checkpoint, byte for byte: all of it, or the given paths.

        Before the first change it takes a checkpoint of how things are, and `report.undo()` goes
        back to that. What the checkpoint did not cover stays as it is. A checkpoint of another
        machine needs `maps`, as in `plan_restore`.
        """
        self.settle()
        return self.plan_restore(which, paths, maps=maps).apply()

    def plan_prune(
        self,
        *,
        older_than: Moment | None = None,
        max_snapshots: int | None = None,
        max_total_size: Size | None = None,
        keep_orphans: bool | None = None,
        legacy: bool = False,
        use_trash: bool = True,
        caps_use_trash: bool = False,
        pack: bool = False,
        **rules: Unpack[KeepRules],
    ) -> HomePlan:
        """What to remove to bring the checkpoints within their limits.

        Without arguments, [checkpoints] of config.toml applies; any of `keep_last`,
        `keep_within`, `keep_hourly`, `keep_daily`, `keep_weekly`, `keep_monthly` and `keep_yearly`
        replaces all its keep rules. `older_than` is how long a project was not touched, or since
        which date; "0s" turns that rule off. `pack` packs a store over its cap before it counts, so
        that fewer have to go; it removes nothing. What the cap on bytes takes is gone at once,
        because the trash counts towards it, unless `caps_use_trash`.

        A take hides the oldest checkpoints beyond `max_snapshots`; `list` does not show them, and
        they wait for their place in the trash. A prune puts them there, and an undo brings back all
        that it put there: so more may be listed after prune and undo than before. The next take
        hides them again.
        """
        base = self._place.settings.checkpoint_policy(use_trash=use_trash)
        now = self._place.clock()
        own, caps = own_rules(rules, now), own_caps(max_total_size, max_snapshots, "max_snapshots")
        policy = replace(
            base,
            legacy=legacy,
            caps_use_trash=caps_use_trash,
            rules=base.rules if own.empty else own,
            max_count=base.max_count if caps.max_count is None else caps.max_count,
            max_bytes=base.max_bytes if caps.max_bytes is None else caps.max_bytes,
            keep_orphans=base.keep_orphans if keep_orphans is None else keep_orphans,
        )
        if older_than is not None:
            policy = replace(policy, stale_after=age(older_than, now, "older_than") or None)
        return self.plan_policy(policy, pack=pack)

    def plan_policy(self, policy: CheckpointPolicy, *, pack: bool = False) -> HomePlan:
        """The plan for a policy of the caller."""
        place = self._place
        plan, inventory = plan_prune_checkpoints(
            place.home.checkpoint_upkeep,
            policy,
            now=place.clock(),
            command=place.command("checkpoints.prune"),
            changing=pack,
        )
        return HomePlan(
            place=place,
            home=place.home,
            plan=plan,
            problems=inventory.problems,
            names={each.id: each.place for each in inventory.projects.values()},
        )

    def plan_delete(self, which: Which | Collection[Which], *, use_trash: bool = True) -> HomePlan:
        """Remove these checkpoints, by id or the start of one; a pin does not protect them."""
        store = self.need_store()
        named = several(which)
        if not named:
            raise UsageError("Name the checkpoints to delete.")
        return self._plan_drop([self._chosen(store, each).id for each in named], use_trash)

    def plan_clear(self, *, legacy: bool = False, use_trash: bool = True) -> HomePlan:
        """Remove the checkpoints of all projects, pinned and named ones too; with `legacy` also
        what an older layout left."""
        return self._plan_drop(None, use_trash, legacy=legacy)

    def plan_clear_legacy(self, *, use_trash: bool = True) -> HomePlan:
        """Remove what an older layout left, and nothing else."""
        place = self._place
        plan = plan_clear_legacy(
            place.home.checkpoint_upkeep,
            now=place.clock(),
            command=place.command("checkpoints.clear_legacy"),
            undoable=use_trash,
        )
        return HomePlan(place=place, home=place.home, plan=plan)

    delete = applied(plan_delete)
    clear = applied(plan_clear)
    clear_legacy = applied(plan_clear_legacy)
    prune = applied(plan_prune, pack=True)

    # --- The store --------------------------------------------------------------------------------

    def store(self, *, hash_all: bool = False) -> CheckpointStore | None:
        """The store with the checkpoints of this home; None when it has none. Creates nothing."""
        return self._place.home.checkpoint_store(self.capturing(hash_all=hash_all))

    def need_store(self, *, hash_all: bool = False) -> CheckpointStore:
        """Like `store`, but raises `UsageError` when the home has no checkpoints yet."""
        store = self.store(hash_all=hash_all)
        if store is None:
            raise UsageError(
                f"{self._place.root} has no checkpoints yet.",
                hint="Take one with `holdfast checkpoints take`.",
            )
        return store

    def names(self) -> dict[str, str]:
        """The directories of projects, by the ids that plans have for them."""
        return {each.id: each.place for each in self.projects()}

    def _edited(
        self, store: CheckpointStore, items: Sequence[PlanItem], name: str
    ) -> Sequence[Checkpoint]:
        place = self._place
        carry_out_edits(place.home, items, command=place.command(name), clock=place.clock)
        return [store.get(each.id) for each in items]

    def _plan_drop(
        self, ids: Collection[str] | None, use_trash: bool, *, legacy: bool = False
    ) -> HomePlan:
        place, name = self._place, "checkpoints.clear" if ids is None else "checkpoints.delete"
        plan = plan_drop(
            place.home.checkpoint_upkeep,
            ids,
            now=place.clock(),
            command=place.command(name),
            undoable=use_trash,
            legacy=legacy,
        )
        return HomePlan(place=place, home=place.home, plan=plan, names=self.names())

    def _chosen(self, store: CheckpointStore, which: Which) -> Checkpoint:
        """The checkpoint that an id or the start of one names; a mistyped one gets a
        suggestion."""
        if isinstance(which, Taking) and which.id is None:
            raise UsageError(f"That take left no checkpoint: {which.reason}.")
        given = which.id if isinstance(which, Checkpoint | Taking) else which
        wanted = text(given, "The id of a checkpoint").lower()
        try:
            return store.get(wanted)
        except UnknownCheckpointError as error:
            if removed := self._in_trash(wanted):
                raise removed from None
            starts = {each.id[: max(len(wanted), SHORTEST_PREFIX)] for each in store.list()}
            near = get_close_matches(wanted, starts, n=1, cutoff=_CLOSE)
            if not near or near[0].startswith(wanted):
                raise
            error.hint = f"Did you mean {near[0]}? {error.hint or ''}".rstrip()
            raise

    def _in_trash(self, wanted: str) -> UnknownCheckpointError | None:
        """The error that says which operation removed a checkpoint, if it is in the trash."""
        try:
            trash = self._place.home.log.read().trash
        except HoldfastError:
            return None
        found = {
            each.removal.item.id: each.removal.operation
            for each in trash
            if each.removal.item.kind == CHECKPOINT and each.removal.item.id.startswith(wanted)
        }
        if len(found) != 1:
            return None
        [(name, operation)] = found.items()
        return UnknownCheckpointError(
            f"Checkpoint {name[:_SHORT]} is in the trash: operation {operation} removed it.",
            hint=f"Bring it back: holdfast undo {operation}",
        )


def _around(store: CheckpointStore, place: Path) -> Sequence[Checkpoint]:
    """The checkpoints of a directory, or of the nearest one above that has any."""
    found = (store.list(each) for each in (place, *place.parents))
    return next(filter(None, found), ())


def _meant(prefix: str, known: Collection[str]) -> str:
    """The session with this id, or the only one whose id begins like it. A session without
    checkpoints is not among the known ones; its id is returned as it is."""
    begin_so = [each for each in known if each.startswith(prefix)]
    if prefix in begin_so or not begin_so:
        return prefix
    if len(begin_so) > 1:
        raise UsageError(ambiguous(prefix, begin_so), hint="Use a longer prefix.")
    return begin_so[0]


def _refuse_unknown(
    store: CheckpointStore,
    old: Checkpoint,
    new_tree: str,
    wanted: Sequence[str],
    changes: Sequence[Change],
) -> None:
    """Raise for a path that does not exist on either side: "no difference" would hide a typo."""
    for path in wanted:
        if not path or any(_is_below(each, (path,)) for each in changes):
            continue
        if os.path.lexists(Path(old.workdir, path)):
            continue
        if not any(_has(store.captured(tree), path) for tree in {old.tree, new_tree}):
            raise UsageError(
                f"{path!r} is neither in checkpoint {old.known_id[:_SHORT]} nor in {old.workdir}.",
                hint=f"`holdfast checkpoints show {old.known_id[:_SHORT]}` lists its files.",
            )


def _has(captured: Captured, path: str) -> bool:
    below = f"{path}/"
    return any(
        each == path or each.startswith(below) for each in (*captured.files, *captured.directories)
    )


def _is_below(change: Change, wanted: Sequence[str]) -> bool:
    path = change.path
    return not wanted or any(not w or path == w or path.startswith(f"{w}/") for w in wanted)
