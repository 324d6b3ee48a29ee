"""The disks that homes are on, and the order of work when one of them is nearly full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import HoldfastError
from holdfast.stores.disk import disk_room
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.plan import HomePlan
    from holdfast.model.figures import DiskRoom

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk with homes on it, which have these labels."""

    room: DiskRoom
    labels: Sequence[str]


def disks_of(homes: Iterable[AgentHome]) -> Sequence[Disk]:
    """The disks as they are now, the one with the least room first. This takes microseconds."""
    labels: dict[int, list[str]] = {}
    rooms: dict[int, DiskRoom] = {}
    for home in homes:
        with suppress(OSError):
            number = home.path.stat().st_dev
            room = disk_room(home.path)
            if room is not None:
                rooms[number] = room
                labels.setdefault(number, []).append(home.label)
    disks = [Disk(room=room, labels=labels[number]) for number, room in rooms.items()]
    return sorted(disks, key=lambda each: each.room.free)


def most_room_first(plans: Iterable[tuple[_T, HomePlan]]) -> Sequence[tuple[_T, HomePlan]]:
    """Plans for several homes in the order in which they fit on a full disk: what frees most for
    the shortest log comes first, and makes room for the logs of the others. Plans that free nothing
    at once stay as they were, behind them."""
    return sorted(plans, key=lambda each: -_freed_by_step(each[1]))


def in_order_of_room(
    homes: Sequence[AgentHome], plan: Callable[[AgentHome], HomePlan]
) -> Sequence[AgentHome]:
    """See `Machine.in_order_of_room`."""
    if not any(each.room.is_nearly_full for each in disks_of(homes)):
        return homes
    plans: list[tuple[AgentHome, HomePlan]] = []
    for home in homes:
        with suppress(HoldfastError):  # its error is reported in its turn, after the others
            plans.append((home, plan(home)))
    first = [home for home, _ in most_room_first(plans)]
    return [*first, *(each for each in homes if each not in first)]


def _freed_by_step(planned: HomePlan) -> float:
    steps = planned.plan.steps
    freed = sum(each.bytes for each in steps if not each.undoable)
    return freed / len(steps) if steps else 0.0
