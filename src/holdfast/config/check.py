"""A parsed document checked as a whole: every value that holds, and every problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

from holdfast.config import old_names
from holdfast.config.finding import Given, Problem
from holdfast.config.key import (
    GUARD,
    PRICES,
    SESSIONS,
    SOURCE,
    SOURCE_NAME,
    TOP,
    TRANSCRIPTS,
    Key,
)
from holdfast.config.keys import BY_TABLE, SOURCE_BY_NAME, TABLES
from holdfast.config.keys_guard import NEEDED, PRICE_KEYS
from holdfast.config.keys_lifecycle import TRANSCRIPT
from holdfast.config.kinds import Kind, Value, WrongValueError
from holdfast.config.lines import key_lines
from holdfast.config.shown import found, nearest
from holdfast.policy.prices import ANY

#: As long as a name in a message, see shown.py: origins are found by it.
_LONGEST_MODEL = 64
_Path: TypeAlias = tuple[str, ...]
_Table: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Good:
    path: _Path
    value: Value


@dataclass(frozen=True, slots=True)
class _Bad:
    path: _Path
    what: str


_Findings: TypeAlias = Iterator[_Good | _Bad]


def check(
    document: Mapping[str, object], text: str, where: str
) -> tuple[tuple[Given, ...], tuple[Problem, ...]]:
    """What `document`, parsed from `text`, sets, and what is wrong with it, in order of lines.

    `where` names the file in problems; its last part names it in origins.
    """
    lines = key_lines(text)
    name = PurePath(where).name
    values: list[Given] = []
    problems: list[Problem] = []
    for finding in _check_top((), document):
        line = lines.of(finding.path)
        if isinstance(finding, _Good):
            origin = name if line is None else f"{name}:{line}"
            values.append(Given(path=finding.path, value=finding.value, origin=origin))
        else:
            problems.append(Problem(where=where, what=finding.what, path=finding.path, line=line))
    problems.sort(key=lambda problem: (problem.line is None, problem.line or 0))
    return tuple(values), tuple(problems)


def _check_top(path: _Path, table: _Table) -> _Findings:
    special = {
        SESSIONS: _check_with_sources,
        GUARD: _check_with_sources,
        TRANSCRIPTS: _check_transcripts,
        PRICES: _check_prices,
    }
    for name, value in table.items():
        if name in TABLES:
            yield from _check_table((*path, name), value, special.get(name, _check_plain))
        else:
            yield from _check_key((*path, name), value, BY_TABLE[TOP], tables=TABLES)


def _check_with_sources(path: _Path, table: _Table) -> _Findings:
    """A table of keys, and of what differs for some sources."""
    for name, value in table.items():
        if name == SOURCE:
            yield from _check_table((*path, name), value, _check_sources)
        else:
            yield from _check_key((*path, name), value, BY_TABLE[path[-1]], tables=(SOURCE,))


def _check_sources(path: _Path, table: _Table) -> _Findings:
    for name, value in table.items():
        yield from _check_source_name((*path, name))
        yield from _check_table((*path, name), value, _check_source)


def _check_source(path: _Path, table: _Table) -> _Findings:
    for name, value in table.items():
        yield from _check_key((*path, name), value, SOURCE_BY_NAME[path[0]])


def _check_transcripts(path: _Path, table: _Table) -> _Findings:
    """Any source may stand here, and the `default` for those that do not."""
    for name, value in table.items():
        yield from _check_source_name((*path, name))
        yield from _check_value((*path, name), value, TRANSCRIPT)


def _check_prices(path: _Path, table: _Table) -> _Findings:
    """Any model may stand here, or the beginning of the names of several."""
    for name, value in table.items():
        yield from _check_model_name((*path, name))
        yield from _check_table((*path, name), value, _check_price)


def _check_price(path: _Path, table: _Table) -> _Findings:
    for name, value in table.items():
        yield from _check_key((*path, name), value, PRICE_KEYS)
    for name in NEEDED:
        if name not in table:
            yield _Bad(path, f'a price needs "{name}", what a million of those tokens cost')


def _check_plain(path: _Path, table: _Table) -> _Findings:
    """A table of keys and nothing else."""
    for name, value in table.items():
        yield from _check_key((*path, name), value, BY_TABLE[path[-1]])


def _check_table(
    path: _Path, value: object, inside: Callable[[_Path, _Table], _Findings]
) -> _Findings:
    if isinstance(value, dict):
        yield from inside(path, value)
    else:
        yield _Bad(path, f"expected a table, found {found(value)}")


def _check_key(
    path: _Path, value: object, known: Mapping[str, Key], tables: tuple[str, ...] = ()
) -> _Findings:
    """One key, where only `known` ones and `tables` may stand."""
    key = known.get(path[-1])
    if key is None:
        renamed = old_names.KEYS.get(path[0], {}).get(path[-1])
        if renamed in known:
            yield _Bad(path, f'unknown key; here it is "{renamed}"')
        else:
            yield _Bad(path, f"unknown key{_advice(path[-1], (*known, *tables))}")
    else:
        yield from _check_value(path, value, key.kind)


def _check_value(path: _Path, value: object, kind: Kind) -> _Findings:
    try:
        yield _Good(path, kind.read(value))
    except WrongValueError as error:
        for reason in error.reasons:
            yield _Bad(path, reason)


def _check_source_name(path: _Path) -> _Findings:
    name = path[-1]
    if SOURCE_NAME.fullmatch(name):
        return
    rule = "a source name is 1 to 64 of a-z 0-9 _ . - and begins with a letter or a digit"
    lower = name.strip().lower()
    close = SOURCE_NAME.fullmatch(lower)
    yield _Bad(path, f'{rule}; did you mean "{lower}"?' if close else rule)


def _check_model_name(path: _Path) -> _Findings:
    name = path[-1]
    if not name or not name.isprintable() or len(name) > _LONGEST_MODEL:
        yield _Bad(
            path,
            f"a model is 1 to {_LONGEST_MODEL} printable characters; * at its end "
            "stands for the rest of a longer name",
        )
    elif ANY in name.removesuffix(ANY):
        yield _Bad(path, f"{ANY} may only stand at the end, for all models that begin so")


def _advice(name: str, choices: Iterable[str]) -> str:
    """A key in the wrong table is sent to the right one; a mistyped one gets its neighbour."""
    if name in BY_TABLE[TOP]:
        return "; it belongs at the top, before any [table]"
    # Of a name that several tables know, the first one is meant: [sessions] as a rule.
    homes = {key: table for table in reversed(TABLES) for key in BY_TABLE[table]}
    homes[SOURCE] = SESSIONS
    if name in homes:
        return f"; it belongs in [{homes[name]}]"
    if close := nearest(name, choices):
        return f'; did you mean "{close}"?'
    if close := nearest(name, homes):
        return f'; did you mean "{close}" in [{homes[close]}]?'
    return ""
