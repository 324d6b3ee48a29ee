"""An index of git, changed without git: it is the index that would have been written at once."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.stores.git.index_file import (
    index_bytes,
    index_entries,
    patched_index,
    read_index,
    row_kind,
    row_oid,
)

names = st.sampled_from([b"a", b"a-", b"a0", b"b", b"\xff", b"long" * 1_100])
paths = st.lists(names, min_size=1, max_size=3).map(b"/".join)
rows = st.binary(min_size=60, max_size=60)


def without_conflicts(files: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """No file is above another one."""
    return {
        path: row
        for path, row in files.items()
        if not any(other.startswith(path + b"/") for other in files)
    }


@given(st.dictionaries(paths, rows), st.dictionaries(paths, st.none() | rows))
def test_a_patched_index_is_the_index_of_both(
    before: dict[bytes, bytes], changes: dict[bytes, bytes | None]
) -> None:
    before = without_conflicts(before)
    new = without_conflicts({path: row for path, row in changes.items() if row is not None})
    patch = {path: row for path, row in changes.items() if row is None or path in new}
    kept = {
        path: row
        for path, row in before.items()
        if path not in patch
        and not any(path.startswith(each + b"/") or each.startswith(path + b"/") for each in new)
    }
    made = patched_index(bytes(index_bytes(before)[:-20]), patch)
    assert made == index_bytes(kept | new)


def test_what_git_keeps_beside_the_files_goes() -> None:
    body = bytes(index_bytes({b"a": bytes(60)})[:-20]) + b"TREE\0\0\0\4abcd"
    assert patched_index(body, {b"b": bytes(60)}) == index_bytes({b"a": bytes(60), b"b": bytes(60)})


def test_a_row_tells_its_kind_and_its_object(tmp_path: Path) -> None:
    row = bytes(24) + (0o100755).to_bytes(4, "big") + bytes(12) + b"\7" * 20
    (tmp_path / "index").write_bytes(index_bytes({b"a": row}))
    (entry,) = index_entries(read_index(tmp_path / "index"))
    assert (entry.kind, entry.oid) == (row_kind(row), row_oid(row)) == (0o100755, b"\7" * 20)
