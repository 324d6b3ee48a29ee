"""Parents and children that leave and come back in any order.

A child that stays keeps a note of the parent that left, in its extra fields. The note is a part of
its row: it goes wherever the child goes, into the trash or the archive, and comes back with it. So
whoever comes back second finds the other. The caller names the field and has a write transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence

from holdfast.stores.sqlite.content import dump_extra, load_extra

_AMONG = "IN (SELECT value FROM json_each(?))"


def part(db: sqlite3.Connection, leaving: Sequence[int], awaiting: str) -> None:
    """Note for each child that stays which parent it loses. Before the parents go."""
    chosen = json.dumps(leaving)
    rows = db.execute(
        f"""
        SELECT child.number, parent.id FROM sessions child
        JOIN sessions parent ON parent.number = child.parent
        WHERE child.parent {_AMONG} AND child.number NOT {_AMONG}
        """,  # noqa: S608 - our own text
        (chosen, chosen),
    ).fetchall()
    for number, parent in rows:
        note(db, number, awaiting, parent)


def join(db: sqlite3.Connection, came_back: Collection[str], awaiting: str) -> None:
    """Give sessions their parents back: those that came back theirs, and those that stayed the
    ones that came back."""
    chosen = json.dumps(list(came_back))
    rows = db.execute(
        f"""
        SELECT child.number, child.id, parent.number, parent.id FROM sessions child
        JOIN sessions parent ON parent.id = child.extra ->> ?
        WHERE child.parent IS NULL AND child.extra IS NOT NULL AND instr(child.extra, ?) > 0
          AND (parent.id {_AMONG} OR child.id {_AMONG})
        """,  # noqa: S608 - our own text
        (f'$."{awaiting}"', awaiting, chosen, chosen),
    ).fetchall()
    for number, child_id, parent, parent_id in rows:
        if not descends(db, parent_id, child_id):  # an import may have turned them round meanwhile
            db.execute("UPDATE sessions SET parent = ? WHERE number = ?", (parent, number))
            note(db, number, awaiting, None)


def adopt(db: sqlite3.Connection, parent: int, children: Collection[str], awaiting: str) -> None:
    """Give a session that came back the children that its copy names, those without a parent."""
    rows = db.execute(
        f"""
        SELECT number, id, (SELECT id FROM sessions WHERE number = ?) FROM sessions
        WHERE parent IS NULL AND relation IS NOT NULL AND id {_AMONG}
        """,  # noqa: S608 - our own text
        (parent, json.dumps(list(children))),
    ).fetchall()
    for number, child_id, parent_id in rows:
        if not descends(db, parent_id, child_id):
            db.execute("UPDATE sessions SET parent = ? WHERE number = ?", (parent, number))
            note(db, number, awaiting, None)


def descends(db: sqlite3.Connection, session_id: str, ancestor: str) -> bool:
    """Whether one session comes from another, over any number of steps, or is the same."""
    found = db.execute(
        """
        WITH RECURSIVE line (number) AS (
            SELECT number FROM sessions WHERE id = ? COLLATE NOCASE
            UNION
            SELECT s.parent FROM sessions s JOIN line ON line.number = s.number
            WHERE s.parent IS NOT NULL
        )
        SELECT 1 FROM line JOIN sessions s ON s.number = line.number
        WHERE s.id = ? COLLATE NOCASE
        """,
        (session_id, ancestor),
    ).fetchone()
    return found is not None


def note(db: sqlite3.Connection, number: int, name: str, value: str | None) -> None:
    """Write an extra field of a session, or take it away."""
    [text] = db.execute("SELECT extra FROM sessions WHERE number = ?", (number,)).fetchone()
    extra = load_extra(text)
    if extra.get(name) == value:
        return
    extra.pop(name, None)
    if value is not None:
        extra[name] = value
    db.execute("UPDATE sessions SET extra = ? WHERE number = ?", (dump_extra(extra), number))
