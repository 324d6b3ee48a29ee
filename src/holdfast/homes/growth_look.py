"""Measures the disk usage of homes, folder by folder, and finds the processes that write there.

Read-only: no file is opened, and nothing that belongs to an agent is touched.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.options import VAULT
from holdfast.model.alarm import Writer
from holdfast.model.text import one_line
from holdfast.policy.growth_alarm import Grown, Room, Sizes
from holdfast.stores.files import RESERVE
from holdfast.value import dataclass

#: A file modified within this many seconds may be growing.
_LATELY = 120.0
_BLOCK = 512
_LONGEST = 80
_WRITES = os.O_WRONLY | os.O_RDWR
#: What Holdfast itself writes, as fast as the disk allows. No agent is to blame for its growth.
_OURS = (RESERVE, "trash", "index", "archive", VAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tops:
    """A home, the folders its agent writes to, and the agent's programs. `state` is the folder of
    Holdfast's own files."""

    home: str
    folders: tuple[str, ...]
    programs: tuple[str, ...] = ()
    state: str = ""


class MachineEyes:
    """The homes of a machine. They may change between two looks."""

    def __init__(
        self,
        homes: Sequence[Tops] = (),
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.monotonic = monotonic
        self.watch(homes)

    def watch(self, homes: Sequence[Tops]) -> None:
        """Watch these homes from now on, with one folder to query for each of their disks."""
        self._homes = homes
        self._disks: dict[int, str] = {}
        for folder in self._folders():
            disk = _disk_of(folder)
            if disk is not None:
                self._disks.setdefault(disk, folder)

    def room(self) -> Room:
        """The free space on each disk. This runs every two seconds for months, so it makes one
        system call per disk and no more."""
        free: dict[int, int] = {}
        for disk, folder in self._disks.items():
            with contextlib.suppress(OSError):
                found = os.statvfs(folder)
                free[disk] = found.f_bfree * found.f_frsize
        return Room(at=self.monotonic(), free=free)

    def sizes(self, disks: Collection[int] = ()) -> Sizes:
        """The sizes of folders and recent files on these disks. What cannot be read is left out:
        its growth cannot be measured."""
        at, since = self.monotonic(), self._clock() - _LATELY
        folders: dict[str, int] = {}
        files: dict[str, int] = {}
        waiting = [each for each in self._folders() if not disks or _disk_of(each) in disks]
        ours = {f"{each.state}{os.sep}{name}" for each in self._homes for name in _OURS}
        while waiting:
            folder = waiting.pop()
            if folder in folders:
                continue  # one home is inside another
            held = 0
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for each in entries:
                    if each.path in ours:
                        continue
                    if each.is_dir(follow_symlinks=False):
                        waiting.append(each.path)
                        continue
                    with contextlib.suppress(OSError):
                        status = each.stat(follow_symlinks=False)
                        held += status.st_blocks * _BLOCK
                        if status.st_mtime >= since:
                            files[each.path] = status.st_blocks * _BLOCK
            folders[folder] = held
        return Sizes(at=at, folders=folders, files=files)

    def home_of(self, path: str) -> str:
        """The innermost home that contains a path."""
        within = [
            (len(folder), each.home)
            for each in self._homes
            for folder in each.folders
            if path == folder or path.startswith(f"{folder}{os.sep}")
        ]
        return max(within)[1] if within else path

    def writers(self, grown: Grown) -> Sequence[Writer]:
        """The processes that have the file open for writing. A process that reopens it for each
        line is hardly ever caught with it open. In that case the agent's processes are returned as
        probable writers, and so are those whose command line names the file, such as a shell
        loop."""
        commands = life.commands()
        opened = [
            (number, bool(flags & _WRITES))
            for number, path, flags in life.opened_files(commands)
            if _is_meant(path, grown)
        ]
        open_by = {number for number, writes in opened if writes}
        if open_by:
            return [_writer(number, commands) for number in sorted(open_by)]
        reading = {number for number, _ in opened}
        home = self.home_of(grown.path)
        programs = next((each.programs for each in self._homes if each.home == home), ())
        return [
            _writer(number, commands, sure=False)
            for number, words in sorted(commands.items())
            if number not in reading
            and (life.is_one_of(words, programs) or any(grown.path in each for each in words))
        ]

    def _folders(self) -> Collection[str]:
        return {folder: None for each in self._homes for folder in each.folders}


def _disk_of(folder: str) -> int | None:
    try:
        return os.stat(folder).st_dev  # noqa: PTH116 - plain strings throughout
    except OSError:
        return None


def _is_meant(path: str, grown: Grown) -> bool:
    return path == grown.path or (grown.folder and path.startswith(f"{grown.path}{os.sep}"))


def _writer(number: int, commands: Mapping[int, Sequence[str]], *, sure: bool = True) -> Writer:
    """A command line may contain a prompt or a key, so only its first words are shown."""
    words = [each for each in commands.get(number, ()) if each]
    program = os.path.basename(words[0]) if words else "?"  # noqa: PTH119 - plain strings
    script = next((os.path.basename(each) for each in words[1:2] if os.sep in each), "")  # noqa: PTH119
    return Writer(pid=number, command=one_line(f"{program} {script}".strip())[:_LONGEST], sure=sure)
