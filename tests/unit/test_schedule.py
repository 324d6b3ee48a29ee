"""When maintenance is due, whatever the marker and the clock say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.maintenance import MaintenanceResult, Marker
from holdfast.policy.maintenance_due import RETRY, is_due, jitter, next_due, next_run
from tests.builders import NOW

DAY = 86_400.0
MOMENTS = st.floats(min_value=0, max_value=4e9)
INTERVALS = st.floats(min_value=0.001, max_value=1e8)


@pytest.mark.parametrize(
    ("marker", "due"),
    [
        pytest.param(Marker(), True, id="never"),
        pytest.param(Marker(finished_at=NOW), False, id="just now"),
        pytest.param(Marker(finished_at=NOW - DAY + 1), False, id="a second too soon"),
        pytest.param(Marker(finished_at=NOW - DAY), True, id="on the second"),
        pytest.param(Marker(finished_at=NOW + 1), True, id="in the future"),
        pytest.param(Marker(finished_at=math.nan), True, id="no number"),
        pytest.param(Marker(finished_at=-1e300), True, id="before all time"),
        pytest.param(Marker(finished_at=NOW - RETRY + 1, ok=False), False, id="failed lately"),
        pytest.param(Marker(finished_at=NOW - RETRY, ok=False), True, id="failed a while ago"),
    ],
)
def test_due(marker: Marker, due: bool) -> None:
    assert is_due(marker, NOW, DAY) is due


def test_a_failed_run_is_not_tried_more_often_than_the_interval_says() -> None:
    assert not is_due(Marker(finished_at=NOW - 59, ok=False), NOW, 60.0)
    assert is_due(Marker(finished_at=NOW - 60, ok=False), NOW, 60.0)


@given(finished=MOMENTS, now=MOMENTS, interval=INTERVALS, ok=st.booleans())
def test_between_the_end_and_the_next_due_time_nothing_is_due(
    finished: float, now: float, interval: float, ok: bool
) -> None:
    marker = Marker(finished_at=finished, ok=ok)
    due = next_due(marker, now, interval)
    assert due >= now
    assert is_due(marker, now, interval) == (due == now)
    if finished <= now:
        assert is_due(marker, max(now, finished + interval), interval)


@given(
    runs=st.lists(st.tuples(st.sampled_from("abcdefghijkl"), MOMENTS), max_size=30),
    now=MOMENTS,
    interval=INTERVALS,
)
def test_the_marker_knows_the_last_runs_by_their_settings(
    runs: list[tuple[str, float]], now: float, interval: float
) -> None:
    marker = Marker()
    for settings, moment in runs:
        marker = Marker(finished_at=moment, done=marker.done_at(moment, settings))
        assert marker.done[settings] == moment
        assert not is_due(marker, moment, interval, settings)
        assert len(marker.done) <= 8
        assert max(marker.done.values()) == moment, "nothing lies in the future"
    assert is_due(marker, now, interval, "never used")


@given(interval=INTERVALS, share=st.floats(min_value=0, max_value=1))
def test_jitter_is_a_small_part_of_the_interval(interval: float, share: float) -> None:
    assert 0 <= jitter(interval, share) <= min(interval, 3600)
    assert jitter(interval, 0.0) == 0


def a_result(**fields: float | None) -> MaintenanceResult:
    return MaintenanceResult(home="/h", started_at=NOW, finished_at=NOW, **fields)  # type: ignore[arg-type]


def test_the_next_call_comes_once_it_is_due_and_a_little_later() -> None:
    assert next_run(a_result(next_due=NOW + DAY), 0.0) == NOW + DAY
    assert NOW + DAY < next_run(a_result(next_due=NOW + DAY), 1.0) < NOW + DAY + 3600
    assert next_run(a_result(next_due=None), 0.0) == NOW + RETRY
