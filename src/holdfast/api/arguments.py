"""Arguments of the API: ages, sizes and names, checked and turned into values."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from holdfast.errors import EmptyWindowError, UsageError
from holdfast.model.arguments import expanded, instance, is_path, several, shown
from holdfast.model.durations import Duration, Moment, moment, seconds
from holdfast.model.item import RULED_KINDS
from holdfast.model.operation import Operation
from holdfast.model.session import SessionFilter, SessionRef, id_of
from holdfast.model.text import format_duration, parse_size
from holdfast.policy.rules import Caps, Policy, Rules

_MOMENT = 60.0

#: A number of bytes: "500MB", "2GiB", or an int.
Size: TypeAlias = str | int
#: One session or several, by id, by the start of one, as `Session`, or as `ArchivedSession`.
Ids: TypeAlias = SessionRef | Iterable[SessionRef]
#: An operation: its number, as text or int, or its `Operation` from the log.
OperationRef: TypeAlias = str | int | Operation


def age(value: object, now: float, what: str) -> float:
    """Return how long ago a moment was, in seconds."""
    found = now - moment(value, now, what)
    if found < 0:
        raise UsageError(f"{what} {value} is in the future.", hint="Everything would count as old.")
    return found


def size(value: object, what: str) -> int:
    """Check a cap on bytes and return it as an int. 0 is refused: in config.toml it turns a cap
    off, but here, taken literally, it would remove everything permanently."""
    found = parse_size(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise UsageError(
            f"{what} must be a number of bytes, not {shown(value)}.",
            hint='Write "500MB", or the bytes as an int.',
        )
    if found == 0:
        raise UsageError(
            f"{what} {value} would leave no room for anything.",
            hint="In config.toml 0 means no cap; here, leave it out.",
        )
    return found


def count(value: object, what: str, *, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{what} must be a whole number of {least} or more, not {shown(value)}.")
    return value


def file_path(value: object, what: str) -> Path:
    """Check the path of a file and return it expanded. A leading `~` that names no user is kept."""
    if not is_path(value):
        raise UsageError(f"{what} must be the path of a file, not {shown(value)}.")
    text = os.fspath(value)
    if not text or "\0" in text:
        raise UsageError(f"{what} must be the path of a file, not {text!r}.")
    return expanded(text)


def names(given: object, what: str) -> tuple[str, ...]:
    """Check one name or several. A string is one name, not a sequence of letters."""
    found = several(given)
    if not found or not all(isinstance(each, str) and each for each in found):
        raise UsageError(f"`{what}` must be one or more non-empty strings, not {shown(given)}.")
    return found


def session_ids(given: Ids, what: str = "ids") -> tuple[str, ...]:
    """Return the ids of one session or several, given as ids or as sessions."""
    found = tuple(id_of(each, f"Each of `{what}`") for each in several(given))
    if not found:
        raise UsageError(f"`{what}` must be one or more ids or sessions, not {shown(given)}.")
    if not all(found):
        raise UsageError(
            "A session id cannot be empty.", hint="`holdfast sessions list` lists the sessions."
        )
    return found


def operation_id(given: OperationRef) -> str:
    """Return the number of an operation, as in the log."""
    if isinstance(given, Operation):
        return given.id
    if isinstance(given, str) or type(given) is int:
        return str(given)
    raise UsageError(
        f"An operation must be its number or an Operation, not {shown(given)}.",
        hint="`report.operation` is the number, as text; `holdfast log` lists them all.",
    )


def known_kinds(given: str | Iterable[str] | None) -> frozenset[str] | None:
    """Check the kinds of items that rules are limited to, one or several. None or an empty
    sequence means every kind."""
    if given is None or given in ((), []):
        return None
    found = names(given, "kinds")
    for each in found:
        if each not in RULED_KINDS:
            raise UsageError(f"`kinds` must be among {', '.join(RULED_KINDS)}, not {each!r}.")
    return frozenset(found)


def wanted_sessions(wanted: SessionFilter | None, source: Any) -> SessionFilter:
    """Return the filter of a call: the one passed, one for `source`, or one for all sessions."""
    if wanted is not None and source is not None:
        raise UsageError("Pass `wanted` or `source`, not both: a filter has its own sources.")
    if source is not None:
        return SessionFilter(sources=names(source, "source"))
    return SessionFilter() if wanted is None else instance(wanted, SessionFilter, "wanted")


class KeepRules(TypedDict, total=False):
    """How many to keep: the newest, those close to the newest, and the last of each hour, day,
    week, month and year. None is the same as leaving a rule out."""

    keep_last: int | None
    keep_within: Duration | None
    keep_hourly: int | None
    keep_daily: int | None
    keep_weekly: int | None
    keep_monthly: int | None
    keep_yearly: int | None


class PruneRules(KeepRules, total=False):
    """The rules and caps of one prune, in place of those in config.toml."""

    older_than: Moment | None
    max_total_size: Size | None
    max_count: int | None


#: What callers write for a rule.
_OTHER_NAMES = {
    "age": "older_than",
    "before": "older_than",
    "days": "older_than",
    "keep": "keep_last",
    "last": "keep_last",
    "max_age": "older_than",
    "max_bytes": "max_total_size",
    "max_size": "max_total_size",
    "retention_days": "older_than",
}


def own_rules(
    given: KeepRules | PruneRules, now: float, *, known: Collection[str] = KeepRules.__annotations__
) -> Rules:
    """Return the rules of one call. Raises `TypeError` for a rule that is not in `known`."""
    for name in given:
        if name not in known:  # the error that Python raises for an unknown parameter
            meant = _OTHER_NAMES.get(name, "")
            hint = f"; did you mean `{meant}`?" if meant else ""
            raise TypeError(f"prune() got an unexpected keyword argument {name!r}{hint}")
    values = {name: each for name, each in given.items() if each is not None}
    older_than, keep_within = values.pop("older_than", None), values.pop("keep_within", None)
    return Rules(
        max_age=None if older_than is None else age(older_than, now, "older_than"),
        keep_within=None if keep_within is None else seconds(keep_within, "keep_within"),
        **{name: count(each, name) for name, each in values.items() if name.startswith("keep_")},
    )


def own_caps(max_total_size: object, max_count: object, what: str = "max_count") -> Caps:
    """Return the caps of one call. `what` is the name that the call has for `max_count`."""
    return Caps(
        max_bytes=None if max_total_size is None else size(max_total_size, "max_total_size"),
        max_count=None if max_count is None else count(max_count, what),
    )


def own_policy(base: Policy, given: PruneRules, now: float) -> Policy:
    """Return the policy with the rules and caps of one call."""
    caps = own_caps(given.get("max_total_size"), given.get("max_count"))
    rules = own_rules(given, now, known=PruneRules.__annotations__)
    return base.with_own(rules, caps)


def expect_window(policy: Policy, given: PruneRules, wanted: SessionFilter, now: float) -> None:
    """Raise `EmptyWindowError` if no session can be both wanted and old enough for the policy,
    which already contains the rules of the call."""
    age = policy.everywhere.rules.max_age
    # A cap removes sessions of any age, and a source may have its own age limit.
    has_more = not policy.everywhere.caps.empty or any(
        each.rules != policy.everywhere.rules or not each.caps.empty
        for each in policy.by_source.values()
    )
    if wanted.active_after is None or age is None or has_more:
        return
    # The filter was made a moment before `now`: if the call passes no age, "active within 90d" and
    # a retention of 90 days differ only by that moment.
    least = _MOMENT if given.get("older_than") is None else 0.0
    if now - age - wanted.active_after <= least:
        since = datetime.fromtimestamp(wanted.active_after, UTC).strftime("%Y-%m-%d %H:%M UTC")
        raise EmptyWindowError(
            f"Only sessions active after {since} are wanted, but the rules remove only those older "
            f"than {format_duration(age)}, so nothing can match.",
            age=age,
        )
