"""Text that is safe to show: whatever a name, a title or a message holds, it cannot steer the
terminal, change the direction of what follows, or hide.

The only place that decides this. What is shown as an escape: control characters (C0 and C1),
bidirectional and other format characters, line and paragraph separators, bytes that are not UTF-8,
halves of characters, and code points that Unicode has not assigned.
"""

from __future__ import annotations

# Python calls only one of the spaces printable. The others are as harmless, and Chinese text, for
# one, has a space of its own.
_SPACES = frozenset(
    "\u00a0\u1680\u202f\u205f\u3000",
) | {chr(c) for c in range(0x2000, 0x200B)}


def printable(text: str, *, keep: str = "\n") -> str:
    """The text with an escape for everything that is not safe to show. `keep` stays as it is."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep or each in _SPACES else _escape(each)
        for each in text
    )


def one_line(text: str) -> str:
    """Like `printable`, with an escape for newlines too: for names in a table or a sentence."""
    return printable(text, keep="")


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, as Python keeps it
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
