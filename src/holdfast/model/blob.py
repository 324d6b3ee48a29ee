"""One piece of data in a store of blobs."""

from __future__ import annotations

from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """`size` is the length of its content, `allocated` what deleting it gives back."""

    name: str
    size: int
    allocated: int
