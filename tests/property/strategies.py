"""Random inventories and policies: small, so that ties, groups and caps meet often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from holdfast.model.item import REQUEST_DUMP, SESSION, TRANSCRIPT, TRASH, Inventory, Item
from holdfast.policy.lifecycle import NOT_ENDED
from holdfast.policy.rules import DAY, Caps, GcRules, Limits, Policy, Rules
from tests.builders import NOW, a_file_of, a_space_item, an_inventory, moment

HOUR = 3_600.0
SOURCES = ("cli", "cron", "unknown")
KINDS = (TRANSCRIPT, REQUEST_DUMP)

# Few moments, so that many items share one; edges of calendar buckets; a lived-in past.
TIES = st.sampled_from([NOW, NOW - HOUR, NOW - DAY, NOW - 7 * DAY])
EDGES = st.sampled_from(
    [
        moment(text) + seconds
        for text in ("2026-03-25", "2026-03-23", "2026-03-01", "2025-01-01", "2024-12-30")
        for seconds in (-1.0, 0.0)
    ]
)
PAST = st.builds(
    lambda count, unit: NOW - count * unit,
    st.integers(0, 40),
    st.sampled_from([60.0, HOUR, DAY, 30 * DAY]),
)
FUTURE = st.integers(1, 400).map(lambda days: NOW + days * DAY)
#: The first and the last second of the calendar, the seconds beside it, the ends of a 64-bit clock.
ABSURD = st.sampled_from(
    [
        -(2.0**63),
        moment("0001-01-01") - 1,
        moment("0001-01-01"),
        0.0,
        moment("9999-12-31T23:59:59"),
        moment("9999-12-31T23:59:59") + 1,
        2.0**63,
    ]
)
CALENDAR = st.one_of(EDGES, PAST)
MOMENTS = st.one_of(TIES, CALENDAR, PAST, FUTURE, ABSURD)
SIZES = st.one_of(st.sampled_from([0, 10, 10, 100]), st.integers(1, 100), st.integers(0, 2**50))

#: What `os.listdir` gives for names in any encoding: bytes that are no UTF-8 come as surrogates.
NAMES = st.text(alphabet="ab_.-\n é\U0001f41a\udc80\udcff", min_size=1, max_size=4)


def items(**fields: SearchStrategy[Any]) -> SearchStrategy[Item]:
    """Items, some of them protected; a field that is given replaces the one here. Most are of one
    kind and source, so that groups are worth the name."""
    drawn: dict[str, SearchStrategy[Any]] = {
        "kind": st.sampled_from([*KINDS[:1] * 3, *KINDS]),
        "id": NAMES,
        "source": st.sampled_from([*SOURCES[:1] * 3, *SOURCES]),
        "session": st.sampled_from(["", "s1", "s2"]),
        "bytes": SIZES,
        "last_active_at": MOMENTS,
        "version": st.sampled_from(["v1", "v2"]),
        "pinned": st.sampled_from([False, False, False, False, True]),
        "alive": st.sampled_from([None, None, None, None, "touched 3 min ago"]),
    }
    return st.builds(Item, **(drawn | fields))


def several(each: SearchStrategy[Item], *, most: int = 14) -> SearchStrategy[list[Item]]:
    return st.lists(each, max_size=most, unique_by=lambda item: (item.kind, item.id))


#: Nothing but the rules says what becomes of these.
UNPROTECTED: dict[str, SearchStrategy[Any]] = {"pinned": st.just(False), "alive": st.just(None)}


@st.composite
def inventories(draw: st.DrawFn, /, **fields: SearchStrategy[Any]) -> Inventory:
    """Items and trash; a field that is given is drawn so for both."""
    trash = items(**(UNPROTECTED | fields | {"kind": st.just(TRASH)}))
    return an_inventory(*draw(several(items(**fields))), trash=draw(several(trash, most=6)))


AGES = st.sampled_from([None, 0.0, HOUR, DAY, 7 * DAY, 90 * DAY])
KEEP_COUNTS = st.one_of(st.just(0), st.integers(0, 4))
#: What a keep rule may be set to; each of these keeps at least the newest.
KEEP_RULES: dict[str, SearchStrategy[Any]] = {
    "keep_within": AGES.filter(lambda age: age is not None).map(lambda age: age or 0.0),
    **{
        f"keep_{name}": st.integers(1, 4)
        for name in ("last", "hourly", "daily", "weekly", "monthly", "yearly")
    },
}
RULES = st.builds(
    Rules,
    max_age=AGES,
    keep_last=KEEP_COUNTS,
    keep_within=AGES,
    keep_hourly=KEEP_COUNTS,
    keep_daily=KEEP_COUNTS,
    keep_weekly=KEEP_COUNTS,
    keep_monthly=KEEP_COUNTS,
    keep_yearly=KEEP_COUNTS,
)
#: One rule alone, which no other can cover up for, or many.
SET_RULES = st.one_of(
    RULES.filter(lambda rules: not rules.empty),
    *(st.builds(Rules, **{name: value}) for name, value in KEEP_RULES.items()),
)
CAPS = st.builds(
    Caps,
    max_bytes=st.none() | st.integers(0, 600),
    max_count=st.none() | st.integers(0, 8),
)
LIMITS = st.builds(Limits, rules=st.one_of(st.just(Rules()), RULES), caps=CAPS | st.just(Caps()))
PINS = st.lists(
    st.sampled_from(["s1", "s2", "a*", "?_", "[ab]", "*\udc80", "", "["]), max_size=2
).map(tuple)


def policies(*, empty: bool = False, **fields: SearchStrategy[Any]) -> SearchStrategy[Policy]:
    """Policies with every knob; a field that is given replaces its knob. `empty` lets those
    pass that have no rule and no cap."""
    knobs: dict[str, SearchStrategy[Any]] = {
        "everywhere": LIMITS,
        "by_source": st.dictionaries(st.sampled_from([*SOURCES, "nobody"]), LIMITS, max_size=3),
        "pins": st.one_of(st.just(()), PINS),
        "trash_age": AGES,
        "use_trash": st.booleans(),
    }
    drawn = st.builds(Policy, **(knobs | fields))
    return drawn if empty else drawn.filter(lambda policy: not policy.empty)


# --- Stored sessions ------------------------------------------------------------------------------

#: Few, so that parents are often there; loops are nonsense, and must not hang anything.
SESSION_IDS = tuple(f"s{n}" for n in range(8))
RARELY = st.sampled_from([False, False, False, False, True])
SESSION_PINS = st.lists(
    st.sampled_from(["s1", "s[23]", "sessions/s4*", "sessions/*1.json", "a*"]), max_size=2
).map(tuple)


def session_items(**fields: SearchStrategy[Any]) -> SearchStrategy[Item]:
    """Sessions of every lineage; a field that is given replaces the one here."""
    drawn: dict[str, SearchStrategy[Any]] = {
        "id": st.sampled_from(SESSION_IDS),
        "kind": st.just(SESSION),
        "messages": st.one_of(st.integers(0, 7), st.sampled_from([None, 0, 5, 6, 400])),
        "titled": RARELY,
        "parent": st.sampled_from(["", "elsewhere", *SESSION_IDS]),
        "delegate": st.booleans(),
        "abandoned": st.sampled_from([None, None, None, "its process is gone"]),
    }
    return items(**(drawn | fields)).map(_named_after_itself)


def _named_after_itself(item: Item) -> Item:
    alive = item.alive if item.abandoned is None else (item.alive or NOT_ENDED)
    delegate = item.delegate and item.parent != ""
    return replace(item, session=item.id, delegate=delegate, alive=alive)


@st.composite
def files_of(draw: st.DrawFn, sessions: list[Item]) -> list[Item]:
    """Up to two files a session, and some of sessions that were not selected."""
    owners = [*sessions, *draw(st.lists(session_items(id=st.just("filtered")), max_size=1))]
    return [
        a_file_of(
            owner.id,
            f"sessions/{owner.id}.{number}.json",
            kind=draw(st.sampled_from(KINDS)),
            source=owner.source,
            bytes=draw(SIZES),
            last_active_at=draw(MOMENTS),
            pinned=draw(RARELY),
            alive=draw(st.sampled_from([None] * 9 + ["open in another process"])),
        )
        for owner in owners
        for number in range(draw(st.integers(0, 2)))
    ]


@st.composite
def stored_inventories(draw: st.DrawFn, /, **fields: SearchStrategy[Any]) -> Inventory:
    """Sessions with their files, orphans, trash, and space; fields are those of sessions."""
    sessions = draw(several(session_items(**fields), most=8))
    owned = draw(files_of(sessions))
    orphans = draw(several(items(), most=3))
    scanned = draw(st.permutations([*sessions, *owned, *orphans]))
    trash = items(**(UNPROTECTED | {"kind": st.just(TRASH)}))
    sizes = st.lists(st.sampled_from([0, 1_048_575, 1_048_576]), max_size=1)
    free = [a_space_item(bytes=size) for size in draw(sizes)]
    return an_inventory(*scanned, trash=draw(several(trash, most=3)), space=free)


def families() -> SearchStrategy[Inventory]:
    """Few parents, many delegates, most of them of the size where trivial ends."""
    return stored_inventories(
        **UNPROTECTED,
        source=st.sampled_from(SOURCES),
        parent=st.sampled_from(["", "s0", "s1", "s2"]),
        delegate=st.sampled_from([True, True, False]),
        messages=st.integers(0, 3),
        abandoned=st.none(),
        bytes=st.sampled_from([0, 10, 100]),
        last_active_at=st.integers(0, 100).map(lambda days: NOW - days * DAY),
    )


def session_policies(**fields: SearchStrategy[Any]) -> SearchStrategy[Policy]:
    knobs = {"pins": st.one_of(st.just(()), SESSION_PINS), "trivial_max": st.integers(0, 6)}
    return policies(**(knobs | fields))


GC_RULES = st.builds(
    GcRules,
    empty_after=st.sampled_from([0.0, HOUR, DAY]),
    trivial_after=st.sampled_from([0.0, HOUR, 7 * DAY]),
    trivial_max=st.integers(0, 6),
    keep_titled=st.booleans(),
)
