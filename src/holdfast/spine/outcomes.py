"""The table of outcomes: from what was seen of an item and what was requested, to what happens.

Everything that leaves a home and can come back is judged here: files, sessions, checkpoints,
bundles of the archive, units of several parts. The sentences that users read about it are written
only here. The functions are pure: a mover looks, this table decides, the mover acts.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache

from holdfast.model.report import IN_PLACE, Presence, Result
from holdfast.value import dataclass

ALREADY_GONE = "already gone"
#: For a file that was to go with its session.
OWNER_GONE = "its session is already gone"
CHANGED = "changed since the plan was made"
TRASH_TAKEN = "its place in the trash is taken"
NOT_REACHED = "the run ended before it was reached"
GONE_OTHERWISE = "missing, but Holdfast did not remove it"
COPY_WAS_GONE = "its copy in the trash was already gone"
COPY_MISSING = "its copy is no longer in the trash"
TAKEN = "something else is in its place"
PLACE_TAKEN = f"{TAKEN}; the copy stays in the trash"
REPLACED = "a newer one is in its place; both are kept"
UNSEEN = "it cannot be inspected now"
BUNDLE_MISSING = "its bundle is no longer in the archive"
#: The reason of a session in the archive whose id the imported one has.
BY_AN_IMPORT = "replaced by an import"
CHANGED_MEANWHILE = "changed while it was archived"
NO_SESSION_STORE = "there is no session store in this home"
NO_CHECKPOINT_STORE = "there is no checkpoint store in this home"


def copy_changed(where: object) -> str:
    return f"its copy in the trash was changed: {where}"


class Step(Enum):
    """The keeper's next step. The result of a verdict holds if the step succeeds."""

    NOTHING = auto()
    #: Copy the item and drop it.
    GO = auto()
    #: Complete the drop that a killed run began; the copies are there.
    FINISH = auto()
    #: Put back what a killed run dropped.
    ROLL_BACK = auto()
    #: Put the item back from its copy, then discard the copy.
    PUT_BACK = auto()
    #: Discard the copy: the item is still, or again, in the home.
    DISCARD = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    step: Step
    result: Result
    reason: str = ""


def judge_removal(seen: Presence) -> Verdict:
    """The verdict on an item that a plan removes."""
    if seen is IN_PLACE:
        return _GOES
    match seen:
        case Presence(here=None):
            verdict = _unseen(seen)
        case Presence(here=False, copied=True):
            verdict = _verdict(Result.REMOVED)
        case Presence(here=False):
            verdict = _verdict(Result.SKIPPED, ALREADY_GONE)
        case _ if _why_not(seen):
            verdict = _verdict(Result.SKIPPED, _why_not(seen))
        case Presence(copied=True) | Presence(taken=True):
            verdict = _verdict(Result.FAILED, TRASH_TAKEN)
        case _:
            verdict = _verdict(Result.REMOVED, step=Step.GO)
    return verdict


def judge_interrupted(seen: Presence, *, undoable: bool) -> Verdict:
    """The verdict on an item that a killed run was about to remove."""
    match seen:
        case Presence(here=None, ours=True):
            # Half of it may be gone. The next run that can inspect it decides.
            verdict = _verdict(Result.PENDING, seen.obstacle or UNSEEN)
        case Presence(here=None):
            verdict = _unseen(seen)
        case Presence(partly=True) if _why_not(seen):
            verdict = _verdict(Result.SKIPPED, _why_not(seen), step=Step.ROLL_BACK)
        case Presence(partly=True):
            verdict = _verdict(Result.REMOVED, step=Step.FINISH)
        case Presence(here=True) if not seen.copied or (seen.ours and seen.damage):
            verdict = _verdict(Result.SKIPPED, NOT_REACHED)
        case Presence(here=True, ours=True):
            verdict = _verdict(Result.SKIPPED, NOT_REACHED, step=Step.DISCARD)
        case Presence(copied=True, damage=why) if why:
            verdict = _verdict(Result.DAMAGED, why)
        case Presence(copied=True):  # whatever occupies its place now came later
            verdict = _verdict(Result.REMOVED)
        case _ if undoable:
            verdict = _verdict(Result.FAILED, GONE_OTHERWISE)
        case _:  # the run was killed after it discarded the copy, or before it recorded the outcome
            verdict = _verdict(Result.REMOVED)
    return verdict


def judge_return(seen: Presence) -> Verdict:
    """The verdict on an item that an undo brings back."""
    match seen:
        case Presence(here=None):
            verdict = _unseen(seen)
        case Presence(damage=why) if why:
            verdict = _verdict(Result.DAMAGED, why)
        case Presence(here=True, ours=True, changed=False, copied=False):
            # A killed undo got this far.
            verdict = _verdict(Result.BROUGHT_BACK)
        case Presence(here=True, copied=False, in_the_way=why) if why:
            verdict = _verdict(Result.SKIPPED, why)
        case Presence(copied=False):
            verdict = _verdict(Result.DAMAGED, COPY_MISSING)
        case Presence(here=True, partly=False) if not seen.ours or seen.changed:
            verdict = _verdict(Result.FAILED, seen.in_the_way or PLACE_TAKEN)
        case _:  # also if it is back already: this completes what a killed undo left to do
            verdict = _verdict(Result.BROUGHT_BACK, step=Step.PUT_BACK)
    return verdict


def _why_not(seen: Presence) -> str:
    """Return why an item may not leave, or an empty string."""
    return seen.obstacle or (CHANGED if seen.changed or not seen.ours else "")


def _unseen(seen: Presence) -> Verdict:
    return _verdict(Result.FAILED, seen.obstacle or UNSEEN)


@lru_cache(maxsize=256)  # a few distinct verdicts for thousands of items
def _verdict(result: Result, reason: str = "", *, step: Step = Step.NOTHING) -> Verdict:
    return Verdict(step=step, result=result, reason=reason)


_GOES = _verdict(Result.REMOVED, step=Step.GO)
