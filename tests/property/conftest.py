"""How the properties run: the machine may be busy, so no example has a deadline.

Every run of the tests tries some examples of each; `make test-deep` tries many more.
"""

from __future__ import annotations

import os

from hypothesis import settings

_EXAMPLES = int(os.environ.get("HOLDFAST_EXAMPLES", "40"))

settings.register_profile("patient", deadline=None, max_examples=_EXAMPLES)
settings.load_profile("patient")
