"""The flags that select sessions, shared by every command that takes them."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.completing import sources
from holdfast.cli.frame import Choice, option_group
from holdfast.cli.invocation import Invocation, stored_text
from holdfast.cli.numbers import Number, WholeNumber
from holdfast.errors import UsageError
from holdfast.model.session import Relation, SessionFilter

_COUNT = WholeNumber(min=0)
_COST = Number(min=0)
#: Flags with the same name as their field of the filter.
_TEXTS = ("title", "title_is", "model")
#: Flags that need a text, some of them several times.
_NOT_EMPTY = (*_TEXTS, "cwd", "source", "not_source", "end_reason")
_AS_GIVEN = (*_TEXTS, "agent_archived")
#: Fields that have flags for a minimum and a maximum.
_BOUNDED = ("messages", "tokens", "cost")

#: The flags that make sense for sessions that have ended and are not pinned.
ended_options = option_group(
    click.option(
        "--source",
        multiple=True,
        metavar="NAME",
        shell_complete=sources,
        help="From this source.",
    ),
    click.option(
        "--not-source",
        multiple=True,
        metavar="NAME",
        shell_complete=sources,
        help="Not from this source.",
    ),
    click.option("--newer-than", metavar="WHEN", help="Last active after: 5h, 2d, a date."),
    click.option("--started-after", metavar="WHEN", help="Started after: 5h, 2d, a date."),
    click.option("--started-before", metavar="WHEN", help="Started before: 5h, 2d, a date."),
    click.option(
        "--relation",
        multiple=True,
        type=Choice([relation.value for relation in Relation]),
        help="Related to its parent in this way.",
    ),
    click.option("--root-only", is_flag=True, default=None, help="Only sessions without a parent."),
    click.option(
        "--agent-archived/--not-agent-archived",
        default=None,
        help="Only sessions that their agent archived, or only the others.",
    ),
    click.option("--title", metavar="TEXT", help="Title contains this."),
    click.option("--title-is", metavar="TEXT", help="Title is exactly this."),
    click.option("--model", metavar="TEXT", help="Model contains this."),
    click.option("--cwd", metavar="DIR", help="Worked in this folder or below it."),
    click.option("--end-reason", multiple=True, metavar="WORD", help="Ended for this reason."),
    click.option("--min-messages", type=_COUNT, metavar="N", help="At least N messages."),
    click.option("--max-messages", type=_COUNT, metavar="N", help="At most N messages."),
    click.option("--min-tokens", type=_COUNT, metavar="N", help="At least N tokens."),
    click.option("--max-tokens", type=_COUNT, metavar="N", help="At most N tokens."),
    click.option("--min-cost", type=_COST, metavar="X", help="Cost at least X."),
    click.option("--max-cost", type=_COST, metavar="X", help="Cost at most X."),
)
#: Flags for every field of a filter; they combine.
filter_options = option_group(
    ended_options,
    click.option("--older-than", metavar="WHEN", help="Last active before: 5h, 2d, a date."),
    click.option(
        "--vaulted/--not-vaulted",
        default=None,
        help="Only sessions that their agent deleted and the vault holds, or only the others.",
    ),
    click.option(
        "--open/--ended", "is_open", default=None, help="Only open, or only ended, sessions."
    ),
    click.option(
        "--pinned/--not-pinned", default=None, help="Only pinned, or only unpinned, sessions."
    ),
)


def is_given(flags: dict[str, Any]) -> bool:
    """True if any filter was set."""
    return any(value not in (None, ()) for value in flags.values())


def session_filter(invocation: Invocation, flags: dict[str, Any]) -> SessionFilter:
    """The filter for the flags; an empty time window is an error."""
    active_before, active_after = _window(invocation, flags, "older_than", "newer_than")
    started_before, started_after = _window(invocation, flags, "started_before", "started_after")
    for name in _NOT_EMPTY:
        # From a script with an unset variable. It would match all sessions, or none.
        if flags[name] == "" or (isinstance(flags[name], tuple) and "" in flags[name]):
            raise UsageError(f"{_flag(name)} is empty.", hint="Leave it out to select any value.")
    for name in (*_TEXTS, "cwd"):
        if flags[name] is not None:
            stored_text(flags[name], _flag(name))
    bounds = [f"{end}_{what}" for what in _BOUNDED for end in ("min", "max")]
    _check_bounds(flags)
    is_open = flags.get("is_open")
    return SessionFilter(
        sources=flags["source"] or None,
        not_sources=flags["not_source"] or None,
        active_before=active_before,
        active_after=active_after,
        started_before=started_before,
        started_after=started_after,
        relations=flags["relation"] or None,
        roots=flags.get("root_only"),
        cwd=flags["cwd"],
        end_reasons=flags["end_reason"] or None,
        ended=None if is_open is None else not is_open,
        pinned=flags.get("pinned"),
        vaulted=flags.get("vaulted"),
        **{name: flags[name] for name in (*_AS_GIVEN, *bounds)},
    )


def _window(
    invocation: Invocation, flags: dict[str, Any], before: str, after: str
) -> tuple[float | None, float | None]:
    """The two moments for two flags; raises `UsageError` if there is no time between them."""
    latest, earliest = (
        None if flags.get(name) is None else invocation.moment(flags[name])
        for name in (before, after)
    )
    if latest is not None and earliest is not None and latest <= earliest:
        raise UsageError(
            f"{_flag(after)} {flags[after]} and {_flag(before)} {flags[before]} leave no time in "
            "between."
        )
    return latest, earliest


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _check_bounds(flags: dict[str, Any]) -> None:
    for what in _BOUNDED:
        low, high = flags[f"min_{what}"], flags[f"max_{what}"]
        if low is not None and high is not None and low > high:
            raise UsageError(
                f"--min-{what} {low} and --max-{what} {high} leave nothing in between."
            )
