"""Files of Hermes that a bad disk or a stranger changed: read as far as they go, nothing worse."""

from __future__ import annotations

import json
import math
import socket
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import DamageError
from holdfast.homes.hermes.repository import chains, notes
from holdfast.homes.hermes.repository.adoption import size_limit
from holdfast.homes.hermes.repository.chains import read_cuts
from holdfast.homes.hermes.repository.layout import HermesLayout, named, parse_record
from holdfast.homes.hermes.repository.locks import gc_lock
from holdfast.homes.hermes.repository.notes import Mark, Notes
from holdfast.homes.hermes.repository.reclaim import indexed
from holdfast.homes.hermes.repository.why_read_only import doubt
from holdfast.stores.git.index_file import index_bytes
from tests.property.damage import JSON, changed, damaged

PROJECT = "0123456789abcdef"
COMMIT = "c" * 40
RECORD = {"workdir": "/work/site", "created_at": 1790000000.5, "last_touch": 1790003600}
RAW = (
    f"tree {'a' * 40}\nparent {'b' * 40}\nauthor Hermes <h@local> 1790000000 +0000\n"
    "committer Hermes <h@local> 1790000000 +0000\n\nbefore write_file: a.txt\n"
).encode()
PACKED = f"# pack-refs with: peeled fully-peeled sorted\n{COMMIT} refs/hermes/{PROJECT}\n".encode()
CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n"
INDEX = bytes(index_bytes({b"a.txt": bytes(40) + b"\1" * 20, b"dir/b.txt": bytes(40) + b"\2" * 20}))
NOTES = {
    "format": 1,
    "record": {**RECORD, "text": json.dumps(RECORD)},
    "mount": "",
    "disk": "",
    "marks": {COMMIT: {"tree": "a" * 40, "reason": "why", "pinned": True, "name": None}},
    "followed": {COMMIT: "b" * 40},
}


def layout(made: str) -> HermesLayout:
    found = HermesLayout(folder=Path(made), notes=Path(made, "notes"))
    for each in (found.records, found.indexes):
        each.mkdir(parents=True)
    return found


@given(
    changed(RECORD) | damaged(json.dumps(RECORD).encode()) | JSON.map(json.dumps).map(str.encode)
)
def test_a_record_says_a_directory_and_two_times_or_nothing(data: bytes) -> None:
    found = parse_record(data)
    if found is not None:
        assert found.workdir
        assert "\0" not in found.workdir
        assert math.isfinite(found.created_at)
        assert math.isfinite(found.last_touch)


def test_a_whole_record_is_read() -> None:
    found = parse_record(json.dumps(RECORD).encode())
    assert found is not None
    assert (found.workdir, found.created_at, found.last_touch) == tuple(RECORD.values())


@given(damaged(RAW) | st.binary(max_size=200))
def test_a_commit_is_a_checkpoint_or_damage(raw: bytes) -> None:
    try:
        found = chains.parse_link(COMMIT, raw)
    except DamageError:
        return
    assert len(found.tree) == 40
    assert len(found.parent) in (0, 40)
    assert "\n" not in found.reason
    assert math.isfinite(found.time)


@given(changed(NOTES) | damaged(json.dumps(NOTES).encode()))
def test_notes_of_ours_are_read_as_far_as_they_go(data: bytes) -> None:
    found = notes.parse_notes(data)
    assert isinstance(found, Notes)
    assert all(isinstance(mark, Mark) for mark in found.marks.values())


@given(damaged(f"{COMMIT}\n{'d' * 40}\n".encode()))
def test_cuts_are_ids_and_nothing_else(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as made:
        Path(made, "shallow").write_bytes(data)
        assert all(len(cut) == 40 for cut in read_cuts(Path(made)))


@given(damaged(PACKED), damaged(CONFIG), changed(RECORD))
def test_whether_a_layout_is_known_can_always_be_said(
    packed: bytes, config: bytes, record: bytes
) -> None:
    with tempfile.TemporaryDirectory() as made:
        found = layout(made)
        (found.store / "packed-refs").write_bytes(packed)
        (found.store / "config").write_bytes(config)
        (found.records / f"{PROJECT}.json").write_bytes(record)
        why = doubt(found)
        assert why is None or why
        assert all(isinstance(name, str) for name in named(found.store))


@given(damaged(INDEX) | st.binary(max_size=100))
def test_what_an_index_names_is_ids_or_nothing(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as made:
        found = layout(made)
        (found.indexes / PROJECT).write_bytes(data)
        assert all(len(oid) == 20 for oid in indexed(found))


@given(damaged(b"checkpoints:\n  max_file_size_mb: 7  # small\n"))
def test_a_limit_is_a_number_of_bytes(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as made:
        Path(made, "config.yaml").write_bytes(data)
        assert size_limit(Path(made)) > 0


@given(
    st.text(max_size=40).map(lambda text: "".join(text.split()).encode())
    | st.integers(10**8).map(lambda process: f"{process} {socket.gethostname()}".encode())
)
def test_a_lock_of_nobody_keeps_nobody_out(data: bytes) -> None:
    """None of these names a process that lives."""
    with tempfile.TemporaryDirectory() as made:
        Path(made, "gc.pid").write_bytes(data)
        with gc_lock(Path(made), wait=0):
            assert Path(made, "gc.pid").exists()
