"""Facts about stored sessions for plans and reports, whatever the store: signs of life, items, and
sums over the classes of sessions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from holdfast.model.item import SESSION, Item
from holdfast.model.session import Relation, session_version
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Share, StoreStats
from holdfast.policy.lifecycle import LeaseCount, SessionLife, session_life
from holdfast.value import dataclass

#: The bytes of a session besides its messages: its row and its entries in indexes.
ROW_WEIGHT = 512
_DEAD = SessionLife()
#: A process that holds or held a session, and whether it released the lease.
Held = tuple[Holder, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeSigns:
    """Judges whether a session is alive."""

    is_dead: Callable[[Holder], bool]
    abandoned_after: float

    def judge(self, *, ended: bool, idle: float, leases: Collection[Held]) -> SessionLife:
        if ended and not leases:  # like most sessions: ended, and without a lease
            return _DEAD
        living = [released for holder, released in leases if not self.is_dead(holder)]
        return session_life(
            ended=ended,
            idle=idle,
            leases=LeaseCount(all=len(leases), living=len(living), held=len(living) - sum(living)),
            abandoned_after=self.abandoned_after,
        )


@dataclass(frozen=True, slots=True)
class Owner:
    """The facts about a session that its files need. `session` is its id if the names of its files
    do not contain it."""

    ended: bool
    source: str
    session: str = ""


def item_of(
    row: tuple[Any, ...],
    share: float,
    leases: Mapping[int, list[Held]],
    sources: dict[str, str],
    now: float,
    life: LifeSigns,
) -> Item:
    number, name, source, size, active, messages, ended, *texts, pinned, parent, relation = row
    title, cwd, model = texts
    lives = life.judge(ended=ended is not None, idle=now - active, leases=leases.get(number, ()))
    return Item(
        kind=SESSION,
        id=name,
        source=sources.setdefault(source, source),
        session=name,
        bytes=round((size + ROW_WEIGHT) * share),
        last_active_at=active,
        version=session_version(messages, active, ended, pinned, (title, cwd, model)),
        pinned=bool(pinned),
        alive=lives.alive,
        abandoned=lives.abandoned,
        messages=messages,
        titled=title is not None,
        parent=parent or "",
        delegate=relation == Relation.DELEGATE,
    )


#: Class names with their bounds, in rising order.
Classes = Sequence[tuple[str, float]]
#: Classes by number of messages: a name, and the largest number.
SIZES: Classes = (
    ("empty", 0),
    ("1 to 5", 5),
    ("6 to 20", 20),
    ("21 to 100", 100),
    ("101 to 1,000", 1_000),
    ("more", float("inf")),
)
#: Classes by average message size: a name, and an exclusive limit in bytes.
AVERAGES: Classes = (
    ("empty", 1),
    ("< 1 kB", 1_000),
    ("< 10 kB", 10_000),
    ("< 100 kB", 100_000),
    ("< 1 MB", 1_000_000),
    ("larger", float("inf")),
)


@dataclass(frozen=True, slots=True)
class Group:
    """Sessions that are in the same class in every respect: one row of a query. `classes` combines
    their positions in the lists of classes."""

    classes: int
    count: int
    ended: int
    messages: int
    tokens: int
    cost: float
    bytes: int

    @property
    def average(self) -> int:
        return self.classes % len(AVERAGES)

    @property
    def size(self) -> int:
        return self.classes // len(AVERAGES) % len(SIZES)

    @property
    def age(self) -> int:
        return self.classes // len(AVERAGES) // len(SIZES)


def summed(groups: Sequence[Group], ages: Classes, by_source: tuple[Share, ...]) -> StoreStats:
    """The statistics of a store from groups of its sessions, without those of its files."""
    sessions = sum(group.count for group in groups)
    return StoreStats(
        sessions=sessions,
        open_sessions=sessions - sum(group.ended for group in groups),
        messages=sum(group.messages for group in groups),
        tokens=sum(group.tokens for group in groups),
        cost=sum(group.cost for group in groups),
        message_bytes=sum(group.bytes for group in groups),
        database_bytes=0,
        free_bytes=0,
        wal_bytes=0,
        by_source=by_source,
        by_age=by_class(groups, ages, lambda group: group.age),
        by_size=by_class(groups, SIZES, lambda group: group.size),
        by_average_message=by_class(groups, AVERAGES, lambda group: group.average),
    )


def class_of(below: str, classes: Classes) -> str:
    """SQL for the position of the first class whose bound is met; if none is, of the last class."""
    cases = " ".join(f"WHEN {below} THEN {place}" for place in range(len(classes)))
    return f"CASE {cases} ELSE {len(classes) - 1} END"


def by_class(
    groups: Sequence[Group], classes: Classes, place: Callable[[Group], int]
) -> tuple[Share, ...]:
    """The share of every class, including empty ones: a gap is informative."""
    return tuple(
        Share(
            name=name,
            count=sum(group.count for group in groups if place(group) == number),
            bytes=sum(group.bytes for group in groups if place(group) == number),
        )
        for number, (name, _) in enumerate(classes)
    )
