"""Which names the ignore rules leave out: asked of git, so that the answer is git's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.stores.shadowgit.excludes import TEMPORARY
from holdfast.stores.shadowgit.git import EXCLUDES, Git, Said

# A question must fit into the pipe whole: we do not read before it is written, and git does not
# read on before its answer is taken.
_QUESTION_BYTES = 8_192
_FIELDS = 4
_CHUNK = 65_536


class Ignoring:
    """One `git check-ignore` that is started with the first question and answers all of them."""

    def __init__(self, git: Git, excludes: Path | None = None) -> None:
        """`excludes` are the rules that hold everywhere, if not those of the store."""
        self._git = git
        self._excludes = git.store / EXCLUDES if excludes is None else excludes
        #: What the rules that hold everywhere leave out, of all that was asked: each with its rule.
        self.standing: dict[bytes, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.communicate()

    def ask(self, paths: Sequence[bytes]) -> set[bytes]:
        """Those of the paths that are ignored."""
        ignored: set[bytes] = set()
        for question in _questions(paths):
            ignored |= self._answer(question)
        return ignored

    def _answer(self, paths: list[bytes]) -> set[bytes]:
        process = self._started()
        if process.stdin is None or process.stdout is None:
            raise AssertionError("git was started without pipes")
        try:
            # It knows no literal paths, but after a dot a colon is a colon.
            process.stdin.write(b"".join(b"./%b\0" % path for path in paths))
            process.stdin.flush()
        except BrokenPipeError:
            raise self._died(process) from None
        answer = b""
        while answer.count(b"\0") < _FIELDS * len(paths):
            more = process.stdout.read1(_CHUNK)  # type: ignore[attr-defined]
            if not more:
                raise self._died(process)
            answer += more
        fields = answer.split(b"\0")
        patterns = fields[2::_FIELDS]
        self._note_standing(paths, fields[::_FIELDS], patterns)
        return {
            path
            for path, pattern in zip(paths, patterns, strict=True)
            if (pattern and not pattern.startswith(b"!")) or _is_ours(path)
        }

    def _note_standing(
        self, paths: Sequence[bytes], sources: Sequence[bytes], patterns: Sequence[bytes]
    ) -> None:
        ours = os.fsencode(self._excludes)
        for path, source, pattern in zip(paths, sources, patterns, strict=False):
            if source == ours and not pattern.startswith(b"!") and not _is_ours(path):
                self.standing[path] = pattern.decode("utf-8", "surrogateescape")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = self._git.start(
                *("check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching"),
                config={"core.excludesFile": str(self._excludes)},
                literal=False,
            )
        return self._process

    def _died(self, process: subprocess.Popen[bytes]) -> Exception:
        output, errors = process.communicate()
        self._process = None
        said = Said(status=process.returncode, output=output, errors=errors)
        return self._git.failed("check-ignore", said)


def _is_ours(path: bytes) -> bool:
    """Left by a restore that was killed. A project's rules may ask for everything (`!*`)."""
    return path.rpartition(b"/")[2].startswith(TEMPORARY)


def _questions(paths: Sequence[bytes]) -> Iterator[list[bytes]]:
    question: list[bytes] = []
    size = 0
    for path in paths:
        if question and size + len(path) > _QUESTION_BYTES:
            yield question
            question, size = [], 0
        question.append(path)
        size += len(path) + 1
    if question:
        yield question
