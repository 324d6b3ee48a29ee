"""The compression of bundles: zstd, or gzip by choice. Both store a checksum of the content."""

from __future__ import annotations

import gzip
import sys
import zlib
from enum import StrEnum
from typing import IO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: Compresses as well as level 9, in half the time.
_ZSTD_LEVEL = 6
_GZIP_LEVEL = 6

#: Raised when damaged bytes are read.
CORRUPT = (zstd.ZstdError, zlib.error, gzip.BadGzipFile, EOFError)


class Codec(StrEnum):
    ZSTD = "zstd"
    GZIP = "gzip"

    @property
    def suffix(self) -> str:
        return _SUFFIXES[self]

    def writer(self, raw: IO[bytes]) -> IO[bytes]:
        """A stream that compresses into `raw`; closing it leaves `raw` open."""
        if self is Codec.GZIP:
            packed = gzip.GzipFile("", "wb", _GZIP_LEVEL, fileobj=raw, mtime=0)
            return cast("IO[bytes]", packed)
        options: dict[int, int] = {
            zstd.CompressionParameter.compression_level: _ZSTD_LEVEL,
            # Off by default. Without it, most flipped bits would silently come back as wrong data.
            zstd.CompressionParameter.checksum_flag: 1,
        }
        return cast("IO[bytes]", zstd.ZstdFile(raw, "wb", options=options))

    def reader(self, raw: IO[bytes]) -> IO[bytes]:
        if self is Codec.GZIP:
            return cast("IO[bytes]", gzip.GzipFile("", "rb", fileobj=raw))
        return cast("IO[bytes]", zstd.ZstdFile(raw, "rb"))


_SUFFIXES = {Codec.ZSTD: ".tar.zst", Codec.GZIP: ".tar.gz"}


def codec_of(name: str) -> Codec | None:
    """The codec for a bundle's name; None if it is not the name of a bundle."""
    for codec in Codec:
        if name.endswith(codec.suffix) and not name.startswith("."):
            return codec
    return None
