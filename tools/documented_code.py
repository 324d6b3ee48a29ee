"""Check the types of the Python in the pages, as a reader with a strict type checker sees it.

    python -m tools.documented_code

The blocks of a page go on from each other, so each page is one module.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[1]
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: The program of the reader, which only the reader has.
_OF_THE_READER = {"my_agent.py": "async def serve() -> None: ...\n"}
#: The options of `make types`, so that mypy goes on from what it found there.
_ARGUMENTS = (
    "--no-error-summary",
    "--hide-error-context",
    f"--config-file={ROOT / 'pyproject.toml'}",
    f"--cache-dir={ROOT / '.mypy_cache'}",
)
#: A page may set a name in a `with` block, and use it in its next block.
_FINE = "[possibly-undefined]"


def main() -> int:
    print(wrong := problems(modules(_pages())), end="")
    return 1 if wrong else 0


def modules(pages: Iterator[Path]) -> dict[str, str]:
    """The code of each page that has Python, by the name of its module."""
    found = {page: _PYTHON.findall(page.read_text(encoding="utf-8")) for page in pages}
    return {
        f"page_{page.stem.replace('-', '_').lower()}.py": "\n".join(blocks)
        for page, blocks in found.items()
        if blocks
    }


def problems(code: dict[str, str]) -> str:
    """What mypy finds in these modules; "" if that is nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (code | _OF_THE_READER).items():
            Path(folder, name).write_text(text, encoding="utf-8")
        said, broken, _ = api.run([*_ARGUMENTS, *(str(Path(folder, name)) for name in code)])
    lines = said.replace(f"{folder}/", "").splitlines(keepends=True)
    return "".join(each for each in lines if not each.endswith(f"{_FINE}\n")) + broken


def _pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs" / "how-to").glob("*.md"))


if __name__ == "__main__":
    sys.exit(main())
