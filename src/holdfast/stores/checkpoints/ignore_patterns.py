"""Ignore patterns as git reads them, matched in this process.

git itself decides wherever a `.gitignore` is involved. Two questions it cannot answer: what a list
of patterns decides about a path without any `.gitignore`, and what it decides inside a folder that
a `.gitignore` excludes.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Iterable, Sequence
from typing import Self

from holdfast.value import dataclass

_SLASH = b"/"
_NOT_SLASH = b"[^/]"
_CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, [*range(32), 127])),
    "digit": string.digits,
    "graph": "".join(map(chr, range(33, 127))),
    "lower": string.ascii_lowercase,
    "print": "".join(map(chr, range(32, 127))),
    "punct": string.punctuation,
    "space": string.whitespace,
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


class _NeverError(Exception):
    """A pattern that cannot match anything, such as one with an unclosed bracket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One line of ignore rules. `of_names` patterns have no slash and match the last name."""

    text: bytes
    negated: bool
    folders_only: bool
    of_names: bool
    regex: re.Pattern[bytes]

    @property
    def is_wide(self) -> bool:
        """True if it contains no name: `*`, `.*`, `data/**`."""
        last = self.text.lstrip(b"!").rstrip(_SLASH).rpartition(_SLASH)[2]
        return not last.strip(b"*?.")

    def matches(self, path: bytes, *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        text = path.rpartition(_SLASH)[2] if self.of_names else path
        return self.regex.fullmatch(text) is not None


class Patterns:
    """A list of patterns; the last one that matches decides."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._patterns: Sequence[Pattern] = [
            found for line in lines if (found := _parsed(line)) is not None
        ]
        self._reversed = self._patterns[::-1]
        self._of_paths = [each for each in self._reversed if not each.of_names]

    @property
    def negates(self) -> bool:
        return any(each.negated for each in self._patterns)

    def last(self, path: bytes, *, is_folder: bool) -> Pattern | None:
        """Return the pattern that decides about a path, ignoring the folders above it."""
        # Most names match nothing, and one combined expression finds that out.
        named = self._any_name.fullmatch(path.rpartition(_SLASH)[2]) is not None
        for each in self._reversed if named else self._of_paths:
            if each.matches(path, is_folder=is_folder):
                return each
        return None

    def named(self, text: bytes) -> Pattern | None:
        """Return the pattern with this text."""
        return next((each for each in self._reversed if each.text == text), None)

    @functools.cached_property
    def _any_name(self) -> re.Pattern[bytes]:
        texts = [each.regex.pattern for each in self._patterns if each.of_names]
        return re.compile(b"|".join(b"(?:%b)" % text for text in texts), re.DOTALL)


def _parsed(line: bytes) -> Pattern | None:
    line = _without_spaces(line.removesuffix(b"\r"))
    if not line or line.startswith(b"#"):
        return None
    body = line.removeprefix(b"!")
    inner = body.removesuffix(_SLASH)
    of_names = _SLASH not in inner
    try:
        regex = _translated(inner.removeprefix(_SLASH), slashes=not of_names)
    except _NeverError:
        return None
    return Pattern(
        text=line,
        negated=body != line,
        folders_only=inner != body,
        of_names=of_names,
        regex=re.compile(regex, re.DOTALL),
    )


def _without_spaces(line: bytes) -> bytes:
    """Strip trailing spaces, except one that is escaped with a backslash."""
    short = line.rstrip(b" ")
    slashes = len(short) - len(short.rstrip(b"\\"))
    return short + b" " if slashes % 2 and len(short) < len(line) else short


def _translated(glob: bytes, *, slashes: bool) -> bytes:
    """Translate a pattern to a regular expression. With `slashes`, only `**` matches a slash."""
    found, at = b"", 0
    anything = _NOT_SLASH if slashes else b"."
    while at < len(glob):
        letter = glob[at : at + 1]
        if letter == b"*":
            text, at = _stars(glob, at, slashes=slashes)
            found += text
            continue
        if letter == b"?":
            found += anything
        elif letter == b"[":
            allowed, at = _bracket(glob, at)
            allowed -= {ord(_SLASH)} if slashes else set()
            if not allowed:
                raise _NeverError
            found += b"[%b]" % b"".join(b"\\x%02x" % each for each in sorted(allowed))
        elif letter == b"\\":
            at += 1
            if at == len(glob):
                raise _NeverError
            found += re.escape(glob[at : at + 1])
        else:
            found += re.escape(letter)
        at += 1
    return found


def _stars(glob: bytes, start: int, *, slashes: bool) -> tuple[bytes, int]:
    """Return what a run of stars matches, and where it ends."""
    end = start
    while glob[end : end + 1] == b"*":
        end += 1
    if not slashes:
        return b".*", end
    after = glob[end : end + 2]
    is_part = start == 0 or glob[start - 1 : start] == _SLASH
    if end - start == 1 or not is_part or not (not after or after[:1] == _SLASH or after == b"\\/"):
        return b"[^/]*", end
    if after[:1] == _SLASH:
        return b"(?:.*/)?", end + 1
    return b".*", end


def _bracket(glob: bytes, start: int) -> tuple[set[int], int]:
    """Return the bytes that a bracket allows, and where it ends. As in git, a leading `]` or `-`
    stands for itself, and a class without its closing `:]` is a plain set."""
    at = start + 1
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    allowed: set[int] = set()
    before: int | None = None
    first = True
    while first or glob[at : at + 1] != b"]":
        first = False
        letter = _byte(glob, at)
        if letter == ord("\\"):
            at += 1
            letter = _byte(glob, at)
            allowed.add(letter)
        elif letter == ord("-") and before and glob[at + 1 : at + 2] not in (b"", b"]"):
            at += 1
            letter = _byte(glob, at)
            if letter == ord("\\"):
                at += 1
                letter = _byte(glob, at)
            allowed.update(range(before, letter + 1))
            letter = 0  # a range cannot start where another ends
        elif letter == ord("[") and glob[at + 1 : at + 2] == b":":
            end = glob.find(b"]", at + 2)
            if end < 0:
                raise _NeverError
            if end - at - 3 >= 0 and glob[end - 1 : end] == b":":
                name = glob[at + 2 : end - 1].decode("latin-1")
                if name not in _CLASSES:
                    raise _NeverError
                allowed.update(_CLASSES[name].encode())
                at, letter = end, 0
            else:
                allowed.add(letter)
        else:
            allowed.add(letter)
        before = letter
        at += 1
    return (set(range(256)) - allowed if negated else allowed), at


def _byte(glob: bytes, at: int) -> int:
    if at >= len(glob):
        raise _NeverError
    return glob[at]


# --- What the configuration asks for --------------------------------------------------------------
#
# A pattern with a `!` in `checkpoints.exclude` takes precedence over every `.gitignore`. It
# captures a folder with everything in it, except what the default rules exclude. Keys and passwords
# have to be requested by name: a pattern such as `!*` does not include them again.


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """`configured`: the patterns from the configuration. `standing`: all rules that apply
    everywhere, including those. `secrets`: the default rules about secrets."""

    configured: Patterns
    standing: Patterns
    secrets: Patterns

    @classmethod
    def read(cls, text: bytes, marker: str, secrets: Iterable[str]) -> Self | None:
        """Parse the requests in the rules; None if nothing is requested."""
        lines = text.split(b"\n")
        configured = Patterns(lines[lines.index(marker.encode()) + 1 :])
        if not configured.negates:
            return None
        names = Patterns(each.encode() for each in secrets)
        return cls(configured=configured, standing=Patterns(lines), secrets=names)

    def left_out(self, path: bytes, ignored: Sequence[bytes], *, is_folder: bool) -> str | None:
        """Return why a path that git ignores is not captured; None if it is. `ignored` are the
        folders above it that git ignores, the outermost first. The reason is a rule that applies
        everywhere, or "" for one of the project's own rules."""
        asked = [*((folder, True) for folder in ignored), (path.rstrip(b"/"), is_folder)]
        outermost, *inside = asked
        # The outermost one was matched by a rule of the project. git's other answers follow.
        if not self._wanted(outermost[0], is_folder=outermost[1]):
            return ""
        for each, folder in inside:
            if rule := self._standing(each, is_folder=folder):
                return rule
        return None

    def secret(self, path: bytes, pattern: bytes) -> str:
        """Return the rule that still excludes a path that a pattern includes again, or ""."""
        found = self.configured.named(pattern)
        return self._hidden(path, found) if found is not None else ""

    def _wanted(self, path: bytes, *, is_folder: bool) -> bool:
        found = self.configured.last(path, is_folder=is_folder)
        return found is not None and found.negated and not self._hidden(path, found)

    def _standing(self, path: bytes, *, is_folder: bool) -> str:
        found = self.standing.last(path, is_folder=is_folder)
        if found is None:
            return ""
        return self._hidden(path, found) if found.negated else _text(found)

    def _hidden(self, path: bytes, by: Pattern) -> str:
        """Return the rule about secrets that a pattern without a name does not override."""
        if not by.is_wide:
            return ""
        found = self.secrets.last(path, is_folder=False)
        return "" if found is None or found.negated else _text(found)


def _text(pattern: Pattern) -> str:
    return pattern.text.decode("utf-8", "surrogateescape")
