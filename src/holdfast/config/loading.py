"""Settings from the file and the environment, or every problem with both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath

from holdfast.config.check import check
from holdfast.config.document import UnreadableError, read_document
from holdfast.config.environment import overrides
from holdfast.config.finding import Given, Problem
from holdfast.config.settings import Settings, build
from holdfast.errors import ConfigError
from holdfast.model.printable import one_line


def load(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings in `path`, overridden by `environ`; defaults where neither says anything.

    Raises ConfigError with all problems, one a line: half a configuration is never used.
    """
    values: tuple[Given, ...] = ()
    problems: tuple[Problem, ...] = ()
    if path is not None:
        values, problems = _from_file(path, _shown(path, environ.get("HOME", "")))
    more_values, more_problems = overrides(environ)
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
