"""Which checkpoint somebody means who gives the beginning of an id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import UnknownCheckpointError
from holdfast.model.checkpoint import Checkpoint

_SHOWN = 5


def meant(prefix: str, found: Sequence[Checkpoint], here: Path | None) -> Checkpoint:
    """Of those whose id begins so, the one. Raises `UnknownCheckpointError` when it is none or
    several, and when it is of several directories, in none of which the user is: worktrees of
    which Hermes took the same in the same second have one checkpoint between them."""
    ids = sorted({each.id for each in found})
    if not ids:
        raise UnknownCheckpointError(
            f"No checkpoint has an id that begins with {prefix!r}.",
            hint="`holdfast checkpoints list` shows the ids. When Hermes drops old ones, those that"
            " stay get new ids.",
        )
    if len(ids) > 1:
        more = len(ids) - _SHOWN
        raise UnknownCheckpointError(
            f"{len(ids)} checkpoints have ids that begin with {prefix!r}:"
            f" {', '.join(each[:12] for each in ids[:_SHOWN])}"
            f"{f' and {more} more' if more > 0 else ''}.",
            hint="Give more digits of the one you mean.",
        )
    return found[0] if len(found) == 1 else _in_place(found, here)


def _in_place(found: Sequence[Checkpoint], here: Path | None) -> Checkpoint:
    places = sorted({each.workdir for each in found})
    around = [place for place in places if here is not None and here.is_relative_to(place)]
    wanted = places if len(places) == 1 else around
    if not wanted:
        raise UnknownCheckpointError(
            f"Checkpoint {found[0].id[:12]} is of {len(places)} directories:"
            f" {', '.join(places[:_SHOWN])}.",
            hint="Change into the one that you mean, then try again.",
        )
    innermost = max(wanted, key=len)
    return next(each for each in found if each.workdir == innermost)
