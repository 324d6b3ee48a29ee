"""A parsed document checked as a whole: every value that holds, and every problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TypeAlias

from holdfast.config.document import Problem, key_lines
from holdfast.config.guard import NEEDED
from holdfast.config.key import Key
from holdfast.config.kinds import (
    LONGEST_NAME,
    Kind,
    Value,
    WrongValueError,
    found,
    nearest,
)
from holdfast.config.sessions import TRANSCRIPT
from holdfast.config.settings import (
    BY_TABLE,
    GUARD,
    OWN_KEYS,
    PRICES,
    SESSIONS,
    SOURCE,
    TABLES,
    TOP,
    TRANSCRIPTS,
    Given,
)
from holdfast.policy.prices import ANY

_SOURCE_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_Path: TypeAlias = tuple[str, ...]
_Table: TypeAlias = Mapping[str, object]
#: Each place in the document with its value, or with what is wrong there.
_Findings: TypeAlias = Iterator[tuple[_Path, Value | WrongValueError]]


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
    for path, value in _check_top((), document):
        line = lines.of(path)
        if isinstance(value, WrongValueError):
            problems += (
                Problem(where=where, what=reason, path=path, line=line) for reason in value.reasons
            )
        else:
            origin = name if line is None else f"{name}:{line}"
            values.append(Given(path=path, value=value, origin=origin))
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
        yield from _check_key((*path, name), value, OWN_KEYS[path[0]])


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
        yield from _check_key((*path, name), value, OWN_KEYS[PRICES])
    for name in NEEDED:
        if name not in table:
            yield (
                path,
                WrongValueError(f'a price needs "{name}", what a million of those tokens cost'),
            )


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
        yield path, WrongValueError(f"expected a table, found {found(value)}")


def _check_key(
    path: _Path, value: object, known: Mapping[str, Key], tables: tuple[str, ...] = ()
) -> _Findings:
    """One key, where only `known` ones and `tables` may stand."""
    name = path[-1]
    if name in known:
        yield from _check_value(path, value, known[name].kind)
        return
    renamed = next((key.name for key in known.values() if name in key.was), None)
    advice = f'; here it is "{renamed}"' if renamed else _advice(name, (*known, *tables))
    yield path, WrongValueError(f"unknown key{advice}")


def _check_value(path: _Path, value: object, kind: Kind) -> _Findings:
    try:
        yield path, kind.read(value)
    except WrongValueError as error:
        yield path, error


def _check_source_name(path: _Path) -> _Findings:
    name = path[-1]
    if _SOURCE_NAME.fullmatch(name):
        return
    rule = "a source name is 1 to 64 of a-z 0-9 _ . - and begins with a letter or a digit"
    lower = name.strip().lower()
    close = _SOURCE_NAME.fullmatch(lower)
    yield path, WrongValueError(f'{rule}; did you mean "{lower}"?' if close else rule)


def _check_model_name(path: _Path) -> _Findings:
    name = path[-1]
    if not name or not name.isprintable() or len(name) > LONGEST_NAME:
        yield (
            path,
            WrongValueError(
                f"a model is 1 to {LONGEST_NAME} printable characters; * at its end "
                "stands for the rest of a longer name"
            ),
        )
    elif ANY in name.removesuffix(ANY):
        yield (
            path,
            WrongValueError(f"{ANY} may only stand at the end, for all models that begin so"),
        )


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
