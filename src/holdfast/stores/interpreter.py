"""Starts another process of this Python interpreter, with the same modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def is_python() -> bool:
    """True if a worker can be started. A frozen program, or one that embeds Python, would start
    itself again instead."""
    name = Path(sys.executable or "").name.lower()
    return not getattr(sys, "frozen", False) and name.startswith(("python", "pypy"))


def worker_words(module: str, function: str, asked: str) -> Sequence[str]:
    """The command line of a process that calls a function with the string `asked`."""
    code = (
        "import sys; asked = sys.argv[1]; sys.path[:] = sys.argv[2:]; "
        f"from {module} import {function}; {function}(asked)"
    )
    # -P: a folder named holdfast in the agent's project must not be imported.
    return [sys.executable, "-P", "-c", code, asked, *sys.path]
