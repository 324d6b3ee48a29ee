"""A repository with a damaged file: an object is what it was, or named as damaged."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import DamageError
from holdfast.stores.git.object import Kind, NotWholeError
from holdfast.stores.git.object_files import LooseObjects
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.pack import apply_delta
from tests import tally
from tests.property.damage import damaged

PLACE: dict[str, Path] = {}
HELD: dict[bytes, tuple[Kind, bytes]] = {}


@pytest.fixture(autouse=True, scope="module")
def made() -> Iterator[None]:
    """Some objects in a pack, as differences too, and some in files of their own."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "store"
        environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull}
        for arguments in (["init", "--quiet", "--bare", "--template=", str(root)],):
            subprocess.run(["git", *arguments], check=True, env=environment)
        objects = root / "objects"
        writer = LooseObjects(objects)
        text = b"".join(b"%d\n" % random.Random(1).randrange(10**9) for _ in range(90))
        packed = [writer.put(Kind.BLOB, text + b"more\n" * number) for number in range(6)]
        packed.append(writer.put(Kind.TREE, b"100644 name\0" + packed[0]))
        given_names = "".join(f"{oid.hex()}\n" for oid in packed).encode()
        pack = ["git", "-C", str(root), "pack-objects", "--quiet", str(objects / "pack" / "pack")]
        subprocess.run(pack, input=given_names, check=True, env=environment, capture_output=True)
        subprocess.run(["git", "-C", str(root), "prune-packed"], check=True, env=environment)
        single = [writer.put(Kind.BLOB, text[::-1]), writer.put(Kind.BLOB, b"")]
        reader = Objects(objects)
        HELD.update({oid: reader.read(oid) for oid in [*packed, *single]})
        PLACE["objects"] = objects
        yield


@given(st.data())
def test_an_object_is_what_it_was_or_damaged(data: st.DataObject) -> None:
    whole = PLACE["objects"]
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    name = data.draw(st.sampled_from(files))
    with tempfile.TemporaryDirectory() as folder:
        objects = Path(folder) / "objects"
        shutil.copytree(whole, objects)
        (objects / name).chmod(0o600)
        (objects / name).write_bytes(data.draw(damaged((whole / name).read_bytes())))
        reader = Objects(objects)
        for oid, held in HELD.items():
            try:
                assert reader.read(oid) == held
            except DamageError:
                continue
    tally.verified()


@given(st.binary(max_size=80), st.binary(max_size=40))
def test_a_delta_is_applied_or_refused(base: bytes, rest: bytes) -> None:
    for delta in (rest, bytes([len(base), 20]) + rest):
        try:
            assert len(apply_delta(base, delta)) <= len(base) * len(delta) + len(delta)
        except NotWholeError:
            continue
