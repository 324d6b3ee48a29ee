"""What grows too fast, from two looks; and how seldom anybody has to look."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from holdfast.api.growth_watch import GrowthWatch
from holdfast.model.alarm import Alarm, Writer
from holdfast.policy.growth_alarm import Grown, Room, Sizes, filling, grown

MB = 1_000_000
LIMIT = 1_000.0 * MB
#: In two seconds, at that limit.
STEP = int(LIMIT / 30)


def sizes(at: float, folders: Mapping[str, int], files: Mapping[str, int] | None = None) -> Sizes:
    return Sizes(at=at, folders=folders, files=files or {})


def found(before: Sizes, after: Sizes) -> list[tuple[str, bool]]:
    return [(each.path, each.folder) for each in grown(before, after, LIMIT)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            sizes(0, {"/h": 0, "/h/a": 5}, {"/h/a/x": 5}),
            sizes(2, {"/h": 0, "/h/a": 5 + 2 * STEP}, {"/h/a/x": 5 + 2 * STEP}),
            [("/h/a/x", False)],
            id="a file",
        ),
        pytest.param(
            sizes(0, {"/h": 0, "/h/a": 0}),
            sizes(
                2,
                {"/h": 0, "/h/a": 2 * STEP},
                {f"/h/a/{n}": STEP // 4 for n in range(8)},
            ),
            [("/h/a", True)],
            id="many files of a folder",
        ),
        pytest.param(
            sizes(0, {"/h": 0}),
            sizes(2, {"/h": 0, **{f"/h/{n}": STEP // 4 for n in range(8)}}),
            [("/h", True)],
            id="many new folders",
        ),
        pytest.param(
            sizes(0, {"/h": 9 * STEP}),
            sizes(2, {"/h": 9 * STEP}, {"/h/old": 9 * STEP}),
            [],
            id="a large file was touched",
        ),
        pytest.param(
            sizes(0, {"/h": 0, "/h/a": 9 * STEP}), sizes(2, {"/h": 0}), [], id="a folder went"
        ),
        pytest.param(
            sizes(0, {"/h": 0}), sizes(0, {"/h": 9 * STEP}), [], id="no time between the looks"
        ),
        pytest.param(sizes(0, {"/h": 0}), sizes(120, {"/h": 9 * STEP}), [], id="slowly enough"),
    ],
)
def test_what_grows(before: Sizes, after: Sizes, expected: list[tuple[str, bool]]) -> None:
    assert found(before, after) == expected


def test_a_disk_that_fills_up_is_suspicious_and_one_that_is_freed_is_not() -> None:
    full = Room(at=0.0, free={1: 9 * STEP, 2: 5})
    assert filling(full, Room(at=2.0, free={1: 8 * STEP, 2: 5}), LIMIT) == {1}
    assert not filling(full, Room(at=2.0, free={1: 10 * STEP, 2: 5}), LIMIT)
    assert not filling(full, Room(at=2.0, free={1: 9 * STEP, 3: 0}), LIMIT), "a new disk"
    assert not filling(full, Room(at=2.0, free={1: 0}), 0.0), "no limit"


class Watched:
    """A machine with one file on one disk. `pace` is how fast it grows, in bytes a second."""

    def __init__(self) -> None:
        self.at, self.size, self.free, self.pace = 1_000.0, 0.0, 1e12, 0.0
        self.looks = 0
        self.who: tuple[Writer, ...] = (Writer(pid=7, command="agent"),)

    def later(self, seconds: float) -> None:
        self.at += seconds
        self.size += self.pace * seconds
        self.free -= self.pace * seconds

    def monotonic(self) -> float:
        return self.at

    def room(self) -> Room:
        return Room(at=self.at, free={1: int(self.free)})

    def sizes(self, disks: Collection[int]) -> Sizes:
        self.looks += 1
        return Sizes(at=self.at, folders={"/h": int(self.size)}, files={"/h/f": int(self.size)})

    def writers(self, grown: Grown) -> Sequence[Writer]:
        return self.who

    def home_of(self, path: str) -> str:
        return "/h"


def told(seen: Watched, watch: GrowthWatch, seconds: float) -> list[tuple[float, Alarm]]:
    alarms = []
    for _ in range(int(seconds / 2)):
        seen.later(2.0)
        alarms += [(seen.at, each) for each in watch.look(seen.at)]
    return alarms


def test_it_is_told_within_ten_seconds_once_and_told_again_when_it_is_over() -> None:
    seen = Watched()
    watch = GrowthWatch(seen, LIMIT)
    assert told(seen, watch, 600) == []
    began, seen.pace = seen.at, 20.0 * MB
    [(at, alarm)] = told(seen, watch, 60)
    assert at - began <= 10
    assert (alarm.path, alarm.active, alarm.writers) == ("/h/f", True, seen.who)
    assert "kill 7" in alarm.message
    seen.pace = 0.0
    [(_, over)] = told(seen, watch, 120)
    assert (over.path, over.active) == ("/h/f", False)


def test_while_nothing_grows_it_hardly_ever_looks_at_files() -> None:
    seen = Watched()
    watch = GrowthWatch(seen, LIMIT)
    seen.pace = 1.0 * MB
    told(seen, watch, 3_600)
    assert seen.looks <= 2 * (3_600 / 300 + 1)


def test_growth_that_another_program_hides_is_found_by_the_regular_look() -> None:
    seen = Watched()
    watch = GrowthWatch(seen, LIMIT)
    seen.pace = 20.0 * MB
    alarms = []
    for _ in range(200):
        seen.later(2.0)
        seen.free = 1e12
        alarms += watch.look(seen.at)
    assert [each.path for each in alarms if each.active] == ["/h/f"]


def test_without_a_limit_it_does_not_look() -> None:
    seen = Watched()
    assert told(seen, GrowthWatch(seen, 0.0), 60) == []
    assert seen.looks == 0
