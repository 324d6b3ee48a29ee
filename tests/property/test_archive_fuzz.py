"""Bundles and catalogues that somebody damaged, or made up: named as damage, and nothing worse."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import DamageError
from holdfast.homes.options import ArchiveOptions
from holdfast.stores.archive import bundle
from holdfast.stores.archive.bundle_manifest import BundleManifest
from holdfast.stores.archive.catalogue import NAME, Catalogue
from holdfast.stores.archive.codec import Codec
from holdfast.stores.line_file import LineFile
from tests import tally
from tests.archiving import STAMPED, a_stored_session, archive, opened, with_files
from tests.property.damage import JSON, changed

MADE: dict[Codec, bytes] = {}


@pytest.fixture(autouse=True, scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One real bundle of each kind, and the catalogue line of one."""
    for codec in Codec:
        root = tmp_path_factory.mktemp("home")
        home = opened(root)
        a_stored_session(home)
        with_files(home, STAMPED)
        archive(opened(root, ArchiveOptions(codec=codec.value)), STAMPED)
        [made] = (root / "archive").glob(f"*{codec.suffix}")
        MADE[codec] = made.read_bytes()


def whole(codec: Codec) -> BundleManifest:
    return bundle.verify(io.BytesIO(MADE[codec]), codec)


@given(st.sampled_from(Codec), st.data())
def test_a_flipped_byte_is_noticed_or_harmless(codec: Codec, data: st.DataObject) -> None:
    tally.injected()
    tally.verified()
    raw = bytearray(MADE[codec])
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    try:
        found = bundle.verify(io.BytesIO(raw), codec)
    except DamageError:
        return
    assert found == whole(codec)  # a byte of a header that says nothing, as the time in gzip's


@given(st.sampled_from(Codec), st.data())
def test_a_bundle_that_was_cut_off_is_noticed(codec: Codec, data: st.DataObject) -> None:
    tally.injected()
    tally.verified()
    end = data.draw(st.integers(0, len(MADE[codec]) - 1))
    with pytest.raises(DamageError):
        bundle.verify(io.BytesIO(MADE[codec][:end]), codec)


@given(st.sampled_from(Codec), st.binary(max_size=2_000))
def test_any_bytes_are_no_bundle(codec: Codec, raw: bytes) -> None:
    with pytest.raises(DamageError):
        bundle.verify(io.BytesIO(raw), codec)
    with pytest.raises(DamageError):
        bundle.read_manifest(io.BytesIO(raw), codec)


@given(st.binary(max_size=3_000))
def test_any_tar_is_no_bundle(content: bytes) -> None:
    packed = io.BytesIO(gzip.compress(content))
    with pytest.raises(DamageError):
        bundle.verify(packed, Codec.GZIP)


@st.composite
def changed_besides(draw: st.DrawFn) -> bytes:
    """A beside.json with something else in one place."""
    return draw(changed(json.loads(whole(Codec.GZIP).to_bytes())))


@given(changed_besides() | st.binary(max_size=200) | JSON.map(lambda v: json.dumps(v).encode()))
def test_a_made_up_beside_is_read_or_refused(data: bytes) -> None:
    try:
        manifest = BundleManifest.from_bytes(data)
    except DamageError:
        return
    assert BundleManifest.from_bytes(manifest.to_bytes()) == manifest
    assert all("/" not in file.name for file in manifest.files)


NAMES = st.sampled_from(
    ["beside.json", "session.jsonl", "files/x", "files/../x", "/etc/passwd", "", "files/", "."]
)


@given(st.lists(st.tuples(NAMES, st.sampled_from(list(b"0123456LKgx"))), max_size=5))
def test_made_up_members_are_refused(members: list[tuple[str, int]]) -> None:
    packed = io.BytesIO()
    head = whole(Codec.GZIP).to_bytes()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        first = tarfile.TarInfo("beside.json")
        first.size = len(head)
        tar.addfile(first, io.BytesIO(head))
        for name, kind in members:
            member = tarfile.TarInfo(name)
            member.type = bytes([kind])
            member.linkname = "../../elsewhere"
            tar.addfile(member)
    packed.seek(0)
    with pytest.raises(DamageError):
        bundle.verify(packed, Codec.GZIP)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()), max_size=6
    ),
    st.binary(max_size=20).filter(lambda torn: b"\n" not in torn),
)
def test_any_lines_are_a_catalogue_with_problems(lines: list[bytes], torn: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes(b"".join(line.replace(b"\n", b"") + b"\n" for line in lines) + torn)
        catalogue = Catalogue(LineFile(path))
        assert not catalogue.entries()
        gone = sum(b'"gone"' in line for line in lines)
        assert len(catalogue.problems()) >= len(lines) - gone
        catalogue.drop(["nobody.tar.zst"], "1")
        catalogue.add([])
        assert not catalogue.entries()
