"""The console blocks of a page: what is typed, and what it must print.

    $ holdfast undo 1        a command; the lines below it are what it prints
    …                        any number of lines, on a line of its own
    … [y/N]: y               the answer that is typed

A command with nothing below it may print anything. `<!-- exit 5 -->` before a block says how its
last command ends. Sizes and bars may differ, because they depend on the file system, and so may ids
that nobody chooses, as long as the same one means the same thing on the whole page.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ANY_LINES = "…"
_FENCE = re.compile(r"^( *)```console$")
_EXIT = re.compile(r"^ *<!-- exit (\d+) -->$")
_SIZE = re.compile(r"[\d.,]+ [kMGT]?B\b")
_BAR = re.compile(r"[▏▎▍▌▋▊▉█]+")
_ANSWER = re.compile(r"\[y/N\]: (\w+)$")
#: Checkpoints, the folder of the demo, units of systemd.
_ID = re.compile(
    r"(?<![\w-])(?:[0-9a-f]{40}|[0-9a-f]{12})(?![\w-])"
    r"|holdfast-demo-\w{8}|(?<=holdfast-maintain-)[0-9a-f]{12}"
)
_SHORT_ID = re.compile(r"(?<![\w/-])[0-9a-f]{4,40}(?![\w-])|holdfast-demo-\w{8}")
_HERE_DOCUMENT = re.compile(r"<<'(\w+)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of a page. `start` and `end` are the lines of the page that show its output."""

    command: str
    shown: tuple[str, ...]
    start: int
    end: int
    indent: str = ""
    code: int = 0

    @property
    def answers(self) -> list[str]:
        return [found[1] for line in self.shown if (found := _ANSWER.search(line))]


def steps(text: str) -> Iterator[Step]:
    """Every command in the console blocks of a page, in order."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            at += 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i] == f"{fence[1]}```")
        said = _EXIT.match(lines[at - 1])
        found = list(_block(lines, at + 1, end, fence[1]))
        for number, step in enumerate(found, start=1):
            yield step if said is None or number < len(found) else _ends(step, int(said[1]))
        at = end + 1


def _ends(step: Step, code: int) -> Step:
    return Step(
        command=step.command,
        shown=step.shown,
        start=step.start,
        end=step.end,
        indent=step.indent,
        code=code,
    )


def _block(lines: Sequence[str], at: int, end: int, indent: str) -> Iterator[Step]:
    while at < end:
        line = lines[at].removeprefix(indent)
        assert line.startswith("$ "), f"line {at + 1}: a console block begins with a command"
        typed, at = [line[2:]], at + 1
        if here := _HERE_DOCUMENT.search(line):
            while typed[-1] != here[1]:
                typed.append(lines[at].removeprefix(indent))
                at += 1
        start = at
        while at < end and not lines[at].removeprefix(indent).startswith("$ "):
            at += 1
        shown = tuple(each.removeprefix(indent) for each in lines[start:at])
        yield Step(command="\n".join(typed), shown=shown, start=start, end=at, indent=indent)


# --- Comparing ------------------------------------------------------------------------------------


def matches(step: Step, printed: str, known: dict[str, str]) -> bool:
    """Whether a command printed what the page shows. `known` has the ids of the page and what they
    are in this run, and gets those that this output tells."""
    shown = _trimmed(step.shown)
    if not shown:
        return True
    found = re.fullmatch(_pattern(shown, known), _plain(printed))
    if found is None:
        return False
    known.update((_from_name(name), actual) for name, actual in found.groupdict().items())
    return True


def _pattern(shown: Sequence[str], known: Mapping[str, str]) -> str:
    seen: set[str] = set()

    def line_pattern(line: str) -> str:
        if line.strip() == ANY_LINES:
            return r"(?:.*\n)*?"
        plain, parts, at = _plain_line(line), [], 0
        for found in _ID.finditer(plain):
            parts += [re.escape(plain[at : found.start()]), id_pattern(found[0])]
            at = found.end()
        return "".join([*parts, re.escape(plain[at:]), r"\n"])

    def id_pattern(shown_id: str) -> str:
        if shown_id in known:
            return re.escape(known[shown_id])
        if shown_id in seen:
            return f"(?P={_name(shown_id)})"
        seen.add(shown_id)
        kind = r"holdfast-demo-\w{8}" if "demo" in shown_id else f"[0-9a-f]{{{len(shown_id)}}}"
        return f"(?P<{_name(shown_id)}>{kind})"

    return "".join(line_pattern(line) for line in shown)


def _name(shown_id: str) -> str:
    return "id_" + shown_id.replace("-", "__")


def _from_name(name: str) -> str:
    return name.removeprefix("id_").replace("__", "-")


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Without empty lines at the ends."""
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    while kept and not kept[0].strip():
        kept.pop(0)
    return kept


def _plain(printed: str) -> str:
    return "".join(f"{_plain_line(line)}\n" for line in _trimmed(printed.splitlines()))


def _plain_line(line: str) -> str:
    return " ".join(_BAR.sub("", _SIZE.sub("SIZE", line)).split())


def translated(command: str, known: Mapping[str, str]) -> str:
    """A command of the page with the ids of this run, which it may name by their beginning."""

    def actual(found: re.Match[str]) -> str:
        word = found[0]
        whole = next((each for each in known if each.startswith(word)), None)
        return known[whole][: len(word)] if whole is not None else word

    return _SHORT_ID.sub(actual, command)


# --- Writing --------------------------------------------------------------------------------------


def rewritten(step: Step, printed: str, known: dict[str, str]) -> list[str] | None:
    """What the page should show instead, cut where the page cuts it; None when a part between two
    cuts is no longer found, so that a person has to choose."""
    said = [line.rstrip() for line in _trimmed(printed.splitlines())]
    _learn(step, said, known)
    pages = {actual: shown for shown, actual in known.items()}
    said = [_ID.sub(lambda found: pages.get(found[0], found[0]), line) for line in said]
    tail = [""] if step.shown and not step.shown[-1].strip() else []
    shown = _trimmed(step.shown)
    parts = _between_cuts(shown)
    if len(parts) == 1:
        return said + tail
    kept = list[str]()
    at = 0
    for number, part in enumerate(parts):
        if number:
            kept.append(ANY_LINES)
        if part:
            place = 0 if number == 0 else _place(part, said, at)
            if place is None or place + len(part) > len(said):
                return None
            at = len(said) if number == len(parts) - 1 else place + len(part)
            kept += said[place:at]
    return kept + tail


def _learn(step: Step, said: Sequence[str], known: dict[str, str]) -> None:
    """Ids of the page that are new here, by their order."""
    shown = [each for line in step.shown for each in _ID.findall(line)]
    there = [each for line in said for each in _ID.findall(line)]
    new = [each for each in dict.fromkeys(shown) if each not in known]
    actual = [each for each in dict.fromkeys(there) if each not in known.values()]
    known.update(zip(new, actual, strict=False))


def _between_cuts(shown: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == ANY_LINES:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _place(part: Sequence[str], said: Sequence[str], at: int) -> int | None:
    """Where in the output the lines are that are most like these."""
    wanted = "\n".join(map(_plain_line, part))
    best, where = 0.5, None
    for start in range(at, len(said) - len(part) + 1):
        there = "\n".join(map(_plain_line, said[start : start + len(part)]))
        if (alike := difflib.SequenceMatcher(None, wanted, there).ratio()) > best:
            best, where = alike, start
    return where


def replaced(page: Path, changes: Mapping[Step, Sequence[str]]) -> None:
    """Write the outputs of these steps into their page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for step in sorted(changes, key=lambda each: each.start, reverse=True):
        shown = [f"{step.indent}{line}".rstrip() for line in changes[step]]
        lines[step.start : step.end] = shown
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
