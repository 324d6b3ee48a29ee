"""How two trees differ: as values, as numbers of lines, and as the text of `git diff`."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.model.checkpoint import Captured, Change, ChangeKind, Entry, Lines
from holdfast.stores.checkpoints.content import Content
from holdfast.stores.files import storage_errors
from holdfast.stores.git.program import Git, Said
from holdfast.stores.git.trees import LINK, TREE, Trees, path_text

_FILES = "files"
_IN_MEMORY = 1 << 22


def captured(trees: Trees, content: Content) -> Captured:
    """Everything in a checkpoint's tree, by path."""
    record = content.record
    files = {path_text(path): record.entry(path, node) for path, node in trees.files(content.files)}
    listed = {path for path in record.modes if path_text(path) not in files} | record.empty
    return Captured(
        files=files,
        directories={path_text(path): record.directory(path) for path in listed},
        empty=frozenset(path_text(path) for path in record.empty),
        usual_directory=record.usual.directory,
    )


def changes(trees: Trees, old: Content, new: Content) -> Sequence[Change]:
    """What differs between two trees, sorted by path."""
    sides: dict[bytes, tuple[Entry | None, Entry | None]] = {}
    for path, was, now in trees.differing(old.files, new.files):
        sides[path] = (
            None if was is None else old.record.entry(path, was),
            None if now is None else new.record.entry(path, now),
        )
    for path in _suspects(trees, old, new) - sides.keys():
        sides[path] = (_entry(trees, old, path), _entry(trees, new, path))
    found = [_change(path_text(path), was, now) for path, (was, now) in sides.items() if was != now]
    return sorted(found, key=lambda change: change.path)


def _suspects(trees: Trees, old: Content, new: Content) -> set[bytes]:
    """Paths whose permissions may differ, or that are directories of their own."""
    if old.record == new.record:
        return set()
    listed = {*old.record.modes, *new.record.modes, *old.record.empty, *new.record.empty}
    if old.record.usual != new.record.usual:
        # Paths that no record lists have the usual permissions, which differ.
        listed |= _places(trees, old) & _places(trees, new)
    return listed


def _places(trees: Trees, content: Content) -> set[bytes]:
    """Every file and every directory above one."""
    found: set[bytes] = set()
    for path, _ in trees.files(content.files):
        place = path
        while place and place not in found:
            found.add(place)
            place = place.rpartition(b"/")[0]
    return found


def _entry(trees: Trees, content: Content, path: bytes) -> Entry | None:
    """What a path is in a tree; a directory counts when it is there by itself or is above files."""
    node = trees.at(content.files, path)
    if node is None:
        return content.record.directory(path) if _is_directory(content, path) else None
    if node[0] == TREE:
        return content.record.directory(path)
    return content.record.entry(path, node)


def _is_directory(content: Content, path: bytes) -> bool:
    below = path + b"/"
    return path in content.record.empty or any(
        empty.startswith(below) for empty in content.record.empty
    )


def _change(path: str, old: Entry | None, new: Entry | None) -> Change:
    kind = ChangeKind.MODIFIED
    if old is None:
        kind = ChangeKind.ADDED
    elif new is None:
        kind = ChangeKind.DELETED
    elif _type(old) != _type(new):
        kind = ChangeKind.TYPE
    return Change(path=path, kind=kind, old=old, new=new)


def _type(entry: Entry) -> int:
    if entry.is_directory:
        return TREE
    return LINK if entry.is_link else 0


def patch(store: Path, old: str, new: str, paths: Sequence[str] = ()) -> Iterator[bytes]:
    """What `git apply` understands, line by line. Odd names are quoted, contents are not."""
    return _diff_lines(Git(store=store), ("-p",), old, new, paths)


def statistics(
    store: Path, old: str, new: str, paths: Sequence[str] = (), *, width: int
) -> Iterator[bytes]:
    """One line a file with its share of the changes, and a sum."""
    return _diff_lines(Git(store=store), (f"--stat={width}", "--summary"), old, new, paths)


def spooled(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The same lines, read to the end now, so that a slow reader does not keep the store locked."""
    file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed when read
    with storage_errors("write a difference to the folder for temporary files"):
        file.writelines(lines)
        file.seek(0)
    return _read_spooled(file)


def _read_spooled(file: tempfile.SpooledTemporaryFile[bytes]) -> Iterator[bytes]:
    with file:
        yield from file


def _diff_lines(
    git: Git, form: Sequence[str], old: str, new: str, paths: Sequence[str]
) -> Iterator[bytes]:
    arguments = (
        "diff-tree",
        *form,
        "--find-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        f"{old}:{_FILES}",
        f"{new}:{_FILES}",
        "--",
        *paths,
    )
    with git.start(*arguments) as process:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise AssertionError("git was started without pipes")
        process.stdin.close()
        try:
            yield from process.stdout
            errors = process.stderr.read()
        except BaseException:
            # The reader stopped early; git would block on a full pipe forever.
            with contextlib.suppress(OSError):
                process.kill()
            raise
        status = process.wait()
    if status:
        raise git.failed("diff-tree", Said(status=status, output=b"", errors=errors))


def git_lines(git: Git, old: str, new: str) -> Lines:
    """The same for any two trees, by `git diff`."""
    said = git.run("diff-tree", "-r", "--numstat", "-z", "--no-renames", old, new)
    insertions = deletions = 0
    for row in said.output.split(b"\0"):
        added, _, rest = row.partition(b"\t")
        removed = rest.partition(b"\t")[0]
        # Binary files have a dash.
        insertions += int(added) if added.isdigit() else 0
        deletions += int(removed) if removed.isdigit() else 0
    return Lines(insertions=insertions, deletions=deletions)
