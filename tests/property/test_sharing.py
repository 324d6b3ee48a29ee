"""How a budget is shared, for any pots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.policy.shared_budget import Budget, Pot, after, is_over, level, shares

SIZES = st.lists(st.integers(0, 10**12), min_size=1, max_size=12)
POTS = st.lists(
    st.builds(Pot, kept=st.integers(0, 10**12), trash=st.integers(0, 10**12)),
    min_size=1,
    max_size=12,
)


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    limit = draw(st.integers(1, 10**13))
    high, low = draw(st.integers(1, 100)), draw(st.integers(1, 100))
    return Budget.of(limit, high_percent=high, low_percent=low)


@given(SIZES, st.integers(0, 10**13))
def test_a_level_fits_and_a_higher_one_would_not(sizes: list[int], room: int) -> None:
    found = level(sizes, room)
    assert sum(min(each, found) for each in sizes) <= room or found == 0
    if found < max(sizes):
        assert sum(min(each, found + 1) for each in sizes) > room


@given(budgets(), POTS)
def test_what_stays_fits_and_nobody_gives_more_than_needed(budget: Budget, pots: list[Pot]) -> None:
    given_shares = shares(budget, pots, begun=True)
    left = [after(pot, share) for pot, share in zip(pots, given_shares, strict=True)]
    assert sum(each.kept for each in left) <= budget.low
    assert sum(each.bytes for each in left) <= budget.limit
    most = max(each.kept for each in left)
    for before, now, share in zip(pots, left, given_shares, strict=True):
        assert now.kept <= before.kept
        assert now.kept == before.kept or now.kept >= most - 1, "only those above the level give"
        if not share.gives:
            assert now == before
    if sum(each.kept for each in pots) <= budget.low:
        assert all(share.kept is None for share in given_shares), "the trash goes first"
    if sum(each.bytes for each in pots) <= budget.limit:
        assert all(share.bytes is None for share in given_shares), "what fits can be undone"


@given(POTS)
def test_no_budget_and_a_budget_of_nothing_are_never_exceeded(pots: list[Pot]) -> None:
    assert not is_over(None, pots)
    assert not is_over(Budget(limit=0, high=0, low=0), pots)


@given(budgets(), POTS)
def test_room_is_made_from_the_high_mark_on(budget: Budget, pots: list[Pot]) -> None:
    kept, every = sum(each.kept for each in pots), sum(each.bytes for each in pots)
    assert is_over(budget, pots) == (kept > budget.high or every > budget.limit)
    if kept <= budget.high:
        assert all(each.kept is None for each in shares(budget, pots))
    left = [after(p, s) for p, s in zip(pots, shares(budget, pots), strict=True)]
    assert not is_over(budget, left)
    assert not any(each.gives for each in shares(budget, left)), "once is enough"
