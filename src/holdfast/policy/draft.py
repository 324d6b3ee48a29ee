"""Turns decisions into a plan: what goes with each session, in the order in which a run handles it.

The files of a stored session are not judged. They follow the decision about their session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.item import ARCHIVED, ARCHIVED_KINDS, SESSION, Item
from holdfast.model.plan import Action, Outlook, Plan, PlanItem, Shortfall
from holdfast.policy.checkpoint_bytes import SharedBytes
from holdfast.policy.decision import Decision, plan_item
from holdfast.policy.keep_rules import IN_USE, PINNED, in_use_because
from holdfast.policy.rules import Files
from holdfast.value import dataclass, replace

FILES_STAY = "files stay"
ROW_STAYS = "its row stays as history"

#: With less free space than this, a store from which nothing was removed is left alone.
WORTH_RECLAIMING = 1024 * 1024
#: If the checkpoint store is over its cap, this much unused space is worth reclaiming.
_WORTH_OVER_CAP = 16 * 1024


def owned_files(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item.owned]


def files_in_use(owned: Iterable[Item]) -> Mapping[str, str]:
    """Signs of life in files of sessions that otherwise look dead, by session id.

    A session whose file is open is in use, whatever its row says.
    """
    alive = sorted((item for item in owned if item.alive is not None), key=lambda item: item.id)
    found: dict[str, str] = {}
    for item in alive:
        found.setdefault(item.session, f"its file {item.id}: {item.alive}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSpace:
    """What a store could give back, and when that is worth a run: if it amounts to `worth` bytes,
    if something has left the store, or if an earlier run still owes it. With `for_good`, what moves
    to the trash does not count as having left."""

    items: Sequence[Item] = ()
    reason: str = "free pages and write-ahead log"
    worth: int = WORTH_RECLAIMING
    for_good: bool = False


def checkpoint_space(inventory: CheckpointInventory, *, over: bool = False) -> FreeSpace:
    """The free space of the checkpoint store. If the store is `over` its cap, little is worth
    reclaiming."""
    worth = _WORTH_OVER_CAP if over else WORTH_RECLAIMING
    reason = "objects that no checkpoint needs"
    return FreeSpace(items=inventory.space, reason=reason, worth=worth, for_good=True)


class Draft:
    """The decisions of one plan, and the files that follow them.

    A file whose session is not part of the plan is not part of it either. `leaving` is the action
    for sessions that leave. `remains` has the bytes that stay of sessions that go, by source and
    reason. If items share bytes, `shared` knows what each of them frees.
    """

    def __init__(
        self,
        decisions: Sequence[Decision],
        *,
        trash: Sequence[Decision] = (),
        owned: Iterable[Item] = (),
        is_pinned: Callable[[Item], bool] = lambda _: False,
        files: Files = Files.WITH,
        leaving: Action = Action.REMOVE,
        space: FreeSpace = FreeSpace(),  # noqa: B008 - frozen
        shared: SharedBytes | None = None,
    ) -> None:
        self.decisions = decisions
        self.trash = trash
        self.remains: Counter[tuple[str, str]] = Counter()
        self._files = files
        self._leaving = leaving
        self._space = space
        self._shared = shared
        self._sessions = {each.item.id: each for each in decisions if _is_session(each)}
        self._owned = [item for item in owned if item.session in self._sessions]
        self._pinned = {item.id for item in self._owned if is_pinned(item)}
        for session in self._sessions.values() if files is Files.ONLY else ():
            session.bytes = 0
            self.remains[session.item.source, ROW_STAYS] += session.item.bytes
        for item in self._owned:
            self._load(item)

    def _load(self, item: Item) -> None:
        """Add a file to its session, or to what stays of that session."""
        session = self._sessions[item.session]
        if item.id in self._pinned:
            self.remains[session.item.source, PINNED] += item.capped_bytes
        elif self._files is Files.NONE:
            self.remains[session.item.source, FILES_STAY] += item.capped_bytes
        else:
            session.bytes += item.capped_bytes
            session.files += 1

    def counts(self, decision: Decision) -> bool:
        """True if it has anything that could be removed. With files only, a session needs files for
        that."""
        return self._files is not Files.ONLY or not _is_session(decision) or decision.files > 0

    def outlook(self) -> Outlook:
        """What the plan would remove. The files of a session count with their own bytes."""
        gone = [
            (each.item, each.undoable) for each in (*self.trash, *self.decisions) if not each.kept
        ]
        gone += [
            (item, self._sessions[item.session].undoable)
            for item in self._owned
            if self._why_it_stays(item, self._sessions[item.session]) is None
        ]
        return Outlook(
            removals=len(gone),
            bytes=sum(item.bytes for item, _ in gone),
            in_rows=sum(item.in_rows for item, _ in gone),
            later=sum(item.bytes - item.in_rows for item, undoable in gone if undoable),
        )

    def plan(
        self, home: str, now: float, *, command: str, shortfalls: Iterable[Shortfall] = ()
    ) -> Plan:
        items = tuple(self._plan_items())
        return Plan(
            home=home, command=command, made_at=now, items=items, shortfalls=tuple(shortfalls)
        )

    def _plan_items(self) -> Iterator[PlanItem]:
        """All items, in the order of the run.

        Trash comes first: on a full disk it makes room for the undo copies of what follows.
        Sessions come before their files, because a file may go only after its session has gone.
        Space is reclaimed last, after everything that frees some.
        """
        sessions = [self._session(each) for each in self._sessions.values()]
        files = [self._file(item, self._sessions[item.session]) for item in self._owned]
        files.sort(key=lambda item: item.kind)
        yield from self._others(self.trash)
        yield from sessions
        yield from files
        yield from self._others(each for each in self.decisions if not _is_session(each))
        if self._space.for_good:
            left = any(not each.holds_space for each in (*self.trash, *self.decisions))
        else:
            left = any(item.action is not Action.KEEP for item in sessions) or any(
                each.item.kind == ARCHIVED and not each.kept and not each.undoable
                for each in self.decisions  # the text of its messages may still be in the index
            )
        items = self._space.items
        owed = any(item.owed for item in items)
        if left or owed or sum(item.bytes for item in items) >= self._space.worth:
            for item in items:
                yield plan_item(item, Action.RECLAIM, self._space.reason)

    def _others(self, decisions: Iterable[Decision]) -> Iterator[PlanItem]:
        freed = {} if self._shared is None else self._shared.freed
        for each in decisions:
            item = each.as_plan_item()
            yield replace(item, bytes=freed[each]) if each in freed else item

    def _session(self, decision: Decision) -> PlanItem:
        item = decision.item
        if not decision.kept and self._files is not Files.ONLY:
            archived = self._leaving is Action.ARCHIVE
            return plan_item(
                item,
                self._leaving,
                decision.reason,
                undoable=archived or decision.undoable,
                without_end=decision.without_end,
            )
        return plan_item(item, Action.KEEP, decision.reason if decision.kept else ROW_STAYS)

    def _file(self, item: Item, session: Decision) -> PlanItem:
        stays = self._why_it_stays(item, session)
        if stays is not None:
            return plan_item(item, Action.KEEP, stays)
        if self._files is Files.ONLY:
            return plan_item(item, Action.REMOVE, session.reason, undoable=session.undoable)
        # The bundle of an archived session contains its files: a second copy would be useless.
        archived = self._leaving is Action.ARCHIVE
        return plan_item(
            item,
            Action.REMOVE,
            "archived with its session" if archived else "removed with its session",
            undoable=session.undoable and not archived,
            goes_with=session.item.id,
        )

    def _why_it_stays(self, item: Item, session: Decision) -> str | None:
        if item.id in self._pinned:
            return PINNED
        if item.kind in ARCHIVED_KINDS and self._leaving is Action.ARCHIVE:
            return "in the archive already"
        if item.alive is not None:
            return in_use_because(item.alive)
        if session.kept:
            in_use = session.held == IN_USE
            return in_use_because("by its session") if in_use else "its session is kept"
        return FILES_STAY if self._files is Files.NONE else None


def _is_session(decision: Decision) -> bool:
    return decision.item.kind == SESSION
