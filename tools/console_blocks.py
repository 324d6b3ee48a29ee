"""Follow the pages of the docs, and write what their commands print now into their console blocks.

    python -m tools.console_blocks            every page
    python -m tools.console_blocks PAGE…      these

A block that still matches stays as it is, sizes too. Where a page cuts an output (`…`) and a part
that it shows is no longer there, a person has to choose: it is printed, and the exit code is 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cli import console_blocks, scenes
from tests.cli.page_shell import ROOT


def main() -> int:
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    if not pages:
        pages = [ROOT / name for name in (*scenes.SCENES, *scenes.AGENT_PAGES)]
    failed = False
    try:
        for page in pages:
            failed = not _follow(page) or failed
    finally:
        scenes.close()
    return 1 if failed else 0


def _follow(page: Path) -> bool:
    found = scenes.differences(page)
    name = page.relative_to(ROOT)
    better = {each.step: each.better for each in found if each.better is not None}
    console_blocks.replaced(page, better)
    for step in better:
        print(f"{name}: wrote what `{step.command.splitlines()[0]}` prints")
    wrong = [each for each in found if each.better is None or each.ran.code != each.step.code]
    for each in wrong:
        print(
            f"{name}, line {each.step.start}: look at this yourself\n$ {each.step.command}\n"
            f"{each.ran.out}[exit code {each.ran.code}, and not {each.step.code}]"
            if each.ran.code != each.step.code
            else f"{name}, line {each.step.start}: a part of the block is gone\n"
            f"$ {each.step.command}\n{each.ran.out}",
            file=sys.stderr,
        )
    return not wrong


if __name__ == "__main__":
    sys.exit(main())
