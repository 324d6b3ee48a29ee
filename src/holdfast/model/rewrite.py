"""A change to a file of another program. Only the bytes that differ, so that it can be reverted.

The log keeps it. It contains only our own entries, nothing else from the file.
"""

from __future__ import annotations

import json
from hashlib import sha256

from holdfast.errors import PlanFileError
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """At `offset`, the bytes `old` are replaced with `new`. `before` and `after` identify the whole
    content; "" means that there is no file. `folders` are created for it, the outer ones first."""

    path: str
    before: str
    after: str
    offset: int
    old: bytes
    new: bytes
    folders: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return self.before == self.after

    def applied(self, content: bytes) -> bytes:
        """The content afterwards; `content` must be what the rewrite was made for."""
        return content[: self.offset] + self.new + content[self.offset + len(self.old) :]

    def reverted(self, content: bytes) -> bytes:
        return content[: self.offset] + self.old + content[self.offset + len(self.new) :]

    def target(self) -> str:
        """As one string, for a plan."""
        return json.dumps(
            {
                "after": self.after,
                "offset": self.offset,
                "old": self.old.decode("utf-8", "surrogateescape"),
                "new": self.new.decode("utf-8", "surrogateescape"),
                "folders": list(self.folders),
            }
        )

    @classmethod
    def of(cls, path: str, before: str, target: str) -> Rewrite:
        """Parse `target`; raises `PlanFileError` for anything else."""
        try:
            said = json.loads(target)
            return cls(
                path=path,
                before=before,
                after=str(said["after"]),
                offset=int(said["offset"]),
                old=said["old"].encode("utf-8", "surrogateescape"),
                new=said["new"].encode("utf-8", "surrogateescape"),
                folders=tuple(map(str, said["folders"])),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PlanFileError(f"The change of {path} cannot be read.") from None


def hard_linked(path: object) -> str:
    """Why a settings file with several names stays. It is replaced as a whole, so that a crash
    leaves the old or the new one, and its other name, perhaps in a folder of dotfiles, would keep
    the old content."""
    return f"{path} has another name, a hard link, which would not change with it"


def identity(content: bytes | None) -> str:
    """The checksum that identifies the content of a file; "" if there is no file."""
    return "" if content is None else sha256(content).hexdigest()


def rewrite(
    path: str, old: bytes | None, new: bytes | None, *, folders: tuple[str, ...] = ()
) -> Rewrite:
    """The smallest change that turns one content into another. None means no file."""
    was, becomes = old or b"", new or b""
    start = 0
    while start < min(len(was), len(becomes)) and was[start] == becomes[start]:
        start += 1
    end = 0
    while end < min(len(was), len(becomes)) - start and was[-1 - end] == becomes[-1 - end]:
        end += 1
    return Rewrite(
        path=path,
        before=identity(old),
        after=identity(new),
        offset=start,
        old=was[start : len(was) - end],
        new=becomes[start : len(becomes) - end],
        folders=folders,
    )
