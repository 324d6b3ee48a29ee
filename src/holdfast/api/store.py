"""The store that a home shares with other machines: its tables, and who may do what with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import StorageError, UsageError
from holdfast.model.json_value import JsonValue
from holdfast.value import dataclass

if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.api.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMade(JsonValue):
    """The store of a home. `place` is where it is, in words; `schema` the number of its tables."""

    place: str
    schema: int
    sql: str = ""


def init_store(place: Place, *, role: str | None = None) -> StoreMade:
    """Create the tables of the store that `[store] url` names, or bring them up to date. With
    `role`, that user of the database may read and write their rows."""
    schema, url = _schema(), _url(place)
    made = schema.create(url, role=role)
    return StoreMade(place=schema.place_of(url), schema=made)


def store_sql(place: Place, *, role: str | None = None) -> StoreMade:
    """The statements that `init_store` would run in an empty database, for a person to read and
    run. Connects to nothing, and needs no configured store."""
    schema, url = _schema(), place.settings.store.url
    text = schema.script() + schema.grants(role or "holdfast")
    return StoreMade(place=schema.place_of(url) if url else "", schema=schema.LATEST, sql=text)


def _url(place: Place) -> str:
    url = place.settings.store.url
    if not url:
        raise UsageError(
            f"The sessions of {place.root} are in the file sessions.db: no store is configured.",
            hint='Set `store.url` in config.toml, such as "postgresql://db.example.org/holdfast".',
        )
    return url


def _schema() -> ModuleType:
    try:
        from holdfast.stores.postgres import schema  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise StorageError(
            "A store in PostgreSQL needs psycopg, which is not installed.",
            hint="pip install 'holdfast[postgres]'",
        ) from error
    return schema
