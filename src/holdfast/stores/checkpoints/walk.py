"""Walk a working tree by names: what is new, what is gone, and which directories exist.

git compares the times of files (`private_index`). The names in a directory are read unless its
times show that they are unchanged since the last look. This is trusted on file systems that keep
these times right (`is_local`), and for directories that had not just changed when they were read. A
digest of the names shows which directories changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from holdfast.model.checkpoint import WORKTREE, Excluded
from holdfast.stores.checkpoints.agent_homes import OUR_FOLDERS, home_at, may_be_home
from holdfast.stores.checkpoints.default_excludes import Ignoring, digest_of
from holdfast.stores.checkpoints.look_state import (
    NOTHING_LISTED,
    FolderDigests,
    Listed,
    Stamp,
)
from holdfast.stores.checkpoints.read_file import (
    READ,
    UNFIT_NAME,
    YOUNG,
    Content,
    read,
    special,
)
from holdfast.stores.git.program import Git
from holdfast.stores.git.trees import EMPTY, LINK, TREE, Node, Trees, path_text
from holdfast.value import dataclass, field

GIT = b".git"
RULES = b".gitignore"
ATTRIBUTES = b".gitattributes"
UNREADABLE_RULES = "a directory whose .gitignore is not a file"

#: File systems that only this machine's kernel changes: it reports every change, and updates a
#: directory's time whenever a name in it comes or goes.
_LOCAL = (b"ext2", b"ext3", b"ext4", b"xfs", b"btrfs", b"tmpfs", b"f2fs", b"bcachefs", b"ramfs")
_MOUNTS = "/proc/self/mountinfo"
_GITDIR = b"gitdir:"
#: A `.git` file contains only a path.
_LONGEST = 8_192
#: The digests of a directory that could not be listed; no listing equals them.
_UNLISTED: FolderDigests = ("", "")


@dataclass(slots=True, kw_only=True)
class Walked:
    """What a walk found. `directories` are all directories with their permissions. `fresh` are the
    directories whose names or rules changed, with the names in them that the rules keep. `excluded`
    is the number of names that the default excludes leave out, by directory."""

    directories: dict[bytes, int] = field(default_factory=dict)
    listing: dict[bytes, FolderDigests] = field(default_factory=dict)
    fresh: dict[bytes, set[bytes]] = field(default_factory=dict)
    new: set[bytes] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    left: dict[bytes, str] = field(default_factory=dict)
    excluded: dict[bytes, int] = field(default_factory=dict)
    stamps: dict[bytes, Stamp] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Names:
    files: list[bytes]
    folders: list[bytes]
    specials: list[bytes]
    #: It contains a `.git` that is not a folder.
    nested: bool

    @property
    def may_be_home(self) -> bool:
        return may_be_home(self.files) or may_be_home(self.folders)

    def digest(self) -> str:
        marked = sorted(
            [
                *self.files,
                *(name + b"/" for name in self.folders),
                *(name + b"//" for name in self.specials),
            ]
        )
        return digest_of(b"\0".join(marked))

    def all(self) -> list[bytes]:
        return [*self.files, *self.folders, *self.specials]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A walk over one working tree, compared with a tree of the store and an older listing."""

    root: bytes
    trees: Trees
    base: bytes
    listed: Listed
    ignoring: Ignoring
    #: When the look began, and the device whose directory times can be trusted.
    moment: int = 0
    device: int | None = None
    walked: Walked = field(default_factory=Walked)

    def below(self, start: bytes, rules: str) -> Walked:
        """Walk a directory and everything below it; `rules` is the digest of the rules above."""
        stack = [(start, rules)]
        stamps, inside, noted = self.listed.stamps, self.listed.inside, self.walked.stamps
        while stack:
            folder, rules = stack.pop()
            try:
                # Before the names: a change in between would give it a different stamp.
                status = os.lstat(place(self.root, folder))
                stamp = self._stamp(status)
                if stamp and stamp == stamps.get(folder):
                    here = self._rules_as_before(folder, rules)
                    if here is not None:
                        self._note_known(folder, status)
                        noted[folder] = stamp
                        if folder in inside:
                            stack += [(path, here) for path in inside[folder]]
                        continue
                names = _list(place(self.root, folder))
            except OSError as error:
                self._unlisted(folder, error)
                continue
            left = self._left_out(folder, names)
            if left is not None:
                self._leave(folder, left)
                continue
            ruled = RULES in names.files
            content = _rules_at(place(self.root, join(folder, RULES))) if ruled else None
            here = rules if content is None else _deeper(rules, content)
            # No stamp if it has a `.git` file, whose target may change, or unreadable rules, which
            # may change too, or if it may become a home without a new name in it.
            unsure = names.nested or names.may_be_home
            if stamp and not unsure and ruled == (content is not None):
                self.walked.stamps[folder] = stamp
            seen = (names.digest(), here)
            before = self.listed.directories.get(folder)
            if before == seen:
                self._note_known(folder, status)
                known = self.listed.directories
                deeper = [name for name in names.folders if join(folder, name) in known]
            else:
                self.walked.directories[folder] = stat.S_IMODE(status.st_mode)
                self.walked.listing[folder] = seen
                deeper = self._changed(folder, names, before is not None and before[1] == here)
            stack.extend((join(folder, name), here) for name in deeper)
        return self.walked

    def _left_out(self, folder: bytes, names: _Names) -> str | None:
        """Return why nothing of a directory is captured, if that is so. The project itself may be a
        worktree, and is no home: a home is refused as a project."""
        if folder and names.nested and is_worktree(place(self.root, folder)):
            return WORKTREE
        if folder and (names.may_be_home or folder.endswith(OUR_FOLDERS)):
            home = home_at(place(self.root, folder))
            if home is not None:
                return home
        return UNREADABLE_RULES if RULES in names.specials else None

    def _stamp(self, status: os.stat_result) -> Stamp:
        """Return the stamp of a directory; "" if its times cannot be trusted, or it changed so
        recently that its next change may leave the same times."""
        if status.st_dev != self.device or status.st_ctime_ns >= self.moment - YOUNG:
            return ""
        return (
            f"{status.st_dev}.{status.st_ino}.{status.st_mode}"
            f".{status.st_mtime_ns}.{status.st_ctime_ns}"
        )

    def _rules_as_before(self, folder: bytes, above: str) -> str | None:
        """Return the digest of the rules in a directory whose names did not change; None if the
        rules did. Rules are read every time: the times of files may be wrong."""
        before = self.listed.directories[folder][1]
        if before == above:
            return above  # it has no rules of its own
        content = _rules_at(place(self.root, join(folder, RULES)))
        here = None if content is None else _deeper(above, content)
        return here if here == before else None

    def _note_known(self, folder: bytes, status: os.stat_result) -> None:
        """Record a directory whose names and rules are unchanged."""
        self.walked.directories[folder] = stat.S_IMODE(status.st_mode)
        self.walked.listing[folder] = self.listed.directories[folder]
        if count := self.listed.excluded.get(folder):
            self.walked.excluded[folder] = count

    def _changed(self, folder: bytes, names: _Names, same_rules: bool) -> list[bytes]:
        """Judge the names in a directory; return its subdirectories to walk."""
        held = self.trees.folder(self.base, folder)
        asked = self._unsure(folder, names, held) if same_rules else names.all()
        ignored = self.ignoring.ask([join(folder, name) for name in asked])
        if count := len(ignored & self.ignoring.standing.keys()):
            self.walked.excluded[folder] = count
        kept = {name for name in names.all() if join(folder, name) not in ignored}
        unfit = {name for name in kept if name.lower() == GIT}
        kept -= unfit
        self._note(folder, names, kept, unfit)
        folders = [name for name in names.folders if name in kept]
        files = kept.intersection(names.files)
        for name in files:
            if name not in held or held[name][0] == TREE:
                self.walked.new.add(join(folder, name))
        still = files.union(folders)
        for name, (mode, _) in held.items():
            if name not in still or (mode != TREE and name not in files):
                self.walked.gone.add(join(folder, name))
        return folders

    def _unsure(self, folder: bytes, names: _Names, held: Mapping[bytes, Node]) -> list[bytes]:
        """Return the names to check. Under the same rules, a captured file is not ignored."""
        captured = {name for name, (mode, _) in held.items() if mode != TREE}
        return [
            *(name for name in names.files if name not in captured),
            *(name for name in names.folders if join(folder, name) not in self.listed.directories),
            *names.specials,
        ]

    def _note(self, folder: bytes, names: _Names, kept: set[bytes], unfit: Iterable[bytes]) -> None:
        self.walked.fresh[folder] = kept
        for name in unfit:
            self.walked.left[join(folder, name)] = UNFIT_NAME
        for name in kept.intersection(names.specials):
            path = join(folder, name)
            try:
                mode = os.lstat(place(self.root, path)).st_mode
            except OSError:
                continue  # already gone: the next look will not see it
            self.walked.left[path] = special(mode).reason

    def _unlisted(self, folder: bytes, error: OSError) -> None:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            self.walked.gone.add(folder)
            return
        self._leave(folder, f"a directory that cannot be read: {error.strerror or error}")

    def _leave(self, folder: bytes, reason: str) -> None:
        """Capture nothing of a directory, and drop its earlier content, which may be stale."""
        self.walked.gone.add(folder)
        self.walked.listing[folder] = _UNLISTED
        self.walked.left[folder] = reason


def has_unreadable_rules(folder: bytes) -> bool:
    """True if the rules of a directory are a pipe or a device. git would block forever reading it,
    and without the rules it is unknown what the project excludes."""
    return is_special(folder + b"/" + RULES)


def is_special(path: bytes) -> bool:
    """True if there is something other than a file, a link or a directory."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode))


def _list(folder: bytes) -> _Names:
    with os.scandir(folder) as listed:
        everything = list(listed)
    entries = [entry for entry in everything if entry.name != GIT]
    nested = len(entries) < len(everything) and any(
        entry.name == GIT and not entry.is_dir(follow_symlinks=False) for entry in everything
    )
    # Most entries are files, and most folders contain only files: that case is fast.
    files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    folders: list[bytes] = []
    specials: list[bytes] = []
    if len(files) < len(entries):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_symlink():
                files.append(entry.name)
            elif not entry.is_file(follow_symlinks=False):
                specials.append(entry.name)
    return _Names(files, folders, specials, nested)


def join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def place(root: bytes, path: bytes) -> bytes:
    return root + b"/" + path if path else root


def parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def ancestors(path: bytes) -> Iterator[bytes]:
    """Yield the directories above a path, without the root."""
    while path := parent(path):
        yield path


def rules_digest(root: bytes, folder: bytes, standing: str) -> str:
    """Return the digest of the rules that apply in a directory, as a walk computes it."""
    rules, so_far = standing, b""
    for name in [b"", *folder.split(b"/")] if folder else [b""]:
        so_far = join(so_far, name) if name else so_far
        content = _rules_at(place(root, join(so_far, RULES)))
        if content is not None:
            rules = _deeper(rules, content)
    return rules


def _deeper(above: str, content: bytes) -> str:
    """Return the digest of rules below others."""
    return digest_of(above.encode() + content)


def _rules_at(path: bytes) -> bytes | None:
    """Return the rules that git would read: it follows no link and ignores unreadable rules."""
    found = read(path, None)
    return found.data if isinstance(found, Content) and found.kind != LINK else None


def excluded(git: Git, root: bytes, trees: Trees) -> Iterator[Excluded]:
    """Yield the paths that the default excludes leave out. An excluded folder is listed without its
    content. Paths that the project's own rules exclude are not listed."""
    with Ignoring(git) as ignoring:
        walk = Walk(root=root, trees=trees, base=EMPTY, listed=NOTHING_LISTED, ignoring=ignoring)
        walk.below(b"", "")
        for path, rule in ignoring.standing.items():
            here = place(root, path)
            is_directory = os.path.isdir(here) and not os.path.islink(here)  # noqa: PTH112, PTH114
            yield Excluded(path=path_text(path), rule=rule, is_directory=is_directory)


def is_worktree(folder: bytes, *, inside: int | None = None) -> bool:
    """True if a folder is a linked git worktree, in which another agent may be working. `inside` is
    the descriptor of the folder that the path is relative to.

    The `.git` file of a linked worktree points to its folder in the repository's `worktrees`. The
    `.git` file of a submodule points to a whole repository; a submodule is captured like any
    folder.
    """
    gitdir = _gitdir(join(folder, GIT), inside)
    if gitdir is None:
        return False
    place = gitdir if gitdir.startswith(b"/") else folder + b"/" + gitdir
    try:
        os.stat(place, dir_fd=inside)
    except OSError:
        return _looks_linked(gitdir)  # the repository moved, or cannot be entered
    try:
        os.stat(place + b"/commondir", dir_fd=inside)
    except OSError:
        return False
    return True


def _gitdir(path: bytes, inside: int | None) -> bytes | None:
    """Return the path in a `.git` file; None if that is not a file that git wrote."""
    try:
        if not stat.S_ISREG(os.stat(path, dir_fd=inside, follow_symlinks=False).st_mode):
            return None
        fd = os.open(path, READ, dir_fd=inside)
    except OSError:
        return None
    try:
        text = os.read(fd, _LONGEST) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    line = text.strip()
    return line[len(_GITDIR) :].strip() or None if line.startswith(_GITDIR) else None


def _looks_linked(gitdir: bytes) -> bool:
    """True for `…/worktrees/NAME`; `…/modules/worktrees/NAME` is a submodule `worktrees/NAME`."""
    parts = [part for part in gitdir.split(b"/") if part]
    return parts[-2:-1] == [b"worktrees"] and parts[-3:-2] != [b"modules"]


def mounts() -> bytes:
    """Return the mount table; empty if the system does not provide it."""
    try:
        with open(_MOUNTS, "rb") as file:  # noqa: PTH123 - read by every take
            return file.read()
    except OSError:
        return b""


def is_local(mounted: bytes, device: int) -> bool:
    """True if a device has such a file system. `mounted` is the result of `mounts`."""
    wanted = b" %d:%d " % (os.major(device), os.minor(device))
    for line in mounted.splitlines():
        # The device comes before the path, which may contain anything but blanks.
        if wanted in line.partition(b"/")[0]:
            return line.partition(b" - ")[2].partition(b" ")[0] in _LOCAL
    return False
