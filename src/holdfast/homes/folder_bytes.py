"""What folders of a home take on the disk, where no item stands for it."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from holdfast.model.item import Problem
from holdfast.stores.files import allocated_bytes


def bytes_below(top: Path, left_out: Collection[Path], problems: list[Problem]) -> int:
    """By paths as text, and without a look at what is `left_out`: a folder of checkpoints may hold
    very many files. Links are not followed; one at the top has nothing below it."""
    skipped = {str(each) for each in left_out}
    total = 0
    waiting = [] if top.is_symlink() else [str(top)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = [each for each in entries if each.path not in skipped]
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(Problem(path=folder, reason=str(error.strerror)))
            continue
        for each in found:
            if each.is_dir(follow_symlinks=False):
                waiting.append(each.path)
                continue
            with suppress(FileNotFoundError):
                total += allocated_bytes(each.stat(follow_symlinks=False))
    return total
