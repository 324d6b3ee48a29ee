"""Entries of shared files: for any file, what leaves comes back, and the rest keeps its bytes."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.part import LinePart, Slot
from holdfast.parts.lines import LineMover

OWNERS = "abc"
_TEXT = st.text(max_size=6)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=4,
)
_LINES = st.lists(
    st.builds(
        lambda owner, more: json.dumps({"s": owner, "t": more}).encode(),
        st.sampled_from(OWNERS),
        _JSON,
    )
    | st.binary(max_size=8).filter(lambda line: b"\n" not in line),
    max_size=8,
)


def slots(folder: Path, *parts: LinePart) -> list[Slot]:
    made = [
        Slot(number=number, index=0, part=part, stamp="", folder=folder)
        for number, part in enumerate(parts)
    ]
    seen = LineMover().look(made)
    return [
        replace(slot, stamp=sight.stamp)
        for slot, sight in zip(made, seen, strict=True)
        if sight.here
    ]


#: Of a session that does not leave: one that comes back by itself is another story.
_LATE = st.lists(
    st.builds(lambda more: json.dumps({"s": "z", "t": more}).encode(), _JSON), max_size=3
)


@given(
    lines=_LINES,
    gone=st.sets(st.sampled_from(OWNERS), min_size=1),
    late=_LATE,
    ends=st.booleans(),
)
def test_lines_come_back_and_the_rest_never_moves(
    lines: list[bytes], gone: set[str], late: list[bytes], ends: bool
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path, folder = Path(scratch, "h.jsonl"), Path(scratch, "7", "units-0")
        folder.mkdir(parents=True)
        before = b"\n".join(lines) + (b"\n" if ends and lines else b"")
        path.write_bytes(before)
        parts = [LinePart(path=path, key="s", value=name, lines=True) for name in sorted(gone)]
        batch = slots(folder, *parts)
        if not batch:
            return
        mover = LineMover()
        mover.copy(batch)
        assert set(mover.drop(batch)) == {None}
        mine = {line for line in lines if _owner(line) in gone}
        rest = [line for line in lines if line not in mine]
        assert [each for each in path.read_bytes().split(b"\n") if each] == [e for e in rest if e]
        if late and ends:
            with path.open("ab") as file:
                file.write(b"".join(line + b"\n" for line in late))
        assert set(mover.put_back(batch)) == {None}
        after = path.read_bytes()
        if late and ends:
            kept = [line for line in after.split(b"\n") if line and line not in mine]
            assert kept == [line for line in (*rest, *late) if line and line not in mine]
        else:
            assert after == before


def _owner(line: bytes) -> object:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said.get("s") if isinstance(said, dict) else None


@given(
    before=st.dictionaries(_TEXT, _JSON, min_size=1, max_size=5),
    indent=st.sampled_from([None, 1, 2, 4, "\t"]),
    escaped=st.booleans(),
    end=st.sampled_from(["", "\n"]),
    data=st.data(),
)
def test_entries_of_a_map_come_back_in_their_style(
    before: dict[str, object],
    indent: int | str | None,
    escaped: bool,
    end: str,
    data: st.DataObject,
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path, folder = Path(scratch, "s.json"), Path(scratch, "7", "units-0")
        folder.mkdir(parents=True)
        text = json.dumps({"v": 1, "m": before}, indent=indent, ensure_ascii=escaped) + end
        raw = text.encode("utf-8", "surrogatepass")
        path.write_bytes(raw)
        gone = data.draw(st.sets(st.sampled_from(sorted(before)), min_size=1))
        batch = slots(folder, *(LinePart(path=path, at=("m",), value=n) for n in sorted(gone)))
        if not batch:
            return  # bytes that no style reproduces are left alone
        mover = LineMover()
        mover.copy(batch)
        assert set(mover.drop(batch)) == {None}
        left = json.loads(path.read_bytes())["m"]
        assert left == {name: what for name, what in before.items() if name not in gone}
        assert set(mover.put_back(batch)) == {None}
        assert path.read_bytes() == raw
