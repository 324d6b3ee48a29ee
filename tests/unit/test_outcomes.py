"""The table of outcomes, over everything that a mover can see: no verdict loses the only copy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from holdfast.model.report import Presence, Result
from holdfast.spine import outcomes
from holdfast.spine.outcomes import Step, Verdict, judge_interrupted, judge_removal, judge_return

EVERYTHING = [
    Presence(
        here=here,
        copied=copied,
        partly=partly,
        ours=ours,
        changed=changed,
        obstacle=obstacle,
        taken=taken,
        in_the_way=in_the_way,
        damage=damage,
    )
    for here, copied, partly, ours, changed, obstacle, taken, in_the_way, damage in product(
        (True, False, None),
        (True, False),
        (True, False),
        (True, False),
        (True, False),
        ("", "it is alive"),
        (True, False),
        ("", "another session has its id"),
        ("", "its copy was changed"),
    )
]


def is_free_to_go(seen: Presence) -> bool:
    return bool(seen.here) and seen.ours and not (seen.changed or seen.obstacle)


@pytest.mark.parametrize("judge", [judge_removal, judge_return])
def test_what_nobody_can_look_at_stays_as_it_is(judge: Callable[[Presence], Verdict]) -> None:
    for seen in EVERYTHING:
        if seen.here is None:
            verdict = judge(seen)
            assert (verdict.step, verdict.result) == (Step.NOTHING, Result.FAILED)


@pytest.mark.parametrize("undoable", [True, False])
def test_after_a_kill_what_nobody_can_look_at_stays_pending(undoable: bool) -> None:
    for seen in EVERYTHING:
        verdict = judge_interrupted(seen, undoable=undoable)
        assert (verdict.result is Result.PENDING) == (seen.here is None and seen.ours)
        if seen.here is None:
            assert verdict.step is Step.NOTHING


def test_only_what_is_there_unchanged_and_dead_goes() -> None:
    for seen in EVERYTHING:
        verdict = judge_removal(seen)
        goes = is_free_to_go(seen) and not (seen.copied or seen.taken)
        assert (verdict.step is Step.GO) == goes
        if verdict.result is Result.REMOVED:
            assert goes or seen.copied
        else:
            assert verdict.reason


@pytest.mark.parametrize("undoable", [True, False])
def test_after_a_kill_the_only_copy_is_never_discarded(undoable: bool) -> None:
    for seen in EVERYTHING:
        verdict = judge_interrupted(seen, undoable=undoable)
        if verdict.step is Step.DISCARD:
            assert seen.here
            assert seen.ours
            assert verdict.result is Result.SKIPPED
        if verdict.step is Step.FINISH:
            assert seen.partly
            assert not seen.obstacle
        if verdict.result is Result.REMOVED and undoable:
            assert seen.copied or verdict.step is Step.FINISH
        if verdict.result is not Result.REMOVED:
            assert verdict.reason


def test_undo_says_back_only_of_what_is_back() -> None:
    for seen in EVERYTHING:
        verdict = judge_return(seen)
        assert verdict.step in (Step.NOTHING, Step.PUT_BACK)
        if verdict.result is Result.BROUGHT_BACK and verdict.step is Step.NOTHING:
            assert seen.here
            assert seen.ours
            assert not seen.changed
        if verdict.step is Step.PUT_BACK:
            assert seen.copied
            assert not seen.damage
            assert seen.partly or not seen.here or (seen.ours and not seen.changed)


@pytest.mark.parametrize(
    ("seen", "removed", "settled", "returned"),
    [
        (
            Presence(here=True),
            (Result.REMOVED, ""),
            (Result.SKIPPED, outcomes.NOT_REACHED),
            (Result.BROUGHT_BACK, ""),
        ),
        (
            Presence(here=True, changed=True),
            (Result.SKIPPED, outcomes.CHANGED),
            (Result.SKIPPED, outcomes.NOT_REACHED),
            (Result.DAMAGED, outcomes.COPY_MISSING),
        ),
        (
            Presence(here=True, copied=True),
            (Result.FAILED, outcomes.TRASH_TAKEN),
            (Result.SKIPPED, outcomes.NOT_REACHED),
            (Result.BROUGHT_BACK, ""),
        ),
        (
            Presence(here=True, copied=True, changed=True),
            (Result.SKIPPED, outcomes.CHANGED),
            (Result.SKIPPED, outcomes.NOT_REACHED),
            (Result.FAILED, outcomes.PLACE_TAKEN),
        ),
        (
            Presence(here=True, copied=True, ours=False),
            (Result.SKIPPED, outcomes.CHANGED),
            (Result.REMOVED, ""),
            (Result.FAILED, outcomes.PLACE_TAKEN),
        ),
        (
            Presence(here=True, copied=True, damage="damaged"),
            (Result.FAILED, outcomes.TRASH_TAKEN),
            (Result.SKIPPED, outcomes.NOT_REACHED),
            (Result.DAMAGED, "damaged"),
        ),
        (
            Presence(here=True, copied=True, ours=False, damage=outcomes.REPLACED),
            (Result.SKIPPED, outcomes.CHANGED),
            (Result.DAMAGED, outcomes.REPLACED),
            (Result.DAMAGED, outcomes.REPLACED),
        ),
        (
            Presence(here=False, copied=True),
            (Result.REMOVED, ""),
            (Result.REMOVED, ""),
            (Result.BROUGHT_BACK, ""),
        ),
        (
            Presence(here=False),
            (Result.SKIPPED, outcomes.ALREADY_GONE),
            (Result.FAILED, outcomes.GONE_OTHERWISE),
            (Result.DAMAGED, outcomes.COPY_MISSING),
        ),
    ],
)
def test_the_table(
    seen: Presence,
    removed: tuple[Result, str],
    settled: tuple[Result, str],
    returned: tuple[Result, str],
) -> None:
    """Each row as a person reads it."""
    verdicts = (judge_removal(seen), judge_interrupted(seen, undoable=True), judge_return(seen))
    assert [(each.result, each.reason) for each in verdicts] == [removed, settled, returned]
