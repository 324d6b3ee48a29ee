"""The arguments of public methods, checked against their annotations before anything is done.

Python ignores annotations, and many hosts run no type checker. Unchecked, `use_trash="no"` counts
as true, and a wrong type fails somewhere inside, perhaps halfway through the work. So every public
class of the API is `checked`: the annotation of a parameter decides how it is checked. Parameters
that take several forms, such as ids, moments and sizes, are not in the table: the functions that
turn those into values check them.
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
    _Class = TypeVar("_Class", bound=type)
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


def called(name: str) -> Callable[[_Class], _Class]:
    """For a public class: the errors that Python raises for wrong arguments name a method as
    callers write it, `home.undo()`. They would name the class that defines it, which is often a
    base class that callers never see."""

    def with_name(kind: _Class) -> _Class:
        for base in kind.__mro__[:-1]:
            for each in vars(base).values():
                if isinstance(each, FunctionType) and not each.__name__.startswith("_"):
                    inner = _innermost(each)
                    inner.__qualname__ = f"{name}.{inner.__name__}"
        return kind

    return with_name


def made_by(way: str) -> Callable[[_Class], _Class]:
    """For a public class whose objects come from a method: a wrong call of its constructor raises
    `UsageError`, and the hint names the `way` to get an object."""

    def with_hint(kind: _Class) -> _Class:
        made = vars(kind).get("__init__") or getattr(kind, "__init__")  # noqa: B009 - as below
        checks = _checks(made)
        code = made.__code__
        places = code.co_varnames[1 : code.co_argcount]
        known = {*places, *code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]}
        optional = {*places[len(places) - len(made.__defaults__ or ()) :]}
        needed = known - optional - {*(made.__kwdefaults__ or {})}
        hint = f"Get one with {way}."

        @functools.wraps(made)
        def making(self: object, *args: Any, **given: Any) -> None:
            named = dict(zip(places, args, strict=False)) | given
            if len(args) > len(places) or not needed <= named.keys() <= known:
                raise UsageError(f"{kind.__name__}(…) cannot be called like this.", hint=hint)
            try:
                for name, check in checks.items():
                    if name in named:
                        check(named[name], f"`{name}`")
            except UsageError as error:
                error.hint = hint
                raise
            made(self, *args, **given)

        setattr(kind, "__init__", making)  # noqa: B010 - a type checker sees the class as it was
        return kind

    return with_hint


def _checking(function: Any) -> Any:
    checks = _checks(function)
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


def _checks(function: Any) -> Mapping[str, Check]:
    return {
        name: check
        for name, said in function.__annotations__.items()
        if name != "return" and (check := _check_of(said)) is not None
    }


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


def _having(method: str, value: object, what: str) -> None:
    """An object behind a port, recognised by one of its methods."""
    if not callable(getattr(value, method, None)):
        raise UsageError(f"{what} cannot be {shown(value)}.")


def _several(value: object, what: str) -> None:
    if isinstance(value, str | bytes) or not hasattr(type(value), "__iter__"):
        raise UsageError(f"{what} must be a list or the like, not {shown(value)}.")


_CHECKS: Mapping[str, Check] = {
    "bool": flag,
    "bool | Setup": _flag_or_setup,
    "int": whole,
    "float": amount,
    "str": _text,
    "CheckpointStore": functools.partial(_having, "captured"),
    "Clock": _callable,
    "GuardBook": functools.partial(_having, "standing"),
    "Maps": mapping,
    "Path": _path,
    "Progress": _progress,
    "SessionStore": functools.partial(_having, "find"),
}
_GENERIC: Mapping[str, Check] = {
    "Callable[": _callable,
    "Mapping[str, str]": _texts,
    "Mapping[": mapping,
    "Sequence[Archived": _several,
    "Sequence[Message": _several,
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
    "Estimate",
    "GuardOptions",
    "GuardRules",
    "Place",
    "Policy",
    "Prices",
    "Search",
    "Session",
    "SessionFilter",
    "SessionOptions",
    "TrashEntry",
    "Usage",
)
