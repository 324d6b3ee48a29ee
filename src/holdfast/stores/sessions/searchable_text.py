"""The searchable text of a message, and the form in which it is indexed.

Text of scripts without spaces (Chinese, Japanese, Thai, …) is split into characters, each of them a
word; a search for a run of them is then a phrase search, exact to the character. Emoji are words as
well.

The index needs the result of `search_text` again to remove a message's words: changing the function
requires a migration that rebuilds the index.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator

from holdfast.errors import DamageError
from holdfast.model.session import TAKEN_BACK, Json
from holdfast.stores.sessions.content import Stored, load_body, load_fields

#: Only the beginning of a longer message is searched; indexing must not lock the store for seconds.
LONGEST_TEXT = 1_000_000
#: Marks around a match until it is shown. Noncharacters, which `clean` removes from any text.
MATCH_STARTS, MATCH_ENDS = "\ufdd0", "\ufdd1"

# Patterns are strings, which `re` compiles on first use: most commands neither search nor write.
_ODD = "[\0\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
# Han, Hiragana, Katakana, Hangul, and related characters.
_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u318f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\uff66-\uffdc\U00020000-\U000323af"
)
# Thai, Lao, Burmese, Khmer, and emoji. The tokenizer would drop vowels and symbols of these, so
# they are indexed as private-use characters, which it takes for letters.
_VEILED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff"
    "\U0001f000-\U0001faff"
)
_VEILS = (
    "\U000f0e00-\U000f0eff\U000f1000-\U000f109f\U000f1780-\U000f17ff\U000f2300-\U000f23ff"
    "\U000f2600-\U000f27bf\U000f2b00-\U000f2bff\U000ff000-\U000ffaff"
)
_PRIVATE, _EMOJI, _LOW = 0xF0000, 0x1F000, 0xFFFF  # two planes, and the offset in a plane
_CJK_CHARACTER = f"([{_CJK}])"
_VEILED_CHARACTER = f"[{_VEILED}]"
_APART = f"[{_CJK}{_VEILED}]"
_SET_APART = f" ({MATCH_STARTS}?)([{_CJK}{_VEILS}])({MATCH_ENDS}?) "

_JSON_ESCAPE = r"(?s)(?:\\u[0-9a-fA-F]{4})+|\\."
# Keys of message parts whose values are not text; in the input of a tool all values are text.
_NOT_TEXT = frozenset({"type", "id", "data", "image_url"})
_TOOL_INPUT = frozenset({"arguments", "input"})

#: The fields of a message that contain text, besides its content.
_SAID = frozenset({"tool_name", "tool_calls", "reasoning"})


def search_text(form: int, body: Stored, fields: Stored) -> str:
    """The text of a message in indexed form. Never raises: SQL calls it."""
    return spaced(message_text(form, body, fields))


def message_text(form: int, body: Stored, fields: Stored) -> str:
    """The text of a stored message in readable form."""
    try:
        named = load_fields(form, fields)
        extra = named.get("extra")
        if isinstance(extra, dict) and extra.get(TAKEN_BACK) is True:
            return ""
        return plain_text(load_body(form, body), named)
    except (DamageError, ValueError, TypeError, RecursionError):
        return ""  # damaged: left to `doctor` to report


def plain_text(content: Json, fields: dict[str, Json]) -> str:
    """Everything in a message that a user might search for."""
    if isinstance(content, str) and _SAID.isdisjoint(fields):  # most messages
        return clean(_readable(content))
    parts = [*_texts(content), *_texts(fields.get("tool_name")), *_texts(fields.get("tool_calls"))]
    parts += _texts(fields.get("reasoning"))
    return clean("\n".join(parts)[:LONGEST_TEXT])


def clean(text: str) -> str:
    """Text that SQLite can store, in composed form, so that `é` matches however it was typed."""
    if text.isascii() and "\0" not in text:
        return text
    return unicodedata.normalize("NFC", re.sub(_ODD, "\ufffd", text))


def spaced(text: str) -> str:
    """Put spaces around characters that are words, so that the tokenizer sees them as words."""
    if text.isascii():
        return text
    text = re.sub(_VEILED_CHARACTER, lambda found: f" {_veil(found[0])} ", text)
    return re.sub(_CJK_CHARACTER, r" \1 ", text)


def unspaced(text: str) -> str:
    """The exact reverse of `spaced`, with or without marked matches."""
    if text.isascii():
        return text
    return re.sub(_SET_APART, lambda found: f"{found[1]}{_unveil(found[2])}{found[3]}", text)


def is_word(character: str) -> bool:
    """True if a character is a word of its own."""
    return re.match(_APART, character) is not None


def has_unspaced(text: str) -> bool:
    """True if any character of the text is a word of its own."""
    return not text.isascii() and re.search(_APART, text) is not None


def is_searchable(text: str) -> bool:
    """True if the index finds any word in the text. SQLite treats unassigned characters as
    letters."""
    return any(
        is_word(character) or category[0] in "LN" or category in ("Co", "Cn")
        for character in text
        for category in [unicodedata.category(character)]
    )


def _veil(character: str) -> str:
    return chr(_PRIVATE | ord(character) & _LOW)


def _unveil(character: str) -> str:
    low = ord(character) & _LOW
    if ord(character) < _PRIVATE:
        return character
    return chr(low | _EMOJI if low >= _EMOJI & _LOW else low)


def _texts(value: Json, *, every: bool = False) -> Iterator[str]:
    """The strings in a value, in order. Keys are not included."""
    if isinstance(value, str):
        yield _readable(value)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, every=every)
    elif isinstance(value, dict):
        for key, item in value.items():
            if every or key not in _NOT_TEXT:
                yield from _texts(item, every=every or key in _TOOL_INPUT)


def _readable(text: str) -> str:
    r"""Unescape JSON in a string (the input and output of tools): in `\nfoo` the word is `foo`."""
    text = text[:LONGEST_TEXT]
    if "\\" not in text or text[:20].lstrip()[:1] not in ("{", "["):
        return text
    return re.sub(_JSON_ESCAPE, _unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    try:
        return str(json.loads(f'"{found[0]}"'))
    except ValueError:
        return found[0]
