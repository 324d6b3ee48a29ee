"""A parsed document checked as a whole: every value that holds, and every problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

from holdfast.config.finding import Given, Problem
from holdfast.config.keys import (
    SESSIONS,
    SESSIONS_BY_NAME,
    SOURCE,
    SOURCE_BY_NAME,
    SOURCE_NAME,
    TOP_BY_NAME,
    Key,
)
from holdfast.config.kinds import Value, WrongValueError
from holdfast.config.lines import key_lines
from holdfast.config.shown import found, nearest

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
    for name, value in table.items():
        if name == SESSIONS:
            yield from _check_table((*path, name), value, _check_sessions)
        else:
            yield from _check_key((*path, name), value, TOP_BY_NAME, table=SESSIONS)


def _check_sessions(path: _Path, table: _Table) -> _Findings:
    for name, value in table.items():
        if name == SOURCE:
            yield from _check_table((*path, name), value, _check_sources)
        else:
            yield from _check_key((*path, name), value, SESSIONS_BY_NAME, table=SOURCE)


def _check_sources(path: _Path, table: _Table) -> _Findings:
    for name, value in table.items():
        if not SOURCE_NAME.fullmatch(name):
            yield _Bad((*path, name), _bad_source_name(name))
        yield from _check_table((*path, name), value, _check_source)


def _check_source(path: _Path, table: _Table) -> _Findings:
    for name, value in table.items():
        yield from _check_key((*path, name), value, SOURCE_BY_NAME)


def _check_table(
    path: _Path, value: object, inside: Callable[[_Path, _Table], _Findings]
) -> _Findings:
    if isinstance(value, dict):
        yield from inside(path, value)
    else:
        yield _Bad(path, f"expected a table, found {found(value)}")


def _check_key(
    path: _Path, value: object, known: Mapping[str, Key], table: str | None = None
) -> _Findings:
    """One key, where only `known` ones and, if there is one, a `table` may stand."""
    key = known.get(path[-1])
    if key is None:
        choices = known if table is None else (*known, table)
        yield _Bad(path, f"unknown key{_advice(path[-1], choices)}")
        return
    try:
        yield _Good(path, key.kind.read(value))
    except WrongValueError as error:
        for reason in error.reasons:
            yield _Bad(path, reason)


def _advice(name: str, choices: Iterable[str]) -> str:
    """A key in the wrong table is sent to the right one; a mistyped one gets its neighbour."""
    if name in TOP_BY_NAME:
        return "; it belongs at the top, before any [table]"
    if name in SESSIONS_BY_NAME or name == SOURCE:
        return f"; it belongs in [{SESSIONS}]"
    if close := nearest(name, choices):
        return f'; did you mean "{close}"?'
    if close := nearest(name, SESSIONS_BY_NAME):
        return f'; did you mean "{close}" in [{SESSIONS}]?'
    return ""


def _bad_source_name(name: str) -> str:
    rule = "a source name is 1 to 64 of a-z 0-9 _ . - and begins with a letter or a digit"
    lower = name.strip().lower()
    return f'{rule}; did you mean "{lower}"?' if SOURCE_NAME.fullmatch(lower) else rule
