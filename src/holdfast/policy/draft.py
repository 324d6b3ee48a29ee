"""From decisions to a plan: what stays and goes with each session, in the order of the run.

The files of a stored session are not judged. They follow its decision, whoever made it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.model.item import ARCHIVED_KINDS, SESSION, Item
from holdfast.model.plan import Action, Outlook, PlanItem
from holdfast.policy.decision import (
    IN_USE,
    PINNED,
    Decision,
    in_use_because,
    plan_item,
)
from holdfast.policy.rules import Files

FILES_STAY = "files stay"
ROW_STAYS = "its row stays as history"

#: Less free space than this is no reason to touch a store that nothing leaves.
WORTH_RECLAIMING = 1024 * 1024


def owned_files(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item.owned]


def files_in_use(owned: Iterable[Item]) -> Mapping[str, str]:
    """What their files say of sessions that look dead: the evidence, by session.

    Somebody works with a session whose file is open, whatever its row says.
    """
    alive = sorted((item for item in owned if item.alive is not None), key=lambda item: item.id)
    found: dict[str, str] = {}
    for item in alive:
        found.setdefault(item.session, f"its file {item.id}: {item.alive}")
    return found


class Draft:
    """The decisions of one plan, and the files that follow them.

    A file whose session is no part of the plan is none either. `leaving` is how sessions leave,
    `remains` the bytes that stay of those that do, by their source and by why they stay.
    """

    def __init__(
        self,
        decisions: Sequence[Decision],
        owned: Iterable[Item],
        *,
        is_pinned: Callable[[Item], bool],
        files: Files = Files.WITH,
        leaving: Action = Action.REMOVE,
    ) -> None:
        self.decisions = decisions
        self.remains: Counter[tuple[str, str]] = Counter()
        self._files = files
        self._leaving = leaving
        self._sessions = {each.item.id: each for each in decisions if _is_session(each)}
        self._owned = [item for item in owned if item.session in self._sessions]
        self._pinned = {item.id for item in self._owned if is_pinned(item)}
        if files is Files.ONLY:
            self._leave_rows()
        for item in self._owned:
            self._load(item)

    def _leave_rows(self) -> None:
        for session in self._sessions.values():
            session.bytes = 0
            self.remains[session.item.source, ROW_STAYS] += session.item.bytes

    def _load(self, item: Item) -> None:
        """Add a file to its session, or to what stays of it."""
        session = self._sessions[item.session]
        if item.id in self._pinned:
            self.remains[session.item.source, PINNED] += item.capped_bytes
        elif self._files is Files.NONE:
            self.remains[session.item.source, FILES_STAY] += item.capped_bytes
        else:
            session.bytes += item.capped_bytes
            session.files += 1

    def counts(self, decision: Decision) -> bool:
        """Whether there is something that could go: of rows that stay, only with files."""
        return self._files is not Files.ONLY or not _is_session(decision) or decision.files > 0

    def outlook(self, trash: Iterable[Decision]) -> Outlook:
        """What `plan_items` would remove. A session's files have bytes of their own in it."""
        gone = [each.item.bytes for each in (*trash, *self.decisions) if not each.kept]
        gone += [
            item.bytes
            for item in self._owned
            if self._why_it_stays(item, self._sessions[item.session]) is None
        ]
        return Outlook(removals=len(gone), bytes=sum(gone))

    def plan_items(self, trash: Iterable[Decision], space: Sequence[Item]) -> tuple[PlanItem, ...]:
        """Everything, in the order of the run.

        Trash comes first: on a full disk it makes room for the undo copies of what follows.
        Sessions come before their files, because a file may go only when its session has gone, and
        space is given back when everything has gone that makes some.
        """
        sessions = [self._session(each) for each in self._sessions.values()]
        some_leave = any(item.action is self._leaving for item in sessions)
        followers = [self._file(item, self._sessions[item.session]) for item in self._owned]
        followers.sort(key=lambda item: item.kind)
        orphans = [each.as_plan_item() for each in self.decisions if not _is_session(each)]
        emptied = [each.as_plan_item() for each in trash]
        given_back = _given_back(space) if some_leave or _is_worth_it(space) else ()
        return (*emptied, *sessions, *followers, *orphans, *given_back)

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
        # The bundle of an archived session holds its files: a second copy would serve nobody.
        archived = self._leaving is Action.ARCHIVE
        return plan_item(
            item,
            Action.REMOVE,
            "archived with its session" if archived else "goes with its session",
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


def _is_worth_it(space: Iterable[Item]) -> bool:
    return sum(item.bytes for item in space) >= WORTH_RECLAIMING


def _given_back(space: Iterable[Item]) -> Iterator[PlanItem]:
    for item in space:
        yield plan_item(item, Action.RECLAIM, "free pages and write-ahead log")
