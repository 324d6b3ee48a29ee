"""The bound on bytes of the checkpoint folder: the fewest, oldest go, or it says what holds them.

Checkpoints share most of what they hold, so what one frees depends on those that went before it.
The oldest go one after the other until the rest fits; then whatever can come back without passing
the bound does, the newest first. So putting back any that went would exceed it. Where checkpoints
are a chain, none comes back that is older than one that went.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from holdfast.model.plan import Action, Shortfall
from holdfast.model.units import format_bytes
from holdfast.policy.checkpoint_draft import Draft, Share

NEWEST = "newest of its project"
#: Of a shortfall: only the user says when these go.
LEGACY_WAITS = "archives of an older layout: `holdfast checkpoints clear-legacy` removes them"
#: Of a shortfall: packs' indexes, refs, the records of projects.
_BESIDE = "files of the store itself"
_CAP = "max_total_size of checkpoints"


def cap_bytes(draft: Draft, limit: int) -> list[Shortfall]:
    """Trash counts too and is the first to go; then what this plan meant to put there, then the
    oldest checkpoints. What this takes is gone at once: moving it to the trash would free nothing.

    Archives of older layouts wait for the user. They must not cost the checkpoints their place, so
    these are bounded as if the archives were not there; the shortfall names them."""
    reason = f"over the cap of {format_bytes(limit)}"
    waves = (
        [each for each in draft.trash if each.decision.kept],
        [each for each in (*draft.rotated, *draft.live) if each.decision.undoable],
        [each for each in draft.live if each.decision.kept and _why_not(each) is None],
    )
    most = limit + legacy_bytes(draft)
    taken = []
    for wave in waves:
        for share in _oldest_first(wave):
            if draft.bytes <= most:
                break
            taken.append((share, share.decision.action, share.decision.reason))
            draft.take(share, reason)
    _put_back(draft, taken, max(most, draft.bytes))
    return _shortfall(draft, limit) if draft.bytes > limit else []


def legacy_bytes(draft: Draft) -> int:
    return sum(each.decision.item.bytes for each in draft.legacy if each.decision.holds_space)


def _put_back(draft: Draft, taken: Sequence[tuple[Share, Action, str]], limit: int) -> None:
    """One pass is enough: what did not fit beside fewer does not fit beside more."""
    broken: set[str] = set()
    for share, action, reason in reversed(taken):
        if share.project in broken and action is Action.KEEP:
            continue
        final = share.decision.reason
        draft.put_back(share, action, reason)
        if draft.bytes > limit:
            draft.take(share, final)
            broken |= {share.project} & draft.chained


def _oldest_first(shares: Iterable[Share]) -> list[Share]:
    by_id = sorted(shares, key=attrgetter("decision.item.id"))
    by_id.sort(key=attrgetter("decision.item.last_active_at"))
    return by_id


def _why_not(share: Share) -> str | None:
    return share.decision.held or (NEWEST if share.decision.newest else None)


def _shortfall(draft: Draft, limit: int) -> list[Shortfall]:
    """What holds the bytes: whatever several hold is counted for the first reason."""
    remaining = draft.bytes
    staying = [each for each in draft.live if each.decision.kept]
    held: dict[str, int] = {}
    trial = draft.trial()
    for why in sorted({_why_not(each) or _BESIDE for each in staying}):
        before = trial.bytes
        for each in staying:
            if (_why_not(each) or _BESIDE) == why:
                trial.release(each)
        held[why] = before - trial.bytes
    waiting = legacy_bytes(draft)
    held[LEGACY_WAITS] = waiting
    held[_BESIDE] = held.get(_BESIDE, 0) + trial.bytes - waiting
    by_reason = {why: much for why, much in held.items() if much}
    return [Shortfall(cap=_CAP, limit=limit, remaining=remaining, held_by=by_reason)]
