"""An object that a pack has as what it differs by from another one."""

from __future__ import annotations

from holdfast.stores.shadowgit.inflating import NotWholeError

_MORE = 0x80
_SIZE_BITS = 7
_COPY = 0x80
#: Bits of the instruction that say which bytes of the place and of the length follow.
_PLACE_BYTES = tuple((1 << byte, byte * 8) for byte in range(4))
_LENGTH_BYTES = tuple((1 << (4 + byte), byte * 8) for byte in range(3))
#: A length of which no byte follows.
_USUAL_LENGTH = 0x10000


def applied(base: bytes, delta: bytes) -> bytes:
    """What the delta makes of its base; raises `NotWholeError` when it does not fit."""
    try:
        size, start = _number(delta, 0)
        result, start = _number(delta, start)
        if size != len(base):
            raise NotWholeError("made for another base")
        made = b"".join(_pieces(base, delta, start, result))
    except IndexError as error:
        raise NotWholeError("cut short") from error
    if len(made) != result:
        raise NotWholeError("less than its size")
    return made


def _pieces(base: bytes, delta: bytes, place: int, result: int) -> list[bytes]:
    pieces: list[bytes] = []
    end = len(delta)
    while place < end:
        order = delta[place]
        place += 1
        if order & _COPY:
            start = length = 0
            for bit, shift in _PLACE_BYTES:
                if order & bit:
                    start |= delta[place] << shift
                    place += 1
            for bit, shift in _LENGTH_BYTES:
                if order & bit:
                    length |= delta[place] << shift
                    place += 1
            length = length or _USUAL_LENGTH
            piece = base[start : start + length]
        else:
            length = order
            piece = delta[place : place + length]
            place += length
        result -= length
        if not length or len(piece) != length or result < 0:
            raise NotWholeError("an instruction that does not fit")
        pieces.append(piece)
    return pieces


def _number(delta: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where the next thing begins."""
    number = shift = 0
    while True:
        byte = delta[place]
        place += 1
        number |= (byte & ~_MORE) << shift
        shift += _SIZE_BITS
        if not byte & _MORE:
            return number, place
