"""Settings that come from environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.config.finding import Given, Problem
from holdfast.config.key import VARIABLE_PREFIX
from holdfast.config.keys import KEYS
from holdfast.config.kinds import WrongValueError
from holdfast.config.shown import cut, nearest

# Variables that are read elsewhere and are no key.
_OTHERS = ("HOLDFAST_HOME", "HOLDFAST_DEBUG", "HOLDFAST_EVENT")


def overrides(environ: Mapping[str, str]) -> tuple[tuple[Given, ...], tuple[Problem, ...]]:
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
    known = {*_OTHERS, *(key.variable for key in KEYS)}
    strangers = sorted(
        name
        for name, text in environ.items()
        if text and name.startswith(VARIABLE_PREFIX) and name not in known
    )
    return [_warning(name, known) for name in strangers]


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
