"""How the properties run: the machine may be busy, so no example has a deadline.

Every run of the tests tries the same few examples of each, so that what fails was broken by whoever
sees it; `make test-deep` tries many more, and others every time.
"""

from __future__ import annotations

import os

from hypothesis import settings

_WANTED = os.environ.get("HOLDFAST_EXAMPLES")

settings.register_profile(
    "patient",
    deadline=None,
    max_examples=int(_WANTED or "8"),
    derandomize=_WANTED is None,
)
settings.load_profile("patient")
