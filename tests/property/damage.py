"""Files as a bad disk, a careless hand or a stranger leaves them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests import tally

#: Anything that JSON can say.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_MOST_FLIPS = 4


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes of a file with some of them flipped, cut off, doubled, or put in from elsewhere."""
    tally.injected()
    raw = bytearray(whole)
    place = draw(st.integers(0, max(0, len(raw) - 1)))
    length = draw(st.integers(0, 64))
    match draw(st.sampled_from(["flip", "cut", "drop", "double", "insert", "zero"])):
        case "flip":
            for _ in range(draw(st.integers(1, _MOST_FLIPS))):
                raw[draw(st.integers(0, len(raw) - 1))] ^= draw(st.integers(1, 255))
        case "cut":
            del raw[place:]
        case "drop":
            del raw[place : place + length]
        case "double":
            raw[place:place] = raw[place : place + length]
        case "insert":
            raw[place:place] = draw(st.binary(min_size=1, max_size=20))
        case _:
            raw[place : place + length] = bytes(length)
    return bytes(raw)


@st.composite
def changed(draw: st.DrawFn, document: Any) -> bytes:
    """A JSON document with something else, or nothing, in one place."""
    tally.injected()
    made = json.loads(json.dumps(document))
    holder, key = made, draw(st.sampled_from(_places(made)))
    while isinstance(holder[key], dict | list) and holder[key] and draw(st.booleans()):
        holder = holder[key]
        key = draw(st.sampled_from(_places(holder)))
    if isinstance(holder, dict) and draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = draw(JSON)
    return json.dumps(made).encode()


def _places(holder: Any) -> list[Any]:
    return sorted(holder) if isinstance(holder, dict) else list(range(len(holder)))
