"""Run `git fsck` and read what it says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.stores.git.program import Git
from holdfast.value import dataclass

_ASKED = ("fsck", "--full", "--no-dangling", "--no-progress")
# An id, but not that in the name of a pack; a pack or its index.
_ID = re.compile(r"(?<![-0-9a-f])[0-9a-f]{40}(?![0-9a-f])")
_PACK = re.compile(r"pack-[0-9a-f]{40}\.(?:pack|idx)")
_SAID = re.compile(r"^(?:error|missing|fatal|bad|broken|corrupt)\b")
#: What such a line names is whole: it leads to what is missing, and another line names that.
_WHOLE = "broken link from"
#: fsck adds up bits for what it found; 128 and above is that it could not go on.
_GAVE_UP = 128
_STATUSES = tuple(range(_GAVE_UP + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What git said, and how it ended."""

    status: int
    lines: Sequence[str]

    @property
    def gave_up(self) -> bool:
        return self.status >= _GAVE_UP

    @property
    def last(self) -> str:
        return self.lines[-1] if self.lines else f"git fsck ended with {self.status}"

    def packs(self) -> Mapping[str, str]:
        """Each damaged pack, with the first thing that git said of it."""
        named: dict[str, str] = {}
        for line in self.lines:
            found = _PACK.search(line)
            if found is not None:
                # What follows its name, if anything does: the rest is a path.
                reason = line[found.end() :].strip(" :'\"") or line.partition(": ")[2]
                named.setdefault(found[0], reason)
        return named


def checked(git: Git) -> Checked:
    """Have every object read. Nothing is changed."""
    said = git.run(*_ASKED, ok=_STATUSES)
    text = (said.output + said.errors).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if _SAID.match(line)]
    return Checked(status=said.status, lines=lines)


def suspects(lines: Iterable[str]) -> Iterator[bytes]:
    """The objects that these lines say something bad of."""
    named = (line for line in lines if not line.startswith(_WHOLE))
    return map(bytes.fromhex, {oid for line in named for oid in _ID.findall(line)})
