"""A transcript that its agent only appends to, counted from where the last reader stopped.

A list of sessions must not read two gigabytes because one message was added. So a reader notes a
place where everything before is complete, and the counts up to there. The next reader continues
there if the file is still the same: the same inode, and the same content at its start and just
before that place.
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
    """Where a reader can continue: `counts` covers everything before `offset`. `check` proves that
    the file is unchanged up to there; `carry` is the state that the reader needs from before."""

    offset: int
    check: str
    counts: Counts
    carry: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """`counts` covers the whole transcript, or only its beginning if not `whole`. `bytes` is how
    much was read. `point` is None as long as there is no place to continue from."""

    counts: Counts
    whole: bool
    bytes: int
    point: Point | None = None


class Lines:
    """The records of a JSONL file, to be read once, from the beginning or from a point.

    A reader calls `settle` when it meets a record before which everything is complete. A later
    reader starts at that record, and finds in `carried` what was passed as `carry`.
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
        #: The last place to continue from, and the state carried there.
        self.settled: tuple[int, Mapping[str, Json]] | None = None
        #: True once the end was reached; and the number of bytes read.
        self.whole = False
        self.read = 0

    def settle(self, **carry: Json) -> None:
        self.settled = self._at, carry

    @property
    def _is_further(self) -> bool:
        """True if the next reader will start later than this one. Otherwise every reader would read
        the same bytes again."""
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
    """A transcript, and how its format reads messages from it. With `having`, only lines that
    contain one of these strings are parsed. `fits` checks whether the carried state is still right:
    a later record may change the meaning of earlier ones, and then everything is read again."""

    path: Path
    spoken: Callable[[Lines], Iterator[Message]]
    having: Sequence[bytes] = ()
    fits: Callable[[Mapping[str, Json]], bool] = lambda _: True

    def messages(self) -> Iterator[Message]:
        return self.spoken(Lines(self.path, self.having))

    def count(self, before: Point | None = None, *, most_bytes: int | None = None) -> Counted:
        """Count the messages after a point, or all of them if the file is a different one now. Stop
        after `most_bytes`, but not before there is a place to continue from."""
        point = before if before is not None and self._is_at(before) else None
        lines = Lines(self.path, self.having, point=point, most_bytes=most_bytes)
        counts = settled = Counts() if point is None else point.counts
        place = None
        for message in self.spoken(lines):
            if lines.settled is not place:  # settled between the previous message and this one
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
