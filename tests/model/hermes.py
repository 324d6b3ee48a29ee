"""A home of Hermes as the beginning of a sequence: what its release recorded is what was made."""

from __future__ import annotations

import re

from tests.compat.hermes_sessions import NOW, recorded
from tests.model.kept import SESSIONS, STORE, File, Model, Session
from tests.model.look import look
from tests.model.world import World

#: What agents do is Hermes's own business there.
STEPS = (
    *("wait", "prune", "gc", "delete", "archive", "restore", "prune_archive", "undo", "empty"),
    "maintain",
)


def begin(world: World) -> Model:
    """Unpack it; everything in it is a session, or a file of one."""
    recorded(world.root)
    (world.home / ".holdfast").mkdir(mode=0o700)
    (world.home / ".holdfast" / "config.toml").write_text(world.config)
    world.now = NOW
    seen = look(world)
    model = Model()
    for name, found in seen.store.items():
        made = Session(id=name, line=found.line, row=found.row, key=found.key, place=STORE)
        model.sessions.append(made)
    for each in model.sessions:
        parent = seen.store[each.id].parent_id
        each.parent = None if parent is None else model.stored(parent)
    for name, (content, touched) in seen.files.items():
        owner = next((s.id for s in model.sessions if _in_names(s.id) in name), "")
        model.files.append(
            File(name=name, session=owner, content=content, touched=touched, place=SESSIONS)
        )
    return model


def _in_names(session: str) -> str:
    """An id that is no name of a file has another shape there."""
    return re.sub(r"[^\w.-]", "_", session)
