"""Settings from the file and the environment, checked as a whole: all values, or every problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TypeAlias

from holdfast.config import NO_KEYS, NOTES, VARIABLE_PREFIX, variables
from holdfast.config.guard import NEEDED
from holdfast.config.key import Key
from holdfast.config.kinds import (
    LONGEST_NAME,
    Kind,
    Patterns,
    Percents,
    Steps,
    Value,
    WrongValueError,
    cut,
    dotted,
    found,
    nearest,
)
from holdfast.config.sessions import TRANSCRIPT
from holdfast.config.settings import (
    BY_TABLE,
    GUARD,
    KEYS,
    OWN_KEYS,
    PRICES,
    SESSIONS,
    SOURCE,
    TABLES,
    TOP,
    TRANSCRIPTS,
    Given,
    Settings,
    build,
)
from holdfast.config.toml_document import (
    Problem,
    UnreadableError,
    document_of,
    key_lines,
    parse,
    read_document,
)
from holdfast.errors import ConfigError, UsageError
from holdfast.model.text import one_line
from holdfast.policy.prices import ANY
from holdfast.value import dataclass, field, replace


def load(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings in `path`, overridden by `environ`; defaults for everything that neither sets.

    Raises ConfigError with all problems, one per line: a partial configuration is never used.
    """
    values: tuple[Given, ...] = ()
    problems: tuple[Problem, ...] = ()
    if path is not None:
        values, problems = _from_file(path, _shown(path, environ.get("HOME", "")))
    more_values, more_problems = _overrides(environ)
    if not problems and (both := _contradiction((*values, *more_values))):
        more_problems += (Problem(where=both[0].origin, what=both[1], path=both[0].path),)
    if problems or more_problems:
        raise ConfigError(
            "\n".join(str(problem) for problem in (*problems, *more_problems)),
            hint="Nothing was done. Correct this, then try: holdfast config check",
        )
    settings = build((*values, *more_values))
    connected = path is not None and path.with_name(NOTES).is_dir()
    return replace(settings, connected=True) if connected else settings


def problems_in(text: str, where: str) -> tuple[Problem, ...]:
    """What is wrong with the text of a configuration file, without regard to the environment."""
    try:
        document = document_of(text, where)
    except UnreadableError as error:
        return (error.problem,)
    return check(document.tables, document.text, where)[1]


def value_of(path: tuple[str, ...], texts: Sequence[str]) -> object:
    """What a person typed for a key, as a TOML value. Raises `UsageError` for an unknown key, and
    for an invalid value."""
    kind = key_kind(path)
    typed = _typed(kind, texts, dotted(path))
    try:
        kind.read(typed)
    except WrongValueError as error:
        raise UsageError(_sentence(path, error)) from None
    return typed


def key_kind(path: tuple[str, ...]) -> Kind:
    """The kind of a key; raises `UsageError` with a suggestion if there is no such key."""
    if (kind := _kind_at(path)) is not None:
        return kind
    table: object = {}  # a section may be a table; an unknown key is wrong anyway
    for name in reversed(path):
        table = {name: table}
    for place, what in _check((), table, _shape()):
        if isinstance(what, WrongValueError) and "a price needs" not in what.reasons[0]:
            owners = [table for table in TABLES if path[-1] in BY_TABLE[table]]
            whole = " or ".join(f"{table}.{path[-1]}" for table in owners)
            hint = f"The full key is {whole}." if owners and len(path) == 1 else None
            raise UsageError(_sentence(place, what), hint=hint)
    section = dotted(path)
    raise UsageError(
        f"{section} is a section, not a key.", hint=f"To see it: holdfast config show {section}"
    )


def _sentence(path: tuple[str, ...], error: WrongValueError) -> str:
    said = f"{dotted(path)}: {'; '.join(error.reasons)}"
    return said if said.endswith("?") else f"{said}."


def _typed(kind: Kind, texts: Sequence[str], name: str) -> object:
    takes_several = isinstance(kind, Patterns | Percents | Steps)
    if len(texts) > 1 and not takes_several:
        raise UsageError(f"{name} takes one value.")
    if len(texts) > 1:
        return [*texts] if isinstance(kind, Patterns) else kind.parse(",".join(texts))
    [text] = texts
    if takes_several and text.lstrip().startswith("["):
        with suppress(ValueError):  # a list as it would be in the file
            return parse(f"value = {text}")["value"]
    return kind.parse(text)


def _kind_at(path: tuple[str, ...]) -> Kind | None:
    """The kind of a key; None if there is no such key."""
    shape: _Shape | Kind | None = _shape()
    for name in path:
        if not isinstance(shape, _Shape):
            return None
        if name in shape.tables:
            shape = shape.tables[name]
        elif shape.check_name is not None:
            shape = shape.each
        else:
            shape = shape.keys[name].kind if name in shape.keys else None
    return shape if isinstance(shape, Kind) else None


def _from_file(path: Path, where: str) -> tuple[tuple[Given, ...], tuple[Problem, ...]]:
    try:
        document = read_document(path, where)
    except UnreadableError as error:
        return (), (error.problem,)
    return check(document.tables, document.text, where)


def _shown(path: PurePath, home: str) -> str:
    """The path as people write it, with ~ for the home folder."""
    if home and path.is_relative_to(home):
        path = "~" / path.relative_to(home)
    return one_line(str(path))


def _overrides(environ: Mapping[str, str]) -> tuple[tuple[Given, ...], tuple[Problem, ...]]:
    """What the environment sets, and what is wrong with it. An empty variable counts as unset."""
    values: list[Given] = []
    problems: list[Problem] = []
    for key in KEYS:
        text = environ.get(key.variable, "")
        if not text:
            continue
        try:
            value = key.kind.read(key.kind.parse(text))
        except WrongValueError as error:
            problems += (
                Problem(where=key.variable, what=reason, path=key.path) for reason in error.reasons
            )
        else:
            values.append(Given(path=key.path, value=value, origin=key.variable))
    return tuple(values), tuple(problems)


def warnings(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like ours but are not, one line each."""
    known = {*NO_KEYS, *(key.variable for key in KEYS)}
    return [_warning(name, known) for name in variables(environ) if name not in known]


def _warning(name: str, known: set[str]) -> str:
    # Without the prefix, which would make all names look similar.
    bare = name.removeprefix(VARIABLE_PREFIX)
    others = sorted(variable.removeprefix(VARIABLE_PREFIX) for variable in known)
    close = _without_table(bare) or nearest(bare, others)
    advice = f"; did you mean {VARIABLE_PREFIX}{close}?" if close else ""
    return f"{cut(name)}: unknown environment variable, ignored{advice}"


def _without_table(bare: str) -> str | None:
    """The key that was named without its table; the first if there are several."""
    named = (key.variable for key in KEYS if key.name.upper() == bare)
    return next((variable.removeprefix(VARIABLE_PREFIX) for variable in named), None)


_SOURCE_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_Path: TypeAlias = tuple[str, ...]
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
    for path, value in _check((), document, _shape()):
        line = lines.of(path)
        if isinstance(value, WrongValueError):
            problems += (
                Problem(where=where, what=reason, path=path, line=line) for reason in value.reasons
            )
        else:
            origin = name if line is None else f"{name}:{line}"
            values.append(Given(path=path, value=value, origin=origin))
    if both := _contradiction(values):
        path = both[0].path
        problems.append(Problem(where=where, what=both[1], path=path, line=lines.of(path)))
    problems.sort(key=lambda problem: (problem.line is None, problem.line or 0))
    return tuple(values), tuple(problems)


def _contradiction(values: Iterable[Given]) -> tuple[Given, str] | None:
    """A value that contradicts another one, and why."""
    given = {each.path: each for each in values if each.value}
    url = given.get(("archive", "url"))
    if url is None or ("archive", "folder") not in given:
        return None
    return url, "the archive is in a folder or at an address; set only one of `folder` and `url`"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What a table may contain: `keys`, other `tables`, and, under any name that `check_name`
    accepts, a value or table of the form `each`. `needed` are the keys that a price must have."""

    keys: Mapping[str, Key] = field(default_factory=dict)
    tables: Mapping[str, _Shape] = field(default_factory=dict)
    check_name: Callable[[_Path], _Findings] | None = None
    each: Kind | _Shape | None = None
    needed: tuple[str, ...] = ()


def _shape() -> _Shape:
    def with_sources(table: str) -> _Shape:
        source = _Shape(check_name=_check_source_name, each=_Shape(keys=OWN_KEYS[table]))
        return _Shape(keys=BY_TABLE[table], tables={SOURCE: source})

    price = _Shape(keys=OWN_KEYS[PRICES], needed=NEEDED)
    tables = {table: _Shape(keys=BY_TABLE[table]) for table in TABLES} | {
        SESSIONS: with_sources(SESSIONS),
        GUARD: with_sources(GUARD),
        # Any source may be here, and the `default` for the other sources.
        TRANSCRIPTS: _Shape(check_name=_check_source_name, each=TRANSCRIPT),
        # Any model may be here, or a prefix of model names.
        PRICES: _Shape(check_name=_check_model_name, each=price),
    }
    return _Shape(keys=BY_TABLE[TOP], tables=tables)


def _check(path: _Path, value: object, shape: _Shape) -> _Findings:
    if not isinstance(value, dict):
        yield path, WrongValueError(f"expected a table, found {found(value)}")
        return
    for name, inner in value.items():
        within = (*path, name)
        if name in shape.tables:
            yield from _check(within, inner, shape.tables[name])
        elif shape.check_name is None:
            yield from _check_key(within, inner, shape.keys, tables=tuple(shape.tables))
        else:
            yield from shape.check_name(within)
            if isinstance(shape.each, Kind):
                yield from _check_value(within, inner, shape.each)
            elif shape.each is not None:
                yield from _check(within, inner, shape.each)
    for name in shape.needed:
        if name not in value:
            why = f'a price needs "{name}", the cost of a million of those tokens'
            yield path, WrongValueError(why)


def _check_key(
    path: _Path, value: object, known: Mapping[str, Key], tables: tuple[str, ...]
) -> _Findings:
    """Check one key where only `known` keys and `tables` are allowed."""
    name = path[-1]
    if name in known:
        yield from _check_value(path, value, known[name].kind)
        return
    renamed = next((key.name for key in known.values() if name in key.was), None)
    advice = f'; use "{renamed}"' if renamed else _advice(name, (*known, *tables))
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
        rule = f"a model is 1 to {LONGEST_NAME} printable characters"
        yield path, WrongValueError(f"{rule}; * at the end stands for the rest of the name")
    elif ANY in name.removesuffix(ANY):
        rule = f"{ANY} may only be at the end, for every model that begins that way"
        yield path, WrongValueError(rule)


def _advice(name: str, choices: Iterable[str]) -> str:
    """The end of an error message about an unknown key: its table if it is in the wrong one, or the
    name that was probably meant."""
    if name in BY_TABLE[TOP]:
        return "; it belongs at the top, before any [table]"
    # Of a name that is in several tables, the first table is meant: usually [sessions].
    homes = {key: table for table in reversed(TABLES) for key in BY_TABLE[table]}
    homes[SOURCE] = SESSIONS
    if name in homes:
        return f"; it belongs in [{homes[name]}]"
    if close := nearest(name, choices):
        return f'; did you mean "{close}"?'
    if close := nearest(name, homes):
        return f'; did you mean "{close}" in [{homes[close]}]?'
    return ""
