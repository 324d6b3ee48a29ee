"""The schedulers of the system that can run maintenance, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from holdfast.api.schedulers.crontab import Crontab
from holdfast.api.schedulers.launchd import Launchd
from holdfast.api.schedulers.schedule import Job, Schedule, this_program
from holdfast.api.schedulers.systemd import Systemd
from holdfast.errors import UsageError
from holdfast.model.arguments import shown, text

_KINDS: Mapping[str, type[Systemd | Crontab | Launchd]] = {
    each.scheduler: each for each in (Systemd, Crontab, Launchd)
}
SCHEDULERS = tuple(_KINDS)


def schedule_of(
    scheduler: str,
    *,
    home: Path | None,
    user_home: Path,
    environ: Mapping[str, str],
    program: Sequence[str] | None,
) -> Schedule:
    """The schedule for maintenance of `home`, or of all homes if it is None."""
    if text(scheduler, "A scheduler") not in _KINDS:
        near = get_close_matches(scheduler, SCHEDULERS, n=1)
        also = f"Did you mean {near[0]!r}? " if near else ""
        raise UsageError(
            f"There is no scheduler {scheduler!r}.",
            hint=f"{also}They are {', '.join(SCHEDULERS)}.",
        )
    job = Job(
        home=home,
        user_home=user_home,
        environ=environ,
        program=this_program() if program is None else _words(program),
    )
    return _KINDS[scheduler](job)


def _words(program: object) -> tuple[str, ...]:
    """The words that start a program, the first of them its path."""
    if isinstance(program, str) or not isinstance(program, Iterable):
        raise UsageError(f"program must be a sequence of words, not {shown(program)}.")
    words = tuple(program)
    if not words or not all(isinstance(each, str) and "\0" not in each for each in words):
        raise UsageError(
            f"program must be one or more texts without NUL characters, not {shown(program)}."
        )
    if not words[0].strip():
        raise UsageError(f"program must begin with the path of a program, not {words[0]!r}.")
    return words
