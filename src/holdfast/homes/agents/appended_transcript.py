"""A transcript that its agent only appends to, counted from where the last reader stopped.

A list of sessions must not read two gigabytes because somebody said one more word. So a reader
notes where it was done with everything before, and what it had counted by then. The next one goes
on there, if the file still is the one that was read: its inode, and what stands at its beginning
and just before that place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.homes.agents.json_lines import MOST_LINE_BYTES, Record, check_of, parsed, skip_rest
from holdfast.model.part import Counts
from holdfast.model.session import Json, Message
from holdfast.stores.files import open_file
from holdfast.value import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a reader can go on: what comes before `offset` is in `counts`. `check` proves that the
    file is still the same up to here, `carry` is what the reader must know of what came before."""

    offset: int
    check: str
    counts: Counts
    carry: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """`counts` are those of the whole transcript, or of its beginning when not `whole`. So many
    `bytes` were read for them. `point` is None while there is no place to go on from."""

    counts: Counts
    whole: bool
    bytes: int
    point: Point | None = None


class Lines:
    """The records of a JSONL file, to be read once, from the beginning or from a point.

    A reader calls `settle` when it meets a record before which nothing is left to tell. Whoever
    goes on later begins with that record, and finds in `carried` what the reader gave as `carry`.
    """

    def __init__(
        self,
        path: Path,
        having: Sequence[bytes] = (),
        *,
        point: Point | None = None,
        most_bytes: int | None = None,
    ) -> None:
        self.path = path
        self._having = having
        self._start = 0 if point is None else point.offset
        self._most = most_bytes
        self._at = self._start
        self.carried: Mapping[str, Json] = {} if point is None else point.carry
        #: The last place to go on from, and what is carried there.
        self.settled: tuple[int, Mapping[str, Json]] | None = None
        #: Whether the end was reached, and the bytes that were read.
        self.whole = False
        self.read = 0

    def settle(self, **carry: Json) -> None:
        self.settled = self._at, carry

    @property
    def _is_further(self) -> bool:
        """Whether the next reader will begin later than this one. Otherwise the same bytes would be
        read in vain every time."""
        return self.settled is not None and self.settled[0] > self._start

    def __iter__(self) -> Iterator[Record]:
        with open_file(self.path) as file:
            file.seek(self._start)
            while self._most is None or self.read < self._most or not self._is_further:
                line = file.readline(MOST_LINE_BYTES)
                if not line:
                    self.whole = True
                    return
                self._at = self._start + self.read
                if not line.endswith(b"\n") and len(line) == MOST_LINE_BYTES:
                    skip_rest(file)
                    self.read = file.tell() - self._start
                    continue
                self.read += len(line)
                if not self._having or any(each in line for each in self._having):
                    yield from parsed(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """A transcript, and what its format reads from it. With `having`, only lines that hold one of
    these texts are parsed. `fits` says whether what was carried to a point is still right: a later
    record may change what earlier ones mean, and then everything is read again."""

    path: Path
    spoken: Callable[[Lines], Iterator[Message]]
    having: Sequence[bytes] = ()
    fits: Callable[[Mapping[str, Json]], bool] = lambda _: True

    def messages(self) -> Iterator[Message]:
        return self.spoken(Lines(self.path, self.having))

    def count(self, before: Point | None = None, *, most_bytes: int | None = None) -> Counted:
        """Count what was said since a point, or everything when the file is another one now. No
        more than `most_bytes` are read, as soon as there is a place to go on from."""
        point = before if before is not None and self._is_at(before) else None
        lines = Lines(self.path, self.having, point=point, most_bytes=most_bytes)
        counts = settled = Counts() if point is None else point.counts
        place = None
        for message in self.spoken(lines):
            if lines.settled is not place:  # between the message before and this one
                place, settled = lines.settled, counts
            counts = counts.plus(message)
        if lines.settled is not place:
            place, settled = lines.settled, counts
        if place is not None:
            offset, carry = place
            point = Point(offset=offset, check=self._check(offset), counts=settled, carry=carry)
        return Counted(counts=counts, whole=lines.whole, bytes=lines.read, point=point)

    def _is_at(self, point: Point) -> bool:
        try:
            return self.fits(point.carry) and self._check(point.offset) == point.check
        except OSError:
            return False

    def _check(self, offset: int) -> str:
        return check_of(self.path, offset)
