"""Scan a home and plan: by a policy, by the rules of gc, or for items that the user named.

`apply` carries out a plan exactly as it was shown. Each function that also returns an inventory
returns everything that its scan saw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter

from holdfast.errors import StorageError, UnknownSessionError, UsageError
from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.item import (
    ARCHIVED,
    ARCHIVED_KINDS,
    SESSION,
    VAULTED_BUNDLE,
    Inventory,
    Item,
    Problem,
)
from holdfast.model.plan import Action, Plan
from holdfast.model.session import Relation, SessionFilter
from holdfast.policy.decision import plan_item
from holdfast.policy.plan_by_name import plan_all, plan_endings, plan_named, plan_named_checkpoints
from holdfast.policy.planner import plan, plan_checkpoints
from holdfast.policy.rules import TRIVIAL_MAX, CheckpointPolicy, Files, GcRules, Policy
from holdfast.policy.session_filter import Selection
from holdfast.policy.trivial_sessions import plan_gc
from holdfast.ports.archive import Archive
from holdfast.ports.checkpoints import CheckpointUpkeep
from holdfast.ports.home import Home
from holdfast.ports.runs import Progress
from holdfast.ports.sessions import SessionStore
from holdfast.services.restore import elsewhere
from holdfast.value import replace

#: Why a file of a stored session stays when only files were asked for.
WITH_ITS_SESSION = "its session is not selected; ask for files only to remove it alone"

# --- Sessions and files, by a policy --------------------------------------------------------------


def plan_prune(
    home: Home,
    policy: Policy,
    *,
    now: float,
    command: str,
    selection: Selection,
    files: Files = Files.WITH,
    progress: Progress | None = None,
) -> tuple[Plan, Inventory]:
    """The plan for what is selected."""
    inventory = home.scan(now, progress, wanted=selection.sessions)
    selected = replace(
        inventory,
        items=_selected(selection, inventory.items, files),
        trash=selection.of(inventory.trash),
        space=selection.of(inventory.space),
    )
    if selection != Selection():  # bytes shared by all sessions must not count against some
        selected = replace(selected, other_bytes=0, log_bytes=0, loose_trash_bytes=0)
        selected = replace(selected, checkpoint_bytes=0, archive_bytes=0, empty_database_bytes=0)
    made = plan(policy, selected, now, command=command, files=files)
    planned = {(item.kind, item.id) for item in made.items}
    left = [
        plan_item(item, Action.KEEP, WITH_ITS_SESSION)
        for item in inventory.items
        if _is_file_alone(selection, item) and (item.kind, item.id) not in planned
    ]
    return replace(made, items=(*made.items, *left)), inventory


def _selected(selection: Selection, items: Sequence[Item], files: Files) -> tuple[Item, ...]:
    """With `Files.ONLY`, files can go without their sessions, but the sessions must be in the plan
    because files are judged by them."""
    kinds = selection.kinds
    if files is not Files.ONLY or kinds is None or SESSION in kinds:
        return selection.of(items)
    judged = replace(selection, kinds=kinds | {SESSION})
    return tuple(item for item in judged.of(items) if item.kind == SESSION or item.kind in kinds)


def _is_file_alone(selection: Selection, item: Item) -> bool:
    """True if a session's file is of a selected kind, but sessions are not selected."""
    kinds = selection.kinds
    return item.owned and kinds is not None and SESSION not in kinds and item.kind in kinds


def plan_prune_archive(
    home: Home, policy: Policy, *, now: float, command: str, wanted: SessionFilter
) -> tuple[Plan, Inventory]:
    """The plan for the wanted archived sessions. Their age is their time in the archive."""
    chosen = {each.file for each in home.archive.find(wanted)}
    inventory = archive_inventory(home)
    if wanted != SessionFilter():
        items = tuple(item for item in inventory.items if item.id in chosen)
        inventory = replace(inventory, items=items, other_bytes=0)
    if inventory.items and not policy.use_trash:  # unused pages may still hold their text
        inventory = replace(inventory, space=home.scan(now).space)
    return plan(policy, inventory, now, command=command), inventory


def archive_inventory(home: Home) -> Inventory:
    """The contents of the archive, with its trash, which counts too and goes first."""
    weight = home.archive.weight()
    return _kept_apart(
        home,
        home.archive.items(),
        home.archive.problems(),
        kinds=ARCHIVED_KINDS,
        total=weight.bytes + weight.trash_bytes,
    )


def vault_inventory(home: Home) -> Inventory:
    """The sessions that only the vault holds. The trash of its bundles counts too and goes first;
    its other removed sessions are in the home's trash."""
    vault = home.vault
    if vault is None:
        return Inventory(home=str(home.root), items=())
    total = vault.figures().bytes
    return _kept_apart(home, vault.items(), vault.problems(), kinds=(VAULTED_BUNDLE,), total=total)


def _kept_apart(
    home: Home,
    items: Sequence[Item],
    problems: Sequence[Problem],
    *,
    kinds: Collection[str],
    total: int,
) -> Inventory:
    """The inventory of a place other than the store. `total` is its bytes, with the trash of these
    kinds."""
    entries = home.log.read().trash
    trash = tuple(each.as_item() for each in entries if each.removal.item.kind in kinds)
    return Inventory(
        home=str(home.root),
        items=tuple(items),
        trash=trash,
        problems=tuple(problems),
        other_bytes=max(0, total - sum(item.bytes for item in (*items, *trash))),
    )


def plan_home_gc(
    home: Home,
    rules: GcRules,
    policy: Policy,
    *,
    now: float,
    command: str,
    wanted: SessionFilter,
    left: Callable[[Inventory], Inventory] = lambda seen: seen,
    progress: Progress | None = None,
) -> tuple[Plan, Inventory]:
    """The plan for the wanted sessions. The scan reads only sessions that are small enough to be
    removed, because a store may hold hundreds of thousands. `left` drops what another step
    handles."""
    few = rules.trivial_max if wanted.max_messages is None else wanted.max_messages
    wanted = replace(wanted, max_messages=min(few, rules.trivial_max))
    inventory = home.scan(now, progress, wanted=wanted)
    return plan_gc(rules, policy, left(inventory), now, command=command), inventory


# --- Sessions by name, or by a filter that stands for names ---------------------------------------


def plan_delete(
    home: Home,
    ids: Sequence[str],
    *,
    now: float,
    command: str,
    undoable: bool = True,
    trivial_max: int = TRIVIAL_MAX,
    is_pinned: Callable[[Item], bool] = attrgetter("pinned"),
) -> Plan:
    """Remove these sessions with their files. Sessions that are alive are kept, and the plan says
    why.

    Their delegates go too: those with at most `trivial_max` messages, or all of them if the home's
    agent itself deletes all. A pinned delegate that is not named stays; if it can only leave with
    its session, that stays too.

    An id that only the archive or the vault has means the session there. A session in the store
    goes together with its archived files. An archived session with the same id is another session,
    which an import replaced, and stays. Without `undoable` all of these go, and their copies in the
    trash too: the sessions are gone for good, everywhere.
    """
    store = home.session_store()
    bundles = _bundles(home, needed=not undoable)
    if store is None and not bundles:
        raise UsageError(f"{home.root} has no session store, so there are no sessions to delete.")
    named = list(dict.fromkeys(_resolved(home, store, each) for each in ids))
    wanted = (*named, *(() if store is None else store.delegates_of(named)))
    vaulted = () if home.vault is None else home.vault.items()
    inventory = home.scan(now, wanted=SessionFilter(ids=wanted))
    stored = {item.id for item in inventory.items if item.kind == SESSION}
    known = {item.id for item in inventory.items}
    more = [
        replace(item, owned=item.session in stored)
        for item in bundles
        if item.session in wanted and item.id not in known
        if not (undoable and item.kind == ARCHIVED and item.session in stored)
    ]
    more += [item for item in vaulted if item.session in wanted]
    inventory = replace(inventory, items=(*inventory.items, *more))
    _check_all_can_leave(home, store, named, inventory)
    every = store is not None and store.deletes_every_delegate
    return plan_named(
        named,
        inventory,
        now,
        command=command,
        reason="deleted by id",
        undoable=undoable,
        delegates_up_to=math.inf if every else trivial_max,
        is_pinned=is_pinned,
    )


def _check_all_can_leave(
    home: Home, store: SessionStore | None, named: Sequence[str], inventory: Inventory
) -> None:
    """Raise an error that explains why a listed session cannot be removed: it is only in the vault,
    its home is read-only, it is part of another session, or it could not be read."""
    missing = {*named}.difference(item.session for item in inventory.items)
    if not missing or store is None:
        return
    for each in store.find(SessionFilter(ids=tuple(sorted(missing)))):
        if each.vaulted:
            raise UsageError(
                f"{each.id} is only in the vault, because its agent deleted it.",
                hint=f"Bring it back first: `holdfast sessions restore {each.id}`.",
            )
        if inventory.read_only:
            home.doer(SESSION)  # raises, with the reason
        if each.relation is Relation.DELEGATE and each.parent_id:
            if each.parent_id in named:
                continue
            raise UsageError(
                f"{each.id} is part of session {each.parent_id} and can only leave with it.",
                hint=f"Name the whole session: {each.parent_id}",
            )
        why = next((p for p in inventory.problems if p.reason.endswith(each.id)), None)
        if why is not None:
            reason = why.reason.removesuffix(f": {each.id}")
            raise StorageError(f"{each.id} cannot be removed: {why.path} {reason}.")


def _bundles(home: Home, *, needed: bool) -> Sequence[Item]:
    """The contents of the archive. `needed` for removals for good: without the archive, sessions
    would not be gone everywhere."""
    try:
        return home.archive.items(everywhere=True)
    except StorageError:
        if needed:
            raise
        return ()


def _resolved(home: Home, store: SessionStore | None, prefix: str) -> str:
    """Resolve an id or prefix in the store, then in the archive. If the session is in the trash,
    the error says so."""
    if store is None:
        return home.archive.resolve(prefix)
    try:
        return store.resolve(prefix)
    except UnknownSessionError as error:
        try:
            return home.archive.resolve(prefix)
        except (UnknownSessionError, StorageError):
            pass
        raise elsewhere(home, prefix) or error from None


def plan_archive(
    home: Home,
    archive: Archive,
    *,
    ids: Sequence[str] = (),
    wanted: SessionFilter | None = None,
    policy: Policy,
    now: float,
    command: str,
    progress: Progress | None = None,
) -> tuple[Plan, Inventory]:
    """Archive these sessions with their files. Sessions that are alive stay, and the plan says so.

    `ids` are whole ids. Filters leave out pinned sessions unless they ask for them, but a pin does
    not protect a session that the user names. The same holds for sessions that were archived in
    their agent.

    Raises `StorageError` if the archive folder cannot be used, before the plan is shown rather than
    after the user agreed to it.
    """
    if not ids and wanted is None:
        raise UsageError("Name the sessions to archive: by their ids, or with filters.")
    archive.check()
    chosen = SessionFilter(ids=tuple(ids)) if wanted is None else wanted
    inventory = home.scan(now, progress, wanted=chosen)
    _check_all_can_leave(home, home.session_store(), ids, inventory)
    with_pinned = bool(ids) or chosen.pinned is True
    found = {
        item.id
        for item in inventory.items
        if item.kind == SESSION
        and (with_pinned or not policy.pins_item(item))
        and (bool(ids) or chosen.agent_archived is True or not item.archived_in)
    }
    made = plan_named(
        found.union(ids),
        inventory,
        now,
        command=command,
        reason="archived on request",
        undoable=True,
        action=Action.ARCHIVE,
        delegates_up_to=math.inf if any(item.follows for item in inventory.items) else None,
        is_pinned=_nothing if chosen.pinned is True else policy.pins_item,
    )
    return made, inventory


def _nothing(_: Item) -> bool:
    return False


def plan_home_endings(
    home: Home, *, now: float, command: str, progress: Progress | None = None
) -> tuple[Plan, Inventory]:
    """Plan the end of abandoned sessions, among all sessions that have not ended."""
    inventory = home.scan(now, progress, wanted=SessionFilter(ended=False))
    return plan_endings(inventory, now, command=command), inventory


# --- Checkpoints ----------------------------------------------------------------------------------


def plan_prune_checkpoints(
    upkeep: CheckpointUpkeep,
    policy: CheckpointPolicy,
    *,
    now: float,
    command: str,
    changing: bool = False,
) -> tuple[Plan, CheckpointInventory]:
    """The plan by a policy.

    If it is going to be carried out (`changing`), a store over its cap is packed before checkpoints
    are dropped for the cap: loose objects may take much less space in a pack. A dry run changes
    nothing, so it may list more removals.
    """
    if changing:
        upkeep.note(now)
    inventory = upkeep.scan(now)
    if changing and is_over(policy, inventory):
        upkeep.pack()
        inventory = upkeep.scan(now)
    return plan_checkpoints(policy, inventory, now, command=command), inventory


def is_over(policy: CheckpointPolicy, inventory: CheckpointInventory) -> bool:
    """True if the checkpoint folder exceeds its cap on bytes."""
    return policy.max_bytes is not None and inventory.bounded_bytes > policy.max_bytes


def plan_drop(
    upkeep: CheckpointUpkeep,
    ids: Collection[str] | None,
    *,
    now: float,
    command: str,
    undoable: bool = True,
    legacy: bool = False,
) -> Plan:
    """Remove these checkpoints; with None all of them, including those that were hidden before.
    With `legacy`, also the archives of older layouts."""
    inventory = upkeep.scan(now)
    return plan_named_checkpoints(
        ids, inventory, now, command=command, undoable=undoable, legacy=legacy
    )


def plan_clear_legacy(
    upkeep: CheckpointUpkeep, *, now: float, command: str, undoable: bool = True
) -> Plan:
    """Remove the archives of older repositories."""
    inventory = upkeep.scan(now)
    return plan_all(
        inventory.legacy,
        inventory.home,
        now,
        command=command,
        reason="cleared on request",
        undoable=undoable,
    )
