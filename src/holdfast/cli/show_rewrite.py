"""How a change to a file of another program looks: the lines that leave it, and those that come."""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.output import name, say
from holdfast.model.rewrite import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.model.rewrite import Rewrite

_MOST = 12
#: A longer line is a whole file in one, and says more than what is changed in it.
_LONGEST = 300
_STYLES = {"-": "red", "+": "green"}


def show_rewrite(change: Rewrite, leads_to: str, *, all_lines: bool) -> None:
    """`leads_to` is where a link in the place of the file leads to; "" when there is none."""
    verb = "Make" if not change.before else "Change" if change.after else "Remove"
    where = f", a link to {leads_to}" if leads_to else ""
    say(name(f"{verb} {change.path}{where}"))
    lines = _by_line(change) or [*_lines("-", change.old), *_lines("+", change.new)]
    for sign, style in _STYLES.items():
        shown = [line for which, line in lines if which == sign]
        for line in shown if all_lines else shown[:_MOST]:
            say(f"  {sign} {line.expandtabs(4)}", style)
        if len(shown) > _MOST and not all_lines:
            rest = len(shown) - _MOST
            say(f"  {sign} … {rest} more lines; --all shows them", "dim")


def _by_line(change: Rewrite) -> Sequence[tuple[str, str]]:
    """What differs line by line: between two places that change, others wrote something too. A
    comma at the end of a line is no difference. Nothing when that would not be plain."""
    try:
        content = Path(change.path).read_bytes() if change.before else b""
    except OSError:
        return ()
    if not change.before or identity(content) != change.before:
        return ()
    was, now = _texts(content), _texts(change.applied(content))
    old, new = ([each.rstrip().removesuffix(",") for each in lines] for lines in (was, now))
    found: list[tuple[str, str]] = []
    matches = SequenceMatcher(None, old, new, autojunk=False)
    for what, start, end, begin, stop in matches.get_opcodes():
        if what != "equal":
            found += [("-", each) for each in was[start:end] if each.strip()]
            found += [("+", each) for each in now[begin:stop] if each.strip()]
    return () if any(len(each) > _LONGEST for _, each in found) else found


def _lines(sign: str, data: bytes) -> Iterator[tuple[str, str]]:
    return ((sign, each) for each in _texts(data) if each.strip())


def _texts(data: bytes) -> list[str]:
    return data.decode(errors="replace").splitlines()
