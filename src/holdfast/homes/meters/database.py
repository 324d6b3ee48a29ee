"""Usage of an OpenCode session, from OpenCode's database, which includes the cost of each
answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.homes.meters.tally import (
    Marks,
    Reading,
    day_of,
    priced_from_rows,
    priced_rows,
    together,
)
from holdfast.model.loop import DayModels, Metered
from holdfast.model.session import Json, Tokens
from holdfast.model.usage import Usage
from holdfast.policy.loop_guard import less
from holdfast.stores.sqlite.foreign import reading

_KNOWN = "SELECT 1 FROM session WHERE id = ?1"
#: The session and its subagents, of any depth.
_USED = (
    "WITH RECURSIVE mine(id) AS (SELECT ?1 UNION"
    " SELECT s.id FROM session AS s JOIN mine ON s.parent_id = mine.id)"
    " SELECT date(m.time_created / 1000, 'unixepoch'), json_extract(m.data, '$.modelID'),"
    " total(json_extract(m.data, '$.tokens.input')),"
    " total(json_extract(m.data, '$.tokens.cache.write')),"
    " total(json_extract(m.data, '$.tokens.output')),"
    " total(json_extract(m.data, '$.tokens.reasoning')),"
    " total(json_extract(m.data, '$.tokens.cache.read')),"
    " total(json_extract(m.data, '$.cost')),"
    " total(json_extract(m.data, '$.time.completed') IS NOT NULL"
    " AND json_extract(m.data, '$.error') IS NULL"
    " AND (coalesce(json_type(m.data, '$.tokens.input'), '') NOT IN ('integer', 'real')"
    " OR coalesce(json_type(m.data, '$.tokens.output'), '') NOT IN ('integer', 'real')))"
    " FROM message AS m JOIN mine ON m.session_id = mine.id"
    " WHERE json_extract(m.data, '$.role') = 'assistant' GROUP BY 1, 2"
)
_LAST_TOOLS = (
    "SELECT json_extract(data, '$.state.status'), json_extract(data, '$.state.metadata.exit')"
    " FROM part WHERE session_id = ?1 AND json_extract(data, '$.type') = 'tool'"
    " ORDER BY id DESC LIMIT 20"
)


def from_database(paths: Sequence[Path], session: str, marks: Marks) -> tuple[Reading, Marks]:
    """Read the usage of a session. A database without the session is not the one that this OpenCode
    writes to."""
    path = next(iter(paths), None)
    before = _Spent(marks)
    if path is None or not path.exists():
        return Reading(metered=before.metered, missing=tuple(map(str, paths))), marks
    with reading(path) as db:
        known = db.execute(_KNOWN, (session,)).fetchone()
        found = db.execute(_USED, (session,)).fetchall()
        ends = db.execute(_LAST_TOOLS, (session,)).fetchall()
    if known is None:
        return Reading(metered=before.metered, missing=(str(path),)), marks
    by_day: dict[tuple[str, str], Usage] = {}
    unclear = 0
    for day, model, read, stored, written, thought, cached, cost, unsaid in found:
        unclear += int(unsaid)
        tokens = Tokens(input=int(read + stored), output=int(written + thought), cached=int(cached))
        # OpenCode stores a cost of 0 for a provider without prices, so 0 means unknown.
        unpriced = Tokens() if cost else tokens
        key = str(day or day_of(path.stat().st_mtime * 1000)), str(model or "")
        used = Usage(tokens=tokens, cost=cost, unpriced=unpriced)
        by_day[key] = by_day.get(key, Usage()).plus(used)
    errors = 0
    for status, code in ends:
        if status in ("pending", "running"):
            continue
        if status != "error" and not code:
            break
        errors += 1
    now = before.then(by_day)
    return Reading(metered=now.metered, errors=errors, unclear=unclear), now.to_json()


class _Spent:
    """The usage in a database now, and usage that was there before and is gone: a session that was
    reverted has still been paid for."""

    def __init__(self, said: Marks) -> None:
        self.used = priced_from_rows(said.get("used", ()))
        self.kept = priced_from_rows(said.get("kept", ()))

    def then(self, used: DayModels) -> _Spent:
        later = _Spent({})
        later.used = dict(used)
        for key in {**self.used, **self.kept}:
            fell = less(self.used.get(key, Usage()), used.get(key, Usage()))
            later.kept[key] = self.kept.get(key, Usage()).plus(fell)
        return later

    @property
    def metered(self) -> Metered:
        return Metered(by_day=together(self.used, self.kept))

    def to_json(self) -> dict[str, Json]:
        return {"used": priced_rows(self.used), "kept": priced_rows(self.kept)}
