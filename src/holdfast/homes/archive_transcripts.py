"""What was said, read from the transcripts in a bundle that holds files alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from holdfast.errors import UsageError
from holdfast.model.session import Message
from holdfast.services.exchange.line_reader import read_message
from holdfast.stores.archive import bundle
from holdfast.stores.archive.codec import Codec
from holdfast.value import replace

_TRANSCRIPT = ".jsonl"
#: A line beyond this is no message of a transcript.
_LONGEST_LINE = 16 * 1024 * 1024


def transcript_messages(raw: IO[bytes], codec: Codec) -> Iterator[Message]:
    """The messages of the JSONL transcripts, numbered from 1. What is no message is passed over:
    a transcript may have been torn, and may be another agent's."""
    number = 0
    with bundle.reading(), bundle.members(raw, codec) as members:
        for name, link, content in members:
            if link is not None or not name.endswith(_TRANSCRIPT) or name == bundle.LINE:
                continue
            while line := content.readline(_LONGEST_LINE):
                for message in _message(line):
                    number += 1
                    yield replace(message, number=number)


def _message(line: bytes) -> Iterator[Message]:
    with suppress(ValueError, RecursionError, UsageError):
        yield read_message(json.loads(line))
