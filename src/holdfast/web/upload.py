"""A file in a form: it is streamed to the disk and never held in memory.

Forms with a file are sent as `multipart/form-data`. Only the first kilobytes are parsed here; they
contain the token that proves that the form is ours. The content of the file is read by a child.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.value import dataclass

if TYPE_CHECKING:
    from starlette.requests import Request

#: Anything larger is not a plan: a plan of a million items is smaller.
_MOST = 512 * 1024**2
#: The fields before the file, and the headers of the file, must fit into this.
_HEAD = 16 * 1024
_MOST_FILES = 4
_PIECE = 1024**2
_BOUNDARY = re.compile(r'boundary="?([A-Za-z0-9\'()+_,./:=? -]{1,70})"?')
_NAME = re.compile(rb'name="([^"]*)"')
_FILE = re.compile(rb'filename="([^"]*)"')
_NOT_IN_NAMES = re.compile(r"[^\w. -]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """The parsed upload: the fields before the file, and the file, which has the name that the user
    knows it by."""

    fields: dict[str, str]
    path: Path


class Uploads:
    """The last few files that were sent, as long as the server runs."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._kept: dict[str, Path] = {}

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def keep(self, name: str, path: Path) -> None:
        self._kept[name] = path
        while len(self._kept) > _MOST_FILES:
            oldest = next(iter(self._kept))
            shutil.rmtree(self._kept.pop(oldest).parent, ignore_errors=True)

    def let_go(self, request: Request) -> None:
        """Remove what was sent with a request, unless it was kept."""
        sent: Upload | None = getattr(request.state, "upload", None)
        if sent is not None and sent.path not in self._kept.values():
            shutil.rmtree(sent.path.parent, ignore_errors=True)

    def get(self, name: str) -> Path | None:
        return self._kept.get(name)

    async def received(self, request: Request) -> Upload:
        """Write what is sent to a new folder; raises `UsageError` if it is not a form."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="holdfast-web-"))
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            return await _received(request, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


async def _received(request: Request, folder: Path) -> Upload:
    found = _BOUNDARY.search(request.headers.get("content-type", ""))
    if found is None:
        raise _unreadable()
    raw = folder / "sent"
    size = 0
    with raw.open("wb") as file:
        async for piece in request.stream():
            size += len(piece)
            if size > _MOST:
                raise UsageError("The file is too large to be a saved plan. Nothing was done.")
            file.write(piece)
    fields, name, start, end = _parts(raw, b"--" + found[1].encode())
    path = folder / (_NOT_IN_NAMES.sub("_", name)[-100:].lstrip(".") or "plan.json")
    _cut(raw, path, start, end)
    raw.unlink()
    return Upload(fields=fields, path=path)


def _parts(raw: Path, mark: bytes) -> tuple[dict[str, str], str, int, int]:
    """The fields before the file, its name, and where it begins and ends. It is the last part."""
    with raw.open("rb") as file:
        head = file.read(_HEAD)
        file.seek(max(0, raw.stat().st_size - _HEAD))
        at, tail = file.tell(), file.read()
    last = tail.rfind(b"\r\n" + mark + b"--")
    fields: dict[str, str] = {}
    place = head.find(mark)
    while place != -1 and last != -1:
        begin = head.find(b"\r\n\r\n", place)
        about = head[place:begin]
        name = _NAME.search(about)
        if begin == -1 or name is None:
            break
        if (file_name := _FILE.search(about)) is not None:
            said = file_name[1].decode("utf-8", "replace")
            return fields, Path(said.replace("\\", "/")).name, begin + 4, at + last
        after = head.find(b"\r\n" + mark, begin)
        fields[name[1].decode("utf-8", "replace")] = head[begin + 4 : after].decode(
            "utf-8", "replace"
        )
        place = -1 if after == -1 else after + 2
    raise _unreadable()


def _cut(raw: Path, path: Path, start: int, end: int) -> None:
    with raw.open("rb") as file, path.open("xb") as made:
        file.seek(start)
        left = end - start
        while left > 0 and (piece := file.read(min(left, _PIECE))):
            made.write(piece)
            left -= len(piece)


def _unreadable() -> UsageError:
    return UsageError("The form cannot be read. Nothing was done.", hint="Choose a file first.")
