"""What left the store: the archive, the trash, and the log of what was done."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Sequence

from holdfast.api.arguments import (
    Duration,
    Ids,
    Moment,
    Size,
    moment,
    names,
    own_caps,
    own_rules,
    wanted_sessions,
)
from holdfast.api.place import Place
from holdfast.api.plan import HomePlan, HomeReport, applied, unknown_sources
from holdfast.errors import UsageError
from holdfast.model.archive import ArchivedSession, ArchiveHits
from holdfast.model.item import Problem
from holdfast.model.operation import LogView, Operation, TrashEntry
from holdfast.model.session import Message, Search, SessionFilter, SessionOrder
from holdfast.policy.rules import DAY, Policy
from holdfast.ports import Progress
from holdfast.services.plans import plan_prune_archive
from holdfast.services.restore import chosen as archived
from holdfast.services.restore import restore
from holdfast.spine.trash import plan_empty
from holdfast.value import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RestorePlan:
    """Archived sessions that would come back into the store. `problems` are bundles that could not
    be read."""

    place: Place
    sessions: Sequence[ArchivedSession]
    problems: Sequence[Problem] = ()

    def apply(self, *, progress: Progress | None = None) -> HomeReport:
        """Bring them back whole. One that cannot come back stays in the archive and is named."""
        place = self.place
        report = restore(
            place.home,
            self.sessions,
            command=place.command("restore_sessions"),
            clock=place.clock,
            progress=progress,
        )
        return HomeReport(place=place, report=report)


class ArchivedSessions:
    """The sessions that left the store for the archive: found, read, searched, brought back."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def find(
        self,
        wanted: SessionFilter | None = None,
        *,
        order_by: SessionOrder = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
    ) -> Sequence[ArchivedSession]:
        return self._place.home.archive.find(
            wanted_sessions(wanted, None),
            order_by=order_by,
            limit=limit,
            offset=offset,
            prices=self._place.settings.prices(),
        )

    def count(self, wanted: SessionFilter | None = None) -> int:
        return self._place.home.archive.count(wanted_sessions(wanted, None))

    def get(self, session_id: str) -> ArchivedSession:
        """One archived session, by its id or the start of one."""
        archive = self._place.home.archive
        return archive.get(archive.resolve(_one(session_id)))

    def messages(self, session_id: str) -> Iterator[Message]:
        archive = self._place.home.archive
        return archive.messages(archive.resolve(_one(session_id)))

    def search(
        self,
        text: str,
        *,
        wanted: SessionFilter | None = None,
        roles: tuple[str, ...] | None = None,
        limit: int = 20,
        offset: int = 0,
        substring: bool = False,
    ) -> ArchiveHits:
        """Find messages by their words. Every bundle is read; `problems` of the answer names those
        that could not be."""
        return self._place.home.archive.search(
            Search(
                text=text,
                wanted=wanted_sessions(wanted, None),
                roles=roles,
                limit=limit,
                offset=offset,
                substring=substring,
            )
        )

    def problems(self) -> Sequence[Problem]:
        """Bundles that cannot be read."""
        return self._place.home.archive.problems()

    def plan_restore(self, ids: Ids | None = None) -> RestorePlan:
        """What would come back: these sessions, or all of them without `ids`."""
        archive = self._place.home.archive
        problems = archive.problems()
        sessions = archived(archive, () if ids is None else names(ids, "ids"))
        return RestorePlan(place=self._place, sessions=sessions, problems=problems)

    def restore(self, ids: Ids) -> HomeReport:
        """Bring archived sessions back into the store, whole, with their files."""
        return self.plan_restore(names(ids, "ids")).apply()

    def plan_prune(  # noqa: PLR0913 - all are optional, and named
        self,
        *,
        older_than: Moment | None = None,
        keep_last: int | None = None,
        keep_within: Duration | None = None,
        keep_hourly: int | None = None,
        keep_daily: int | None = None,
        keep_weekly: int | None = None,
        keep_monthly: int | None = None,
        keep_yearly: int | None = None,
        max_total_size: Size | None = None,
        max_count: int | None = None,
        wanted: SessionFilter | None = None,
        use_trash: bool = True,
    ) -> HomePlan:
        """What goes from the archive. The age of a session is its time there.

        Where you say nothing, [archive] of config.toml holds. The knobs are those of
        `Home.plan_prune`.
        """
        rules = own_rules(
            self._place.clock(),
            older_than=older_than,
            keep_within=keep_within,
            keep_last=keep_last,
            keep_hourly=keep_hourly,
            keep_daily=keep_daily,
            keep_weekly=keep_weekly,
            keep_monthly=keep_monthly,
            keep_yearly=keep_yearly,
        )
        base = self._place.settings.archive_policy(use_trash=use_trash)
        return self.plan_policy(
            base.with_own(rules, own_caps(max_total_size, max_count)), wanted=wanted
        )

    def plan_policy(self, policy: Policy, *, wanted: SessionFilter | None = None) -> HomePlan:
        """The plan for a policy of the caller's own making."""
        place, chosen = self._place, wanted_sessions(wanted, None)
        plan, inventory = plan_prune_archive(
            place.home,
            replace(policy, agent_archived=chosen.agent_archived is True),
            now=place.clock(),
            command=place.command("archive.prune"),
            wanted=chosen,
        )
        return HomePlan(
            place=place,
            home=place.home,
            plan=plan,
            problems=inventory.problems,
            unknown_sources=unknown_sources(place.home, chosen, inventory),
        )

    prune = applied(plan_prune)


class Trash:
    """What undo can still bring back."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def list(self) -> builtins.list[TrashEntry]:
        """Everything in the trash, the oldest first."""
        return [*self._place.home.log.read().trash]

    def expires_at(self, entry: TrashEntry) -> float:
        """When the first prune or maintenance may remove it for good."""
        return entry.removed_at + self._place.settings.trash_days * DAY

    def plan_empty(
        self, operations: str | Iterable[str] = (), *, older_than: Moment | None = None
    ) -> HomePlan:
        """Free the space of these operations, or of all; it cannot be undone."""
        place, now = self._place, self._place.clock()
        plan = plan_empty(
            place.home,
            now=now,
            command=place.command("trash.empty"),
            operations=() if operations in ((), []) else names(operations, "operations"),
            before=None if older_than is None else moment(older_than, now, "older_than"),
        )
        return HomePlan(place=place, home=place.home, plan=plan)

    empty = applied(plan_empty)


class Log:
    """What was done to a home, operation by operation."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def read(self) -> LogView:
        """The whole log at this moment, with what can be undone."""
        return self._place.home.log.read()

    def list(self, *, limit: int | None = None) -> builtins.list[Operation]:
        """The operations, the latest first."""
        return [*self.read().operations[::-1][:limit]]

    def get(self, operation: str) -> Operation:
        for each in self.read().operations:
            if each.id == operation:
                return each
        raise UsageError(
            f"There is no operation {operation!r} in this home.", hint="`holdfast log` lists them."
        )


def _one(session_id: str) -> str:
    [name] = names(session_id, "A session id")
    return name
