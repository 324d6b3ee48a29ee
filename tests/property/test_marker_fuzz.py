"""A marker that somebody damaged, or made up, counts as never: maintenance runs all the same."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.homes.maintenance import maintain
from holdfast.model.maintenance import Marker, Told
from holdfast.policy.maintenance_due import is_due, next_due
from holdfast.stores.maintenance_marker import MARKER, FileMaintenanceGate
from tests import tally
from tests.property.damage import JSON, changed, damaged

NOW = 1_800_000_000.0
DOCUMENT = {
    "format": 1,
    "finished_at": NOW - 5,
    "ok": True,
    "done": {"0123456789abcdef": NOW - 5},
    "told": {"cap/max_count": {"state": "near", "at": NOW - 5}},
}
MARKERS = (
    changed(DOCUMENT)
    | damaged(json.dumps(DOCUMENT).encode())
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=60)
)


@given(MARKERS)
@example(json.dumps(DOCUMENT | {"told": []}).encode())
@example(json.dumps(DOCUMENT | {"told": {"x": None}}).encode())
@example(json.dumps(DOCUMENT | {"finished_at": 10**400}).encode())
@example(json.dumps(DOCUMENT | {"done": []}).encode())
@example(json.dumps(DOCUMENT | {"done": {"x": None}}).encode())
@example(b"[" * 2_000)
def test_any_marker_is_read_or_counts_as_never(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "operations").mkdir()
        (home / "operations" / MARKER).write_bytes(content)
        gate = FileMaintenanceGate(home)
        marker = gate.read()
        assert isinstance(marker, Marker)
        assert all(isinstance(each, Told) for each in marker.told.values())
        assert is_due(marker, NOW, 60.0) or next_due(marker, NOW, 60.0) > NOW
        result = maintain(home, force=True, clock=lambda: NOW)
        assert (result.error, result.skipped) == (None, None)
        assert all(step.error is None for step in result.steps)
        assert gate.read().finished_at == NOW
        tally.verified()
