"""What a caller passes, checked by what the signature says before anything is done.

Python does not look at annotations, and many hosts run no type checker. Unchecked, `use_trash="no"`
counts as true, and a wrong type fails somewhere inside, perhaps after half of the work. So every
public class of the API is `checked`: what a parameter is called in the signature decides how it is
checked. Parameters that take several forms, such as ids, moments and sizes, are not in the table:
the functions that turn those into values check them.
"""

from __future__ import annotations

import functools
from types import FunctionType

from holdfast.errors import UsageError
from holdfast.model.arguments import amount, flag, is_path, mapping, shown, whole

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias, TypeVar

    _T = TypeVar("_T")
    #: Raises `UsageError` for what is wrong. The text names the parameter.
    Check: TypeAlias = Callable[[Any, str], object]


def checked(what: _T) -> _T:
    """A class whose public methods check their arguments, or a function that does."""
    if isinstance(what, type):
        for name, each in tuple(vars(what).items()):
            if isinstance(each, FunctionType) and not name.startswith("_"):
                setattr(what, name, _checking(each))
        return what
    made: _T = _checking(what)
    return made


def _checking(function: Any) -> Any:
    checks = {
        name: check
        for name, said in function.__annotations__.items()
        if name != "return" and (check := _check_of(said)) is not None
    }
    if not checks:
        return function
    code = _innermost(function).__code__
    order = code.co_varnames[: code.co_argcount]

    @functools.wraps(function)
    def checking(*args: Any, **given: Any) -> Any:
        for name, value in zip(order, args, strict=False):
            if name in checks:
                checks[name](value, f"`{name}`")
        for name, value in given.items():
            if name in checks:
                checks[name](value, f"`{name}`")
        return function(*args, **given)

    return checking


def _innermost(function: Any) -> Any:
    """A method that `applied` made takes what its plan takes."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


@functools.cache
def _check_of(said: str) -> Check | None:
    """How an annotation is checked; None when it is not checked here."""
    kind = said.removesuffix(" | None")
    check = _CHECKS.get(kind) or _generic(kind)
    if check is None and kind in _VALUES:
        check = functools.partial(_value, kind)
    if check is None or kind == said:
        return check
    return functools.partial(_optional, check)


def _generic(kind: str) -> Check | None:
    for start, check in _GENERIC.items():
        if kind.startswith(start):
            return check
    return None


def _optional(check: Check, value: object, what: str) -> None:
    if value is not None:
        check(value, what)


def _texts(value: Mapping[Any, Any], what: str) -> None:
    mapping(value, what)
    for name, each in value.items():
        if not isinstance(name, str) or not isinstance(each, str):
            raise UsageError(f"{what} must have texts by their names, not {shown({name: each})}.")


def _value(kind: str, value: object, what: str) -> None:
    """By name, so that nothing is imported to refuse something else."""
    if all(each.__name__ != kind for each in type(value).__mro__):
        raise UsageError(f"{what} must be of type {kind}, not {shown(value)}.")


def _text(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise UsageError(f"{what} must be text, not {shown(value)}.")


def _path(value: object, what: str) -> None:
    if not is_path(value):
        raise UsageError(f"{what} must be a path, not {shown(value)}.")


def _flag_or_setup(value: object, what: str) -> None:
    if not isinstance(value, bool):
        _value("Setup", value, what)


def _callable(value: object, what: str) -> None:
    if not callable(value):
        raise UsageError(f"{what} must be a function, not {shown(value)}.")


def _progress(value: object, what: str) -> None:
    for each in ("step", "stop_requested"):
        if not callable(getattr(value, each, None)):
            raise UsageError(
                f"{what} must have the methods `step` and `stop_requested`, unlike {shown(value)}."
            )


def _several(value: object, what: str) -> None:
    if isinstance(value, str | bytes) or not hasattr(type(value), "__iter__"):
        raise UsageError(f"{what} must be a list or the like, not {shown(value)}.")


_CHECKS: Mapping[str, Check] = {
    "bool": flag,
    "bool | Setup": _flag_or_setup,
    "int": whole,
    "float": amount,
    "str": _text,
    "Clock": _callable,
    "Maps": mapping,
    "Path": _path,
    "Progress": _progress,
}
_GENERIC: Mapping[str, Check] = {
    "Callable[": _callable,
    "Mapping[str, str]": _texts,
    "Mapping[": mapping,
    "Sequence[Archived": _several,
    "Sequence[Session": _several,
    "Iterable[AgentHome": _several,
    "Iterable[tuple[": _several,
    "Collection[AgentHome": _several,
}
#: Values of ours, by the name of their class.
_VALUES = (
    "AgentHome",
    "Checkpoint",
    "CheckpointPolicy",
    "Diagnosis",
    "GuardOptions",
    "Place",
    "Policy",
    "Prices",
    "Search",
    "SessionFilter",
    "SessionOptions",
    "TrashEntry",
)
