"""A killed run left a bundle that somebody damaged: it costs itself, and the home goes on."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.homes.options import ArchiveOptions
from holdfast.model.item import ARCHIVED
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Result
from holdfast.model.session import Session
from holdfast.services.restore import chosen
from holdfast.spine.settle import settle
from tests import tally
from tests.archiving import (
    NOW,
    STAMPED,
    a_stored_session,
    archive,
    clock,
    everything,
    opened,
    store_of,
    with_files,
)

Places = list[tuple[str | int, ...]]
MADE: dict[str, bytes] = {}
FEW = settings(max_examples=max(25, settings().max_examples // 2), deadline=None)
ABSURD = st.sampled_from(
    [
        -1,
        2**31,
        2**32 - 1,
        2**32,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63) - 1,
        10**30,
        1e308,
        -1e308,
        1e-300,
    ]
)


@pytest.fixture(autouse=True, scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a real bundle consists of."""
    root = tmp_path_factory.mktemp("home")
    home = opened(root, ArchiveOptions(codec="gzip"))
    a_stored_session(home)
    with_files(home, STAMPED)
    archive(home, STAMPED)
    [made] = (root / "archive").glob("*.tar.gz")
    with tarfile.open(made) as tar:
        for member in tar:
            content = None if member.issym() else tar.extractfile(member)
            MADE[member.name] = member.linkname.encode() if content is None else content.read()


def numbers(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where numbers stand in a document."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield place
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, (*place, key))
    elif isinstance(value, list):
        for key, inner in enumerate(value):
            yield from numbers(inner, (*place, key))


def replaced(value: Any, place: tuple[str | int, ...], new: Any) -> None:
    for key in place[:-1]:
        value = value[key]
    value[place[-1]] = new


@st.composite
def bundles(draw: st.DrawFn) -> bytes:
    """A bundle whose sums are right and some of whose numbers are absurd."""
    beside, line = json.loads(MADE["beside.json"]), json.loads(MADE["session.jsonl"])
    for document in (beside, line):
        for place in draw(st.lists(st.sampled_from(list(numbers(document))), max_size=2)):
            replaced(document, place, draw(ABSURD))
    text = json.dumps(line).encode() + b"\n"
    beside["line"] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        changed = {**MADE, "beside.json": json.dumps(beside).encode(), "session.jsonl": text}
        for name, content in changed.items():
            member = tarfile.TarInfo(name)
            if name.endswith("112519.json"):
                member.type, member.linkname = tarfile.SYMTYPE, content.decode()
                tar.addfile(member)
                continue
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue())


def item(kind: str, name: str, version: str, action: Action) -> PlanItem:
    return PlanItem(
        kind=kind,
        id=name,
        source="cron",
        session=STAMPED,
        bytes=1,
        last_active_at=NOW,
        version=version,
        action=action,
        reason="by a run that was killed",
        undoable=True,
    )


@FEW
@given(bundles(), st.sampled_from(["restore", "archive", "undo"]))
def test_settling_goes_on_past_any_bundle(bundle: bytes, way: str) -> None:
    tally.injected()
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        home = opened(root)
        store = home.create_session_store()
        store.create(Session(id="other", source="cli", started_at=NOW - 9, last_active_at=NOW - 9))
        store.end("other", "done", at=NOW - 8)
        (root / "archive").mkdir()
        file = f"{STAMPED}.tar.gz"
        (root / "archive" / file).write_bytes(bundle)
        leave_unfinished(root, file, way)
        with home.log.writing("settle") as log:
            settle(log, home, clock=clock)
        assert all(each.finished_at is not None for each in home.log.read().operations)
        assert archive(home, "other").removed == 1
        assert {each.session.id for each in chosen(home.archive, ())} >= {"other"}
        lost = STAMPED not in everything(home) and not (root / "archive" / file).exists()
        assert not lost, "the damaged bundle is gone and its session did not come back"
        store_of(home).close()
    tally.verified()


def leave_unfinished(root: Path, file: str, way: str) -> None:
    """The journal of a run that was killed after it had announced what it would do."""
    home = opened(root)
    with home.log.writing("killed") as log:
        if way == "restore":
            chosen_item = item(ARCHIVED, file, "", Action.ARCHIVE)
            action = OperationAction.RESTORE
        else:
            chosen_item = item("session", STAMPED, "", Action.ARCHIVE)
            action = OperationAction.REMOVE
        with log.begin(action=action, command="killed", at=NOW) as journal:
            removal = Removal(operation=journal.operation, number=0, item=chosen_item)
            journal.intend([removal])
            if way == "undo":
                journal.record([removal], [removal.end(Result.REMOVED)])
                journal.finish(at=NOW)
        if way == "undo":
            with log.begin(
                action=OperationAction.UNDO, command="killed", at=NOW, undoes="1"
            ) as journal:
                journal.intend([Removal(operation="1", number=0, item=chosen_item)])
