"""Values as JSON: written field by field, and read with every field checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum

from holdfast.errors import HoldfastError

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Any, NoReturn, TypeVar

    E = TypeVar("E", bound=StrEnum)
    V = TypeVar("V")

#: The first number too large for SQLite and for system calls.
TOO_LARGE = 2**63
_INFINITE = float("inf")


class JsonValue:
    """A value whose JSON has all its fields, under their names."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self)


def fields_to_json(value: object, *more: str, without: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a value except `without`, plus the properties named in `more`."""
    names = [name for name in type(value).__slots__ if name not in without]  # type: ignore[attr-defined]
    return {name: _plain(getattr(value, name)) for name in (*names, *more)}


def fields_from_json(kind: type[V], data: Mapping[str, Any], **known: Any) -> V:
    """Build a value from fields that `fields_to_json` wrote, and from `known` ones. A missing field
    keeps its default. A damaged record raises one of `NO_RECORD`."""
    for name, how in kind.__annotations__.items():
        if name in data and name not in known:
            known[name] = _FROM_JSON[how](data[name])
    return kind(**known)


#: What reading a damaged record may raise.
NO_RECORD = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

_FROM_JSON: Mapping[str, Callable[[Any], Any]] = {
    **{kind.__name__: kind for kind in (str, int, float, bool)},
    "str | None": lambda value: None if value is None else str(value),
    "int | None": lambda value: None if value is None else int(value),
    "float | None": lambda value: None if value is None else float(value),
    "bool | None": lambda value: None if value is None else bool(value),
    "tuple[str, ...]": lambda value: tuple(map(str, value)),
    "tuple[str, ...] | None": lambda value: None if value is None else tuple(map(str, value)),
    "frozenset[str]": lambda value: frozenset(map(str, value)),
    "Mapping[str, str]": lambda value: {str(key): str(each) for key, each in value.items()},
}


_AS_IT_IS = {str, int, float, bool, type(None)}


def _plain(value: object) -> object:
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value.to_json() if hasattr(value, "to_json") else value


class Reader:
    """A JSON object that a person may have edited. Its fields are read by type. A wrong field
    raises `error`, which names it."""

    def __init__(self, value: object, what: str, error: type[HoldfastError]) -> None:
        self._what = what
        self._error = error
        if not isinstance(value, dict):
            raise self._error(f"a {what} must be an object, not {_name(value)}")
        self._fields: Mapping[str, object] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def value(self, key: str) -> object:
        if key not in self._fields:
            raise self._error(f"a {self._what} without `{key}`")
        return self._fields[key]

    def text(self, key: str) -> str:
        value = self.value(key)
        return value if isinstance(value, str) else self._wrong(key, "text", value)

    def flag(self, key: str) -> bool:
        value = self.value(key)
        return value if isinstance(value, bool) else self._wrong(key, "true or false", value)

    def whole(self, key: str) -> int:
        """A count: a non-negative integer that fits into a store."""
        value = self.value(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < TOO_LARGE:
            return value
        if isinstance(value, int) and value >= TOO_LARGE:
            raise self._error(f"`{key}` of a {self._what} is far too large")
        return self._wrong(key, "a whole number, 0 or more", value)

    def number(self, key: str) -> float:
        value = self.value(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                number = _INFINITE
            if -_INFINITE < number < _INFINITE:
                return number
        return self._wrong(key, "a number", value)

    def array(self, key: str) -> Sequence[object]:
        value = self.value(key)
        return value if isinstance(value, list) else self._wrong(key, "a list", value)

    def choice(self, key: str, choices: type[E]) -> E:
        value = self.value(key)
        try:
            return choices(value)  # type: ignore[arg-type]
        except ValueError:
            return self._wrong(key, "one of " + ", ".join(choices), value)

    def _wrong(self, key: str, wanted: str, value: object) -> NoReturn:
        raise self._error(f"`{key}` of a {self._what} must be {wanted}, not {_name(value)}")


def _name(value: object) -> str:
    """A short word for a value of the wrong type; never its content, which may be private."""
    if value is None:
        return "null"
    return {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }.get(type(value), type(value).__name__)
