"""Names as people may see them: whatever a file is called, it cannot steer the terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters and invalid UTF-8 shown as escapes; newlines stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def one_line(text: str) -> str:
    """Like `printable`, with newlines as escapes too: for names in a table."""
    return printable(text).replace("\n", "\\n")


def _shown(character: str) -> str:
    if character == "\n" or character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, as Python keeps it
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
