"""A key of the configuration, declared once, as a field of the settings:

    keep_last: int = key(Number(0, 100), 20, "How many to keep.")

Checks, defaults, environment variables, the file that `config init` writes and the tables of
docs/configuration.md are all derived from that declaration.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast.config import VARIABLE_PREFIX
from holdfast.config.kinds import Kind, Value
from holdfast.value import dataclass, field, fields

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key. A key without a default has no value until it is set; it has an example instead.

    A `per_source` key may also be in the table of one source, [sessions.source.NAME]. `was` lists
    the names of the setting in older documents and in other tools.
    """

    path: tuple[str, ...]
    kind: Kind
    default: Value | None = None
    example: Value | None = None
    about: tuple[str, ...] = ()
    per_source: bool = False
    was: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def table(self) -> str:
        """The table of the key; "" for the top of the file."""
        return self.path[0] if len(self.path) > 1 else ""

    @property
    def variable(self) -> str:
        """The environment variable that overrides the key."""
        return VARIABLE_PREFIX + "_".join(self.path).upper()


def key(
    kind: Kind,
    default: Value | None,
    *about: str,
    example: Value | None = None,
    per_source: bool = False,
    was: tuple[str, ...] = (),
) -> Any:
    """Declare a key as a field of a settings class; its name is the name of the field."""
    declared = partial(
        Key,
        kind=kind,
        default=default,
        about=about,
        example=example,
        per_source=per_source,
        was=was,
    )
    return field(default=default, metadata={"key": declared})


def keys_of(settings: type, *table: str) -> dict[str, Key]:
    """The keys that a settings class declares, by name."""
    return {
        each.name: each.metadata["key"](path=(*table, each.name))
        for each in fields(settings)
        if "key" in each.metadata
    }
