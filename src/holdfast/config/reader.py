"""Settings from the file and the environment, or every problem with both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath

from holdfast.config import NO_KEYS, VARIABLE_PREFIX, variables
from holdfast.config.check import check
from holdfast.config.document import Problem, UnreadableError, read_document
from holdfast.config.kinds import WrongValueError, cut, nearest
from holdfast.config.settings import KEYS, Given, Settings, build
from holdfast.errors import ConfigError
from holdfast.model.text import one_line


def load(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings in `path`, overridden by `environ`; defaults where neither says anything.

    Raises ConfigError with all problems, one a line: half a configuration is never used.
    """
    values: tuple[Given, ...] = ()
    problems: tuple[Problem, ...] = ()
    if path is not None:
        values, problems = _from_file(path, _shown(path, environ.get("HOME", "")))
    more_values, more_problems = _overrides(environ)
    if problems or more_problems:
        raise ConfigError(
            "\n".join(str(problem) for problem in (*problems, *more_problems)),
            hint="Nothing was done. Correct this, then try: holdfast config check",
        )
    return build((*values, *more_values))


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
    """Variables that look like ours and are not, one line each."""
    known = {*NO_KEYS, *(key.variable for key in KEYS)}
    return [_warning(name, known) for name in variables(environ) if name not in known]


def _warning(name: str, known: set[str]) -> str:
    # Without the prefix, which would make every name look close to every other.
    bare = name.removeprefix(VARIABLE_PREFIX)
    others = sorted(variable.removeprefix(VARIABLE_PREFIX) for variable in known)
    close = _without_table(bare) or nearest(bare, others)
    advice = f"; did you mean {VARIABLE_PREFIX}{close}?" if close else ""
    return f"{cut(name)}: unknown environment variable, ignored{advice}"


def _without_table(bare: str) -> str | None:
    """The key that was named without its table; of several, the first."""
    named = (key.variable for key in KEYS if key.name.upper() == bare)
    return next((variable.removeprefix(VARIABLE_PREFIX) for variable in named), None)
