"""A replacement for the standard library's `dataclass` whose classes cost next to nothing to
define.

The standard decorator compiles up to seven methods for each class, and imports `inspect` to do so.
A command defines more than a hundred values and creates objects of only a few, so nearly half of
its start-up time went into methods that were never called. Here all values share the methods.
`__init__` is compiled only for classes with many objects: compiling it costs as much as creating 50
objects without.

Type checkers see the standard decorator. `fields`, `asdict` and the other functions of
`dataclasses` accept these values too; their first use pays for the import.

This supports what Holdfast uses: `frozen`, `slots`, `kw_only`, `eq`, `order` and `KW_ONLY`, and for
a field `default`, `default_factory`, `init`, `compare`, `repr` and `metadata`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MemberDescriptorType


class _Missing:
    def __repr__(self) -> str:
        return "<not given>"


_MISSING = _Missing()
_NO_METADATA: Mapping[str, Any] = {}
#: Up to this many objects, compiling `__init__` is not worth it.
_FEW = 20


class _Field:
    """One field of a class. `name`, `kind` (the annotation) and `kw_only` come from the class."""

    __slots__ = (
        "compare",
        "default",
        "factory",
        "init",
        "kind",
        "kw_only",
        "metadata",
        "name",
        "repr",
    )

    def __init__(
        self,
        default: Any = _MISSING,
        factory: Any = _MISSING,
        *,
        init: bool = True,
        compare: bool = True,
        repr: bool = True,  # noqa: A002 - the standard library's name for it
        metadata: Mapping[str, Any] = _NO_METADATA,
    ) -> None:
        self.default = default
        self.factory = factory
        self.init = init
        self.compare = compare
        self.repr = repr
        self.metadata = metadata
        self.name = ""
        self.kind: Any = None
        self.kw_only = False


def _field(*, default: Any = _MISSING, default_factory: Any = _MISSING, **more: Any) -> Any:
    return _Field(default, default_factory, **more)


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    order: bool = False,
) -> Any:
    def wrap(cls: type) -> type:
        own = _own_fields(cls, kw_only=kw_only)
        methods = _methods(cls, own, frozen=frozen, eq=eq, order=order)
        return _with_slots(cls, own, methods) if slots else _without_slots(cls, own, methods)

    return wrap if cls is None else wrap(cls)


def _replace(value: Any, /, **changes: Any) -> Any:
    """A copy of a value with some of its fields changed."""
    cls = value.__class__
    names, get, set_by_itself = cls.__dict__.get("__value_given__") or _given(cls)
    for name in set_by_itself:
        if name in changes:
            raise ValueError(f"{cls.__name__} sets {name} by itself.")
    if get is None:
        changes |= {name: getattr(value, name) for name in names if name not in changes}
    else:
        changes = dict(zip(names, get(value), strict=True)) | changes
    return cls(**changes)


def _given(cls: Any) -> tuple[tuple[str, ...], Any, tuple[str, ...]]:
    """What is needed to copy a value: field names, a getter that reads all of them at once (if
    there are two or more), and the names of fields that cannot be passed."""
    names = tuple(each.name for each in cls.__value_fields__ if each.init)
    alone = tuple(each.name for each in cls.__value_fields__ if not each.init)
    made = names, operator.attrgetter(*names) if len(names) > 1 else None, alone
    type.__setattr__(cls, "__value_given__", made)
    return made


def _fields(value: Any) -> tuple[_Field, ...]:
    """The fields of a value or of its class, each with its name and metadata."""
    found: tuple[_Field, ...] = value.__value_fields__
    return found


# --- Defining a class -----------------------------------------------------------------------------


def _own_fields(cls: type, *, kw_only: bool) -> Mapping[str, _Field]:
    found = {}
    for name, kind in cls.__annotations__.items():
        if str(kind).startswith(("ClassVar", "typing.ClassVar")):
            continue
        if str(kind) == "KW_ONLY":  # the fields that follow are keyword-only
            kw_only = True
            continue
        given = cls.__dict__.get(name, _MISSING)
        one = given if isinstance(given, _Field) else _Field(given)
        one.name, one.kind, one.kw_only = name, kind, kw_only
        found[name] = one
    return found


def _methods(
    cls: type, own: Mapping[str, _Field], *, frozen: bool, eq: bool, order: bool
) -> dict[str, Any]:
    """The methods to add to the class, unless it defines them itself."""
    all_fields: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        all_fields |= {each.name: each for each in base.__dict__.get("__value_fields__", ())}
    all_fields |= own
    fields = tuple(all_fields.values())
    compared = [each.name for each in fields if each.compare]
    methods: dict[str, Any] = {
        "__value_fields__": fields,
        "__value_uses__": [0],
        "__value_key__": operator.attrgetter(*compared) if compared else _no_key,
        "__dataclass_fields__": _STANDARD_FIELDS,
        "__signature__": _SIGNATURE,
        "__replace__": _replace,
        "__match_args__": tuple(each.name for each in fields if each.init and not each.kw_only),
        "__init__": _first_init,
        "__repr__": _repr,
    }
    if eq:
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if order:
        methods |= {"__lt__": _lt, "__le__": _le, "__gt__": _gt, "__ge__": _ge}
    if frozen:  # pickle and copy would otherwise set the attributes one by one
        methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    return {name: method for name, method in methods.items() if name not in cls.__dict__}


def _with_slots(cls: type, own: Mapping[str, _Field], methods: Mapping[str, Any]) -> type:
    """Slots must be known when a class is created, so this creates it a second time."""
    replaced = {*own, "__dict__", "__weakref__"}
    kept = {name: value for name, value in cls.__dict__.items() if name not in replaced}
    made = type(cls)(cls.__name__, cls.__bases__, {**kept, **methods, "__slots__": tuple(own)})
    made.__qualname__ = cls.__qualname__
    return made


def _without_slots(cls: type, own: Mapping[str, _Field], methods: Mapping[str, Any]) -> type:
    for name, each in own.items():
        if each.default is not _MISSING:
            setattr(cls, name, each.default)
        elif name in cls.__dict__:
            delattr(cls, name)
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


# --- The first object -----------------------------------------------------------------------------


def _first_init(self: Any, /, *args: Any, **kwargs: Any) -> None:
    """Used as `__init__` until enough objects were created."""
    owner: Any = next(each for each in type(self).__mro__ if "__init__" in each.__dict__)
    made = owner.__dict__["__init__"]
    if made is _first_init:  # otherwise another thread has compiled it
        counted = owner.__value_uses__
        counted[0] += 1
        values = _bound(owner, args, kwargs) if counted[0] <= _FEW else None
        if values is not None:
            for name, value in values.items():
                object.__setattr__(self, name, value)
            if hasattr(self, "__post_init__"):
                self.__post_init__()
            return
        made = _compiled_init(owner)
        owner.__init__ = made
    made(self, *args, **kwargs)


def _bound(cls: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The value for each field; None if the arguments do not fit, because a compiled `__init__`
    raises the best error for that."""
    taken: dict[str, Any] = {}
    given = iter(args)
    used = 0
    for each in cls.__value_fields__:
        value = _MISSING
        if each.init:
            value = _MISSING if each.kw_only else next(given, _MISSING)
            if each.name in kwargs:
                if value is not _MISSING:
                    return None
                value = kwargs[each.name]
                used += 1
        if value is _MISSING and each.factory is not _MISSING:
            value = each.factory()
        elif value is _MISSING:
            value = each.default
        if value is not _MISSING:
            taken[each.name] = value
        elif each.init:
            return None
    fits = used == len(kwargs) and next(given, _MISSING) is _MISSING
    return taken if fits else None


def _compiled_init(cls: Any) -> Callable[..., None]:
    frozen = cls.__setattr__ is _refuse_set
    known: dict[str, Any] = {"_MISSING": _MISSING, "_set": object.__setattr__}
    lines = []
    for each in cls.__value_fields__:
        known[f"_default_{each.name}"] = each.default
        known[f"_factory_{each.name}"] = each.factory
        value = _initial(each)
        if value:
            lines.append(
                _assigned(cls, each.name, value, known) if frozen else f"self.{each.name} = {value}"
            )
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    wanted = ", ".join(["self", *_parameters(cls.__value_fields__)])
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({wanted}):\n {body}", known)  # noqa: S102 - as the standard decorator does
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _assigned(cls: Any, name: str, value: str, known: dict[str, Any]) -> str:
    """The statement that sets a field of a frozen class. A slot sets itself in less than half the
    time that `object.__setattr__` takes to find it."""
    slot = getattr(cls, name, None)
    if not isinstance(slot, MemberDescriptorType):
        return f"_set(self, {name!r}, {value})"
    known[f"_set_{name}"] = slot.__set__
    return f"_set_{name}(self, {value})"


def _initial(each: _Field) -> str:
    """The expression for the initial value of a field; empty if `__post_init__` sets it."""
    if each.factory is not _MISSING:
        fresh = f"_factory_{each.name}()"
        return f"{fresh} if {each.name} is _MISSING else {each.name}" if each.init else fresh
    if each.init:
        return each.name
    return "" if each.default is _MISSING else f"_default_{each.name}"


def _parameters(fields: Sequence[_Field]) -> Iterator[str]:
    given = [each for each in fields if each.init]
    yield from (_parameter(each) for each in given if not each.kw_only)
    named = [_parameter(each) for each in given if each.kw_only]
    if named:
        yield from ("*", *named)


def _parameter(each: _Field) -> str:
    if each.factory is not _MISSING:
        return f"{each.name}=_MISSING"
    return each.name if each.default is _MISSING else f"{each.name}=_default_{each.name}"


# --- Methods that all values share ----------------------------------------------------------------


def _no_key(value: Any) -> tuple[()]:  # noqa: ARG001 - used like an attrgetter
    return ()


def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in self.__value_fields__ if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _hash(self: Any) -> int:
    return hash(type(self).__value_key__(self))


def _comparing(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        key = type(self).__value_key__
        return compare(key(self), key(other))

    return method


_eq = _comparing(operator.eq)
_lt = _comparing(operator.lt)
_le = _comparing(operator.le)
_gt = _comparing(operator.gt)
_ge = _comparing(operator.ge)


def _refuse_set(self: Any, name: str, value: Any) -> None:  # noqa: ARG001
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - the import that this file avoids

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:  # noqa: ARG001
    from dataclasses import FrozenInstanceError  # noqa: PLC0415

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in self.__value_fields__]


def _setstate(self: Any, state: Sequence[Any]) -> None:
    for each, value in zip(self.__value_fields__, state, strict=True):
        object.__setattr__(self, each.name, value)


# --- For readers that use the standard library ----------------------------------------------------


class _FromStandard:
    """What the standard decorator would have put on a class, created on first use: `asdict` of one
    value reads it several times."""

    def __init__(self, choose: Callable[[Any], Any]) -> None:
        self._choose = choose

    def __get__(self, value: object, cls: type) -> Any:
        made = cls.__dict__.get(_STANDARD)
        if made is None:
            made = _standard(cls)
            type.__setattr__(cls, _STANDARD, made)
        return self._choose(made)


_STANDARD = "__value_standard__"


def _standard(cls: Any) -> Any:
    import dataclasses  # noqa: PLC0415

    def declared(each: _Field) -> Any:
        given = {"default": each.default, "default_factory": each.factory}
        return dataclasses.field(
            **{name: value for name, value in given.items() if value is not _MISSING},
            init=each.init,
            compare=each.compare,
            repr=each.repr,
            kw_only=each.kw_only,
            metadata=each.metadata,
        )

    fields = [(each.name, each.kind, declared(each)) for each in cls.__value_fields__]
    return dataclasses.make_dataclass(cls.__name__, fields)


def _signature(standard: Any) -> Any:
    import inspect  # noqa: PLC0415

    return inspect.signature(standard)


_STANDARD_FIELDS = _FromStandard(lambda standard: standard.__dataclass_fields__)
_SIGNATURE = _FromStandard(_signature)

__all__ = ["KW_ONLY", "dataclass", "field", "fields", "replace"]

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from dataclasses import KW_ONLY, dataclass, field, fields, replace
    from typing import Any
else:
    KW_ONLY = "KW_ONLY"
    dataclass, field, fields, replace = _dataclass, _field, _fields, _replace
