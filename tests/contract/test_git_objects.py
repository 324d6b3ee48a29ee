"""Objects of real repositories, read in process: what git gives, from wherever it is whole."""

from __future__ import annotations

import errno
import os
import random
import struct
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import pytest

from holdfast.errors import DamageError, StorageError
from holdfast.stores.git.object import Kind, file_of, object_id
from holdfast.stores.git.object_files import LooseObjects
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.pack import Packed, PackRows, pack_entry, pack_header, pack_index
from holdfast.stores.git.pack_writer import Pack
from holdfast.stores.git.trees import Trees

_BY_ID = 7


class Repository:
    """A bare repository of git's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.objects = path / "objects"
        path.mkdir()
        self.git("init", "--quiet", "--bare", "--template=")

    def git(self, *arguments: str, given: bytes = b"") -> bytes:
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_DIR": str(self.path),
        }
        run = subprocess.run(
            ["git", *arguments], input=given, capture_output=True, check=True, env=environment
        )
        return run.stdout

    def blob(self, data: bytes) -> bytes:
        return bytes.fromhex(self.git("hash-object", "-w", "--stdin", given=data).decode().strip())

    def pack(self, *options: str) -> Path:
        """All objects that have files of their own, in one more pack."""
        names = [
            folder.name + file.name
            for folder in self.objects.iterdir()
            if len(folder.name) == 2
            for file in folder.iterdir()
        ]
        given = "".join(f"{name}\n" for name in sorted(names)).encode()
        path = f"{self.objects}/pack/pack"
        name = self.git("pack-objects", "--quiet", *options, path, given=given).decode().strip()
        self.git("prune-packed", "--quiet")
        return Path(f"{path}-{name}.pack")

    def all(self) -> list[bytes]:
        said = self.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
        return [bytes.fromhex(line.decode()) for line in said.split()]

    def content(self, oid: bytes) -> tuple[str, bytes]:
        kind = self.git("cat-file", "-t", oid.hex()).decode().strip()
        return kind, self.git("cat-file", kind, oid.hex())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "a 'store'")


def _text(seed: int, lines: int = 400) -> bytes:
    chance = random.Random(seed)
    return b"".join(b"%d a line of some length\n" % chance.randrange(10**9) for _ in range(lines))


def _fill(repository: Repository) -> None:
    """Things that git packs as differences, and others: empty, large, of every kind."""
    text = _text(1)
    for number in range(12):
        repository.blob(text + b"line %d\n" % number * (number + 1))
    repository.blob(b"")
    large = repository.blob(random.Random(2).randbytes(700_000))
    tree = repository.git("mktree", given=b"100644 blob %b\tlarge\n" % large.hex().encode())
    who = "A <a@b> 1700000000 +0000"
    text = f"tree {tree.decode().strip()}\nauthor {who}\ncommitter {who}\n\nwhy\n".encode()
    commit = repository.git("hash-object", "-t", "commit", "-w", "--stdin", given=text)
    tag = f"object {commit.decode().strip()}\ntype commit\ntag t\ntagger {who}\n\nsaid\n"
    repository.git("hash-object", "-t", "tag", "-w", "--stdin", given=tag.encode())


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--delta-base-offset",),
        ("--no-reuse-delta", "--depth=1"),
        ("--index-version=2,0",),
    ],
    ids=["bases by id", "bases by place", "whole or near", "places in the large table"],
)
def test_every_object_is_what_git_says(repository: Repository, options: tuple[str, ...]) -> None:
    _fill(repository)
    loose = {oid: Objects(repository.objects).read(oid) for oid in repository.all()}
    repository.pack(*options)
    objects = Objects(repository.objects)
    assert len(loose) == 17
    for oid in repository.all():
        found, data = objects.read(oid)
        assert (found.word, data) == repository.content(oid)
        assert loose[oid] == (found, data)
        assert oid in objects


def test_what_others_write_meanwhile_is_found(repository: Repository) -> None:
    first = repository.blob(b"one")
    repository.pack()
    objects = Objects(repository.objects)
    assert objects.read(first) == (Kind.BLOB, b"one")
    single = repository.blob(b"two")
    assert not objects.stored(single)
    assert objects.read(single) == (Kind.BLOB, b"two")
    old = repository.pack()
    assert objects.read(single) == (Kind.BLOB, b"two")
    repository.git("tag", "keep-one", first.hex())
    repository.git("tag", "keep-two", single.hex())
    repository.git("repack", "-a", "-d", "-q")
    assert not old.exists()
    assert Objects(repository.objects).read(single) == objects.read(single) == (Kind.BLOB, b"two")


def test_more_packs_than_may_be_open_at_once(repository: Repository) -> None:
    blobs = []
    for number in range(80):
        blobs.append(repository.blob(b"%d" % number))
        repository.pack()
    objects = Objects(repository.objects)
    before = _open_files()
    for turn in range(2):
        assert [objects.read(oid)[1] for oid in blobs] == [b"%d" % n for n in range(80)], turn
    assert _open_files() - before <= 64
    del objects
    assert _open_files() <= before


def test_an_object_that_is_stored_twice_is_read_where_it_is_whole(repository: Repository) -> None:
    oid = repository.blob(_text(3))
    damaged = repository.pack()
    repository.blob(b"another, so that the packs have two names")
    (repository.objects / oid.hex()[:2]).mkdir(exist_ok=True)
    LooseObjects(repository.objects).put(Kind.BLOB, _text(3))
    whole = repository.pack("--all-progress-implied")
    assert whole != damaged
    _flip(damaged, 200)
    assert Objects(repository.objects).read(oid) == (Kind.BLOB, _text(3))
    _flip(whole, 200)
    with pytest.raises(DamageError, match=oid.hex()):
        Objects(repository.objects).read(oid)


def test_a_disk_that_cannot_read_costs_what_it_cannot_read(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    oid = repository.blob(b"one")
    repository.pack()
    other = repository.blob(b"two")

    def failing(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", failing)
    objects = Objects(repository.objects)
    with pytest.raises(DamageError, match=oid.hex()):
        objects.read(oid)
    assert objects.read(other) == (Kind.BLOB, b"two")


def test_no_more_files_may_be_opened_is_no_damage(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    oid = repository.blob(b"one")
    repository.pack()

    def failing(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(StorageError, match="Too many open files"):
        Objects(repository.objects).read(oid)


def test_a_size_that_is_wrong_takes_no_memory(repository: Repository) -> None:
    """A bit that flipped made a library that believed it fill nineteen gigabytes."""
    size, stored = 19_274_676_831, zlib.compress(b"small")
    head = bytearray([Kind.BLOB << 4 | size & 15])
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    oid = object_id(Kind.BLOB, b"small")
    _write_pack(repository, {oid: bytes(head) + stored})
    tracemalloc.start()
    with pytest.raises(DamageError):
        Objects(repository.objects).read(oid)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_an_object_under_the_id_of_another_is_damage(repository: Repository) -> None:
    """As an index with a wrong place gives it: whole, and not what was asked for."""
    one, two = (object_id(Kind.BLOB, data) for data in (b"one", b"two"))
    _write_pack(
        repository, {one: pack_entry(Kind.BLOB, b"two"), two: pack_entry(Kind.BLOB, b"two")}
    )
    path = Path(file_of(str(repository.objects), one))
    objects = Objects(repository.objects)
    assert objects.read(two) == (Kind.BLOB, b"two")
    with pytest.raises(DamageError, match=one.hex()):
        objects.read(one)
    LooseObjects(repository.objects).put(Kind.BLOB, b"one")
    assert objects.read(one) == (Kind.BLOB, b"one")
    path.chmod(0o600)
    path.write_bytes(zlib.compress(b"blob 3\0two"))
    with pytest.raises(DamageError, match=one.hex()):
        objects.read(one)


def test_what_is_made_of_itself_is_damage(repository: Repository) -> None:
    one, two = b"\1" * 20, b"\2" * 20
    delta = bytes([5, 5, 0x90, 5])
    head = bytes([_BY_ID << 4 | len(delta)])
    _write_pack(
        repository,
        {
            one: head + two + zlib.compress(delta),
            two: head + one + zlib.compress(delta),
        },
    )
    for oid in (one, two):
        with pytest.raises(DamageError):
            Objects(repository.objects).read(oid)


def test_a_tree_that_is_none_is_damage(repository: Repository) -> None:
    oid = LooseObjects(repository.objects).put(Kind.TREE, b"no tree at all")
    with pytest.raises(DamageError, match="not a tree"):
        Trees(Objects(repository.objects)).entries(oid)


@pytest.mark.parametrize("oid", [b"", b"\0", b"\1" * 19, b"\1" * 32])
def test_what_is_no_id_is_not_there(repository: Repository, oid: bytes) -> None:
    repository.blob(b"one")
    repository.pack()
    objects = Objects(repository.objects)
    assert oid not in objects
    with pytest.raises(DamageError):
        objects.read(oid)


def test_no_repository_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        Objects(tmp_path / "objects")


def test_a_new_object_is_git_s_own(repository: Repository) -> None:
    new = LooseObjects(repository.objects)
    oid = new.put(Kind.BLOB, b"bytes\0\n")
    path = Path(file_of(str(repository.objects), oid))
    assert repository.content(oid) == ("blob", b"bytes\0\n")
    assert path.stat().st_mode & 0o777 == 0o444
    assert not list(repository.objects.glob("tmp_*"))
    # One that is used again is no longer old: git removes what nobody used for long.
    os.utime(path, (0, 0))
    assert new.put(Kind.BLOB, b"bytes\0\n") == oid
    assert path.stat().st_mtime > 0
    repository.git("fsck", "--strict")


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _write_pack(repository: Repository, entries: dict[bytes, bytes]) -> None:
    body, packed = bytearray(pack_header(len(entries))), PackRows()
    for oid, stored in entries.items():
        packed.add(oid, Packed(len(body), zlib.crc32(stored)))
        body += stored
    checksum = bytes(20)
    path = repository.objects / "pack" / f"pack-{'0' * 40}.pack"
    path.write_bytes(bytes(body) + checksum)
    path.with_suffix(".idx").write_bytes(pack_index(packed, checksum))


def _flip(path: Path, place: int) -> None:
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


def test_an_index_that_says_too_much_names_nothing(repository: Repository) -> None:
    oid = repository.blob(b"one")
    path = repository.pack().with_suffix(".idx")
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    struct.pack_into(">I", data, 8 + 4 * 255, 4_000_000_000)
    path.write_bytes(data)
    assert oid not in Objects(repository.objects)


def test_git_reads_what_was_compressed_with_any_window(repository: Repository) -> None:
    sizes = [2**power + more for power in range(17) for more in (-1, 0, 1)]
    contents = [(b"%d of " % size * size)[:size] for size in sizes]
    with Pack(repository.objects / "pack", lambda _: False) as pack:
        written = {pack.put(Kind.BLOB, each): each for each in contents}
        pack.flush()
    repository.git("fsck", "--strict")
    objects = Objects(repository.objects)
    for oid, data in written.items():
        assert objects.read(oid) == (Kind.BLOB, data)
    listed = repository.git("cat-file", "--batch-all-objects", "--batch")
    assert all(data in listed for data in written.values())
