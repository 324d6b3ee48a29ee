"""The figures of a home over time: one line for each look, thinned out with age.

operations/figures.jsonl    one JSON object a line, the oldest first

A kill can tear the last line, which then counts as never written. Writers take turns; readers need
no lock, because a thinned file replaces the old one as a whole. Thinning counts hours, days and
weeks without using the current time: a clock that is wrong for a day costs no history.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.model.figures import HomeFigures
from holdfast.model.item import Item
from holdfast.model.json_value import NO_RECORD, fields_from_json
from holdfast.policy.keep_rules import kept_by_rules
from holdfast.policy.rules import Rules
from holdfast.stores.files import make_private_dir, storage_errors
from holdfast.stores.line_file import LineFile, Stamp
from holdfast.stores.lock import exclusive

NAME = "figures.jsonl"
LOCK = "figures.lock"
_FORMAT = 1
_KEPT = Rules(keep_last=1, keep_hourly=48, keep_daily=90, keep_weekly=104)
#: The file is thinned if it has more lines. `_KEPT` keeps about half as many.
_MOST = 500
_WAIT = 5.0
#: No disk has this many bytes, and the figures of many homes are added up.
_ABSURD = 2**53


class FiguresFile:
    """The figures of one home."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "operations"
        self._file = LineFile(self._folder / NAME)

    def stamp(self) -> Stamp | None:
        """Changes whenever the figures do."""
        with contextlib.suppress(OSError):
            return self._file.stamp()
        return None

    def read(self) -> Sequence[HomeFigures]:
        """All figures, the oldest first. Lines that are not ours are left out; an unreadable file
        counts as empty."""
        with contextlib.suppress(OSError):
            return sorted(self._read(), key=lambda each: each.at)
        return []

    def add(self, figures: HomeFigures) -> None:
        """Add figures, durably."""
        with storage_errors(f"write {self._file.path}"):
            make_private_dir(self._folder)
        with (
            exclusive(
                self._folder / LOCK, holder="figures", wait=_WAIT, doing="writing the figures of"
            ),
            storage_errors(f"write {self._file.path}"),
        ):
            self._file.clear_unfinished()
            self._file.append([_line(figures)])
            known = list(self._read())
            if len(known) > _MOST:
                self._file.rewrite(_line(each) for each in thinned(known))

    def _read(self) -> Iterator[HomeFigures]:
        try:
            for line in self._file.lines():
                with contextlib.suppress(*NO_RECORD):
                    said = json.loads(line)
                    if said["format"] == _FORMAT and max(filter(None, said.values())) < _ABSURD:
                        yield fields_from_json(HomeFigures, said)
        except FileNotFoundError:
            return


def thinned(figures: Sequence[HomeFigures]) -> Sequence[HomeFigures]:
    """The last figures of each hour, day and week, as many as are kept; the oldest first."""
    newest_first = sorted(figures, key=lambda each: each.at, reverse=True)
    items = [
        Item(kind="figures", id="", bytes=0, last_active_at=each.at, version="")
        for each in newest_first
    ]
    kept = kept_by_rules(_KEPT, items, 0.0)
    pairs = zip(newest_first, kept, strict=True)
    return [each for each, reason in pairs if reason is not None][::-1]


def _line(figures: HomeFigures) -> bytes:
    said = {"format": _FORMAT} | figures.to_json()
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"
