"""The difference between two trees as text, in git's own words."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.stores.files import storage_errors
from holdfast.stores.shadowgit.git import Git, Said

_FILES = "files"
_IN_MEMORY = 1 << 22


def patch(store: Path, old: str, new: str, paths: Sequence[str] = ()) -> Iterator[bytes]:
    """What `git apply` understands, line by line. Odd names are quoted, contents are not."""
    return _lines(Git(store=store), ("-p",), old, new, paths)


def statistics(
    store: Path, old: str, new: str, paths: Sequence[str] = (), *, width: int
) -> Iterator[bytes]:
    """One line a file with its share of the changes, and a sum."""
    return _lines(Git(store=store), (f"--stat={width}", "--summary"), old, new, paths)


def kept(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The same lines, read to their end at once: whoever shows them may take his time, and need
    not keep others from the store meanwhile."""
    file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed when read
    with storage_errors("write a difference to the folder for temporary files"):
        file.writelines(lines)
        file.seek(0)
    return _read(file)


def _read(file: tempfile.SpooledTemporaryFile[bytes]) -> Iterator[bytes]:
    with file:
        yield from file


def _lines(
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
            # Whoever read this has seen enough; git would write into a full pipe for ever.
            with contextlib.suppress(OSError):
                process.kill()
            raise
        status = process.wait()
    if status:
        raise git.failed("diff-tree", Said(status=status, output=b"", errors=errors))
