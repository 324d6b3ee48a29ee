"""Growth holds for every history: clocks that jumped, homes that shrank, disks nobody knows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.figures import Growth, HomeFigures
from holdfast.policy.growth import DAYS, growth, together
from holdfast.policy.rules import DAY
from holdfast.stores.figures_file import thinned

NOW = 1_800_000_000.0
SIZES = st.integers(0, 2**53 - 1)
LOOKS = st.builds(
    HomeFigures,
    at=st.floats(0, 2 * NOW) | st.floats(NOW - 40 * DAY, NOW + DAY),
    bytes=SIZES,
    disk_free=st.none() | SIZES,
    disk_size=st.none() | st.sampled_from([1, 10**12]),
    maintained_at=st.none() | st.floats(0, NOW),
    maintenance_ok=st.none() | st.booleans(),
)
HISTORIES = st.lists(LOOKS, max_size=12)


def check(made: Growth) -> None:
    ats = [each.at for each in made.points]
    assert ats == sorted(ats)
    assert len({int(at // DAY) for at in ats}) == len(ats) <= DAYS + 1
    assert all(NOW - DAYS * DAY < at <= NOW for at in ats)
    assert made.full_in_days is None or made.full_in_days >= 0
    if made.full_in_days is not None:
        assert made.disk_free is not None
    if made.bytes_per_day is not None:
        assert len(made.points) >= 3


@given(HISTORIES)
def test_one_home(looks: list[HomeFigures]) -> None:
    made = growth(looks, NOW)
    check(made)
    known = [each for each in looks if each.at <= NOW]
    assert (made.latest is None) is (not known)
    assert made.latest is None or made.latest.at == max(each.at for each in known)


@given(st.lists(HISTORIES, max_size=5))
def test_several_homes(histories: list[list[HomeFigures]]) -> None:
    homes = [growth(each, NOW) for each in histories]
    made = together(homes)
    check(made)
    latest = [each.latest for each in homes if each.latest is not None]
    assert (made.latest is None) is (not latest)
    if made.latest is not None:
        assert made.latest.bytes == sum(each.bytes for each in latest)
        assert made.latest.at == min(each.at for each in latest)


@given(st.lists(LOOKS, max_size=60))
def test_thinning_keeps_the_latest_and_invents_nothing(looks: list[HomeFigures]) -> None:
    kept = thinned(looks)
    assert all(each in looks for each in kept)
    assert len(kept) <= 48 + 90 + 104 + 1
    assert not looks or max(kept, key=lambda each: each.at).at == max(each.at for each in looks)
    assert list(thinned(kept)) == list(kept)
