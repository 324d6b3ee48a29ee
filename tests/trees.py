"""A folder as a person would compare it: every name, type, mode and content."""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: By path: the whole mode, and the content of a file or the target of a link.
Everything = dict[str, tuple[int, bytes]]


def everything(root: Path) -> Everything:
    found: Everything = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            content = b""
            if stat.S_ISLNK(mode):
                content = os.fsencode(path.readlink())
            elif stat.S_ISREG(mode):
                content = path.read_bytes()
            found[str(path.relative_to(root))] = (mode, content)
    return found
