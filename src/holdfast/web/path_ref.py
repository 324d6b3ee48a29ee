"""Paths in addresses and forms. A name need not be UTF-8, and both are text: so a path is written
as URLs write bytes, in plain ASCII."""

from __future__ import annotations

import os
from urllib.parse import quote_from_bytes, unquote_to_bytes


def path_ref(path: str) -> str:
    return quote_from_bytes(os.fsencode(path))


def path_of(ref: str) -> str:
    return os.fsdecode(unquote_to_bytes(os.fsencode(ref)))
