"""What undo can still bring back, and the log of what was done."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence

from holdfast.api.arguments import OperationRef, operation_id
from holdfast.api.place import Place
from holdfast.api.plan import HomePlan, applied
from holdfast.errors import UsageError
from holdfast.model.argument_checks import called, checked
from holdfast.model.arguments import several
from holdfast.model.durations import Moment, moment
from holdfast.model.operation import LogView, Operation, TrashEntry
from holdfast.policy.rules import DAY
from holdfast.spine.empty_trash import plan_empty
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Trashed:
    """What one operation put into the trash, and when it may be removed for good."""

    operation: str
    command: str
    entries: Sequence[TrashEntry]
    expires_at: float

    @property
    def removed_at(self) -> float:
        return self.entries[0].removed_at

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.entries)


@called("home.trash")
@checked
class Trash:
    """What undo can still bring back."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def list(self) -> builtins.list[TrashEntry]:
        """Everything in the trash, the oldest first."""
        return [*self._place.home.log.read().trash]

    def by_operation(self) -> builtins.list[Trashed]:
        """The same, grouped by the operation that removed it, the oldest first."""
        log = self._place.home.log.read()
        commands = {each.id: each.command for each in log.operations}
        groups: dict[str, builtins.list[TrashEntry]] = {}
        for entry in log.trash:
            groups.setdefault(entry.removal.operation, []).append(entry)
        return [
            Trashed(
                operation=operation,
                command=commands.get(operation, ""),
                entries=entries,
                expires_at=self.expires_at(entries[0]),
            )
            for operation, entries in groups.items()
        ]

    def expires_at(self, entry: TrashEntry) -> float:
        """The time from which a prune or maintenance may remove it for good."""
        return entry.removed_at + self._place.settings.trash_days * DAY

    def plan_empty(
        self,
        operations: OperationRef | Iterable[OperationRef] = (),
        *,
        older_than: Moment | None = None,
    ) -> HomePlan:
        """Plan to empty the trash of these operations, or of all. This cannot be undone."""
        place, now = self._place, self._place.clock()
        plan = plan_empty(
            place.home,
            now=now,
            command=place.command("trash.empty"),
            operations=[operation_id(each) for each in several(operations)],
            before=None if older_than is None else moment(older_than, now, "older_than"),
        )
        return HomePlan(place=place, home=place.home, plan=plan)

    empty = applied(plan_empty)


@called("home.log")
@checked
class Log:
    """What was done to a home, operation by operation."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def read(self) -> LogView:
        """The whole log as it is now, with what can be undone."""
        return self._place.home.log.read()

    def list(self, *, limit: int | None = None) -> builtins.list[Operation]:
        """The operations, the latest first."""
        return [*self.read().operations[::-1][:limit]]

    def get(self, operation: OperationRef) -> Operation:
        """One operation, by its number."""
        number = operation_id(operation)
        for each in self.read().operations:
            if each.id == number:
                return each
        raise UsageError(
            f"There is no operation {number!r} in this home.", hint="`holdfast log` lists them."
        )
