"""`holdfast.value.dataclass` does what the standard one does, and compiles nothing early."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from holdfast import value
from holdfast.model.session import Tokens


def classes(made_by: Any) -> SimpleNamespace:
    """The same classes, defined with either module."""
    dataclass, field = made_by.dataclass, made_by.field

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Frozen:
        """A value like most of ours."""

        limit: ClassVar[int] = 3
        name: str
        size: int = 1
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)

        def doubled(self) -> int:
            return int(self.size) * 2

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Child(Frozen):
        size: int = 9
        more: int = 0

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        one: int
        two: str = "b"

    @dataclass(frozen=True, slots=True)
    class Mixed:
        one: int
        _: KW_ONLY
        two: int = 2

    @dataclass(slots=True)
    class Mutable:
        count: int = 0
        seen: set[int] = field(default_factory=set)
        total: int = field(init=False)

        def __post_init__(self) -> None:
            self.total = self.count + 1

    @dataclass(frozen=True, slots=True, eq=False)
    class Identity:
        one: int

    @dataclass
    class Plain:
        one: int = 1

    return SimpleNamespace(
        Frozen=Frozen,
        Child=Child,
        Ordered=Ordered,
        Mixed=Mixed,
        Mutable=Mutable,
        Identity=Identity,
        Plain=Plain,
    )


OURS, THEIRS = classes(value), classes(dataclasses)

CASES: list[Callable[[Any], object]] = [
    lambda c: c.Frozen(name="a"),
    lambda c: c.Frozen("a"),
    lambda c: c.Frozen(),
    lambda c: c.Frozen(name="a", unknown=1),
    lambda c: c.Frozen(name="a", size=2, tags=["x"]),
    lambda c: c.Frozen(name="a").tags is c.Frozen(name="a").tags,
    lambda c: c.Frozen(name="a", note="b") == c.Frozen(name="a", note="c"),
    lambda c: c.Frozen(name="a") == c.Frozen(name="b"),
    lambda c: c.Frozen(name="a") == "a",
    lambda c: c.Frozen(name="a").doubled(),
    lambda c: c.Frozen.limit,
    lambda c: setattr(c.Frozen(name="a"), "name", "b"),
    lambda c: delattr(c.Frozen(name="a"), "name"),
    lambda c: hash(c.Frozen(name="a")),
    lambda c: c.Child(name="a"),
    lambda c: c.Child(name="a") == c.Frozen(name="a", size=9),
    lambda c: c.Ordered(1) < c.Ordered(1, "c"),
    lambda c: c.Ordered(1) >= c.Ordered(2),
    lambda c: c.Ordered(1) < 3,
    lambda c: c.Ordered(one=1, two="x"),
    lambda c: len({c.Ordered(1), c.Ordered(1), c.Ordered(2)}),
    lambda c: c.Ordered.__match_args__,
    lambda c: c.Frozen.__match_args__,
    lambda c: c.Mixed(1),
    lambda c: c.Mixed(1, two=3),
    lambda c: c.Mixed(1, 3),
    lambda c: c.Mutable(3),
    lambda c: c.Mutable(3).total,
    lambda c: c.Mutable(3, total=1),
    lambda c: hash(c.Mutable()),
    lambda c: c.Identity(1) == c.Identity(1),
    lambda c: c.Plain.one,
    lambda c: c.Plain(2).__dict__,
    lambda c: copy.copy(c.Ordered(4)),
    lambda c: copy.deepcopy(c.Frozen(name="a", tags=["x"])),
    lambda c: dataclasses.replace(c.Child(name="a"), more=3),
    lambda c: dataclasses.asdict(c.Child(name="a", more=3)),
    lambda c: [(f.name, f.type, f.init, f.kw_only) for f in dataclasses.fields(c.Mutable)],
    lambda c: dataclasses.is_dataclass(c.Ordered),
    lambda c: str(inspect.signature(c.Ordered)),
    lambda c: list(inspect.signature(c.Frozen).parameters),
    lambda c: hasattr(c.Frozen(name="a"), "__dict__"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("few", [0, 100], ids=["compiled", "not compiled"])
def test_a_value_does_what_the_standard_one_does(
    case: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value, "_FEW", few)
    assert outcome(CASES[case], classes(value)) == outcome(CASES[case], THEIRS)


def test_init_is_compiled_for_a_class_with_many_objects() -> None:
    @value.dataclass(frozen=True, slots=True)
    class Many:
        one: int

    first = Many.__init__
    Many(1)
    assert Many.__init__ is first
    made = {Many(number) for number in range(100)}
    assert Many.__init__ is not first
    assert Many(7) in made


def outcome(case: Callable[[Any], object], made: SimpleNamespace) -> str:
    """What came of it, in words: objects of two classes are never equal."""
    try:
        return repr(case(made))
    except Exception as error:  # noqa: BLE001 - errors are compared too
        return type(error).__name__


def test_a_copy_with_changes() -> None:
    changed = value.replace(OURS.Child(name="a"), more=3)
    assert changed == OURS.Child(name="a", more=3)
    with pytest.raises(ValueError, match="sets total by itself"):
        value.replace(OURS.Mutable(1), total=4)


def test_a_field_has_metadata() -> None:
    @value.dataclass(slots=True)
    class Declared:
        one: int = value.field(default=1, metadata={"unit": "days"})
        two: int = 2

    for fields in (value.fields(Declared), dataclasses.fields(Declared())):
        assert [(each.name, dict(each.metadata)) for each in fields] == [
            ("one", {"unit": "days"}),
            ("two", {}),
        ]


def test_a_value_is_pickled() -> None:
    copied = pickle.loads(pickle.dumps(Tokens(input=3)))  # noqa: S301 - our own bytes
    assert copied == Tokens(input=3)


def test_the_signature_of_a_class_is_known_before_its_first_object() -> None:
    @value.dataclass(frozen=True, slots=True, kw_only=True)
    class Fresh:
        one: int
        two: int = 2

    assert [each.name for each in inspect.signature(Fresh).parameters.values()] == ["one", "two"]
    assert Fresh(one=1) == Fresh(one=1, two=2)


def test_what_the_standard_library_asks_for_is_made_once_for_each_class() -> None:
    @value.dataclass(frozen=True, slots=True)
    class Base:
        one: int = 1

    @value.dataclass(frozen=True, slots=True)
    class Below(Base):
        two: int = 2

    first = [dataclasses.fields(each) for each in (Base, Below)]
    again = [dataclasses.fields(each) for each in (Base, Below)]
    assert [[each.name for each in fields] for fields in again] == [["one"], ["one", "two"]]
    assert [[*map(id, each)] for each in first] == [[*map(id, each)] for each in again]


def test_defining_values_needs_neither_dataclasses_nor_inspect() -> None:
    look = (
        "import sys; import holdfast.model.session, holdfast.model.plan;"
        "print(sorted({'dataclasses', 'inspect'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
