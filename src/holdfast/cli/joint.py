"""What `undo --all-homes` and `redo --all-homes` take in each home: what one run did there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output import name, print_json, say, table, when
from holdfast.cli.removal import asked, print_declined
from holdfast.errors import HoldfastError
from holdfast.model.text import format_count, format_duration
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.home import Home
    from holdfast.cli.invocation import Invocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An operation that could be undone or redone. `run` is the run over several homes that did it,
    or that undid it, at that time."""

    operation: str
    command: str
    run: str | None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """The words of one of the two commands."""

    do: str
    run: str
    did: str
    apart: str


def choose_run(
    invocation: Invocation,
    steps: Callable[[Home], Sequence[Step]],
    verb: Verb,
    *,
    dry_run: bool,
    yes: bool,
) -> int | None:
    """Note which operation of each home to take: those of the latest run over several homes.
    Without one, the latest of each home; that may be unrelated work, so it asks. `steps` are those
    of a home, the latest last."""
    found = _found(invocation, steps)
    runs = [each for members in found.values() for each in members if each.run]
    latest = max(runs, key=lambda each: each.at, default=None)
    if latest is not None:
        mine = {
            home: [each.operation for each in members if each.run == latest.run]
            for home, members in found.items()
        }
        invocation.undoes = {home.path: ids[-1] if ids else None for home, ids in mine.items()}
        if not invocation.json:
            homes = format_count(sum(map(bool, mine.values())), "home")
            ago = format_duration(max(0.0, invocation.now - latest.at))
            say(
                name(
                    f"{verb.run}: {latest.command}, {verb.did} {ago} ago; to {verb.do} in {homes}."
                )
            )
            say()
        return None
    last = {home: members[-1] for home, members in found.items() if members}
    if len(last) <= 1 or yes or dry_run:
        return None
    if not invocation.json:
        say(f"{verb.apart} In each home:")
        rows = table("agent", "operation", "when", "command", right=("operation",))
        for home, each in last.items():
            rows.add_row(home.label, each.operation, when(each.at), name(each.command))
        say(rows)
    declined = asked(f"{verb.do.capitalize()} these {len(last)} operations?", f"{verb.do}ne")
    if declined is None:
        return None
    if invocation.json:
        print_json({"homes": [], "failed": []})
    return print_declined(declined)


def _found(
    invocation: Invocation, steps: Callable[[Home], Sequence[Step]]
) -> Mapping[AgentHome, Sequence[Step]]:
    """What each home has. One that cannot be read says so later."""
    found = {}
    for each in invocation.machine.homes:
        try:
            found[each] = steps(invocation.at(each).open_home())
        except (HoldfastError, OSError):
            continue
    return found
