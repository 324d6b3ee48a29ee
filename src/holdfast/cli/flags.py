"""Flags declared as data: click builds its options from them, and the fast path parses them
itself."""

from __future__ import annotations

from holdfast.value import dataclass

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. Without a `metavar` it is a switch. A flag that may be given `many` times is a
    list."""

    name: str
    parameter: str
    help: str
    short: str | None = None
    metavar: str | None = None
    many: bool = False
    default: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,) if self.short is None else (self.name, self.short)


COMMON = (
    Flag(
        "--home",
        "home",
        "The home to work on: its folder, or the name of its agent [$HOLDFAST_HOME].",
        metavar="HOME",
    ),
    Flag(
        "--agent", "agent", "Only homes of this agent, by its name, such as codex.", metavar="AGENT"
    ),
    Flag("--json", "json", "Print one JSON document and nothing else."),
    Flag(
        "--quiet",
        "quiet",
        "Print no notes or hints, and no report unless something failed.",
        short="-q",
    ),
    Flag("--debug", "debug", "Show the stack trace of an error."),
)


def read(
    args: Sequence[str], command: Sequence[str], flags: Sequence[Flag], *, most: int
) -> tuple[Mapping[str, Any], list[str]] | None:
    """The flags and arguments of a plain command line, as click would return them.

    None for every other line: another command, an unknown or shortened flag, a value that is
    missing or looks like a flag, more than `most` arguments, an empty home, a home that has to be
    searched for. Click then handles it, and reports errors.
    """
    given: dict[str, Any] = {
        flag.parameter: (() if flag.many else flag.default) if flag.metavar else False
        for flag in (*COMMON, *flags)
    }
    words: list[str] = []
    known = {name: flag for flag in COMMON for name in flag.names}
    rest = iter(args)
    for word in rest:
        if not word.startswith("-"):
            words.append(word)
            if len(words) == len(command):
                known |= {name: flag for flag in flags for name in flag.names}
            continue
        name, is_joined, value = word.partition("=")
        flag = known.get(name)
        if flag is None or (is_joined and flag.metavar is None):
            return None
        if flag.metavar is None:
            given[flag.parameter] = True
            continue
        if not is_joined:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
        given[flag.parameter] = (*given[flag.parameter], value) if flag.many else value
    arguments = words[len(command) :]
    if words[: len(command)] != list(command) or len(arguments) > most:
        return None
    if given["home"] == "" or given["agent"] is not None:
        return None
    return given, arguments
