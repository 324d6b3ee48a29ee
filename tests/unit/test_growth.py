"""How homes grew: the pace, the day on which the disk is full, and what is too little to say so."""

from __future__ import annotations

import pytest

from holdfast.model.figures import Growth, HomeFigures
from holdfast.policy.growth import growth, together
from holdfast.policy.rules import DAY
from tests.builders import NOW

GB = 10**9


def days(
    *sizes: int, free: int | None = 100 * GB, disk: int | None = 500 * GB, until: float = NOW
) -> list[HomeFigures]:
    """One look a day, the last one `until`."""
    first = until - (len(sizes) - 1) * DAY
    return [
        HomeFigures(at=first + place * DAY, bytes=size, disk_free=free, disk_size=disk)
        for place, size in enumerate(sizes)
    ]


def grown(*sizes: int, **fields: object) -> Growth:
    return growth(days(*sizes, **fields), NOW)  # type: ignore[arg-type]


def test_a_steady_pace_says_when_the_disk_is_full() -> None:
    seen = grown(*(number * GB for number in range(1, 12)))
    assert seen.bytes_per_day == GB
    assert seen.over_days == 10
    assert seen.full_in_days == 100
    assert [point.bytes for point in seen.points] == [n * GB for n in range(1, 12)]


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        pytest.param((), "nothing", id="no look"),
        pytest.param((GB,), "one look", id="one"),
        pytest.param((GB, 2 * GB), "two days", id="two days"),
    ],
)
def test_too_little_is_not_a_pace(sizes: tuple[int, ...], why: str) -> None:
    seen = grown(*sizes)
    assert (seen.bytes_per_day, seen.full_in_days) == (None, None), why


def test_many_looks_of_one_day_are_one_point() -> None:
    """A watcher that looked all day knows no more about a week than one look does."""
    start = NOW // DAY * DAY
    looks = [HomeFigures(at=start + minute * 60, bytes=minute * GB) for minute in range(60)]
    seen = growth(looks, start + DAY - 1)
    assert [point.bytes for point in seen.points] == [59 * GB]
    assert seen.bytes_per_day is None


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((5, 5, 5, 5), id="still"),
        pytest.param((5, 4, 3, 2), id="shrinking"),
    ],
)
def test_what_does_not_grow_fills_no_disk(sizes: tuple[int, ...]) -> None:
    assert grown(*(each * GB for each in sizes)).full_in_days is None


def test_one_prune_does_not_turn_the_pace_around() -> None:
    seen = grown(*(each * GB for each in (1, 2, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6, 7, 8)))
    assert seen.bytes_per_day is not None
    assert 0.3 * GB < seen.bytes_per_day <= GB


def test_a_disk_that_lasts_for_ages_is_not_worth_a_date() -> None:
    assert grown(1000, 2000, 3000, 4000, free=10**13).full_in_days is None


def test_where_nothing_is_known_of_the_disk_nothing_is_said() -> None:
    seen = grown(GB, 2 * GB, 3 * GB, 4 * GB, free=None)
    assert (seen.bytes_per_day, seen.full_in_days) == (GB, None)


def test_looks_from_the_future_are_left_out() -> None:
    """A clock that ran ahead for a while must not spoil the trend."""
    wrong = HomeFigures(at=NOW + 400 * DAY, bytes=900 * GB)
    assert growth([*days(GB, 2 * GB, 3 * GB), wrong], NOW) == grown(GB, 2 * GB, 3 * GB)


def test_only_the_last_weeks_count() -> None:
    seen = grown(*([GB] * 60), *(each * GB for each in range(1, 29)))
    assert len(seen.points) == 28
    assert seen.bytes_per_day == GB


# --- Several homes --------------------------------------------------------------------------------


def test_homes_of_one_disk_fill_it_together() -> None:
    one, other = grown(GB, 2 * GB, 3 * GB, 4 * GB), grown(GB, 4 * GB, 7 * GB, 10 * GB)
    added = together([one, other])
    assert added.bytes_per_day == 4 * GB
    assert added.full_in_days == 25
    assert added.latest is not None
    assert added.latest.bytes == 14 * GB


def test_of_two_disks_the_one_counts_that_is_full_first() -> None:
    slow = grown(GB, 2 * GB, 3 * GB, 4 * GB, free=10 * GB, disk=50 * GB)
    quick = grown(GB, 4 * GB, 7 * GB, 10 * GB, free=300 * GB, disk=900 * GB)
    added = together([slow, quick])
    assert (added.full_in_days, added.disk_free) == (10, 10 * GB)


def test_a_home_that_somebody_saw_late_did_not_grow_from_nothing() -> None:
    old, new = grown(*([GB] * 10)), grown(50 * GB)
    added = together([old, new])
    assert added.bytes_per_day == 0
    assert added.points[0].bytes == 51 * GB


def test_a_home_that_was_not_looked_at_for_days_counts_as_it_was() -> None:
    quiet = growth(days(GB, GB, GB, until=NOW - 5 * DAY), NOW)
    added = together([quiet, grown(*(each * GB for each in range(1, 9)))])
    assert added.points[-1].bytes == 9 * GB
    assert added.latest is not None
    assert added.latest.at == NOW - 5 * DAY  # as old as the oldest of its figures


def test_a_home_that_nobody_looked_at_for_weeks_is_still_there() -> None:
    """It has no points any more; its bytes are on the disk all the same."""
    forgotten = growth(days(GB, GB, GB, until=NOW - 60 * DAY), NOW)
    assert forgotten.points == ()
    alone = together([forgotten])
    assert alone.latest is not None
    assert (alone.latest.bytes, alone.bytes_per_day, alone.full_in_days) == (GB, None, None)
    added = together([forgotten, grown(GB, 2 * GB, 3 * GB, 4 * GB)])
    assert [point.bytes for point in added.points] == [2 * GB, 3 * GB, 4 * GB, 5 * GB]
    assert added.full_in_days == 100


def test_without_homes_nothing_is_known() -> None:
    assert together([]) == Growth()
    assert together([Growth()]) == Growth()
