"""Translates the errors of object stores into plain sentences.

The library quotes the responses of servers, and those quote requests: key ids, signatures. So its
text is never shown; it is only searched for the kind of error.
"""

from __future__ import annotations

import re

from holdfast.errors import StorageError, UnreachableError
from holdfast.stores.blobs.address import AZURE, GOOGLE, Address

_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})", re.ASCII)
_CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>", re.ASCII)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_NO_IDENTITY = ("169.254.", "metadata.google", "metadata endpoint", "imds", "NoCredentials")
_BAD_REQUEST, _TOO_LARGE, _BUSY, _SERVER = 400, 413, 429, 500
#: The library's names for errors in a server's response.
_REFUSED = ("PermissionDenied", "Unauthenticated")
_LATER = "Nothing is lost. Try again when it can be reached."

_CREDENTIALS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `profile` of [archive].",
    GOOGLE: "Set GOOGLE_APPLICATION_CREDENTIALS, or run: gcloud auth application-default login",
    AZURE: "Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY.",
}


class UnansweredError(UnreachableError):
    """There was no response, so the request may have been carried out all the same."""


def is_missing_blob(error: Exception) -> bool:
    """True if a blob does not exist; a missing bucket does not count."""
    return isinstance(error, FileNotFoundError) and not _names(error, _NO_BUCKET)


def is_taken(error: Exception) -> bool:
    return type(error).__name__ in ("AlreadyExistsError", "PreconditionError")


def plain(error: Exception, address: Address) -> StorageError:
    """The error as one of ours, with a next step."""
    url, status, code = address.url, _status(error), _code(error)
    if _names(error, _NO_BUCKET):
        return StorageError(
            f"There is no bucket {address.bucket} for the archive {url}.",
            hint="Create it, or correct `url`, `endpoint` and `region` of [archive].",
        )
    if _names(error, _NO_IDENTITY):
        return StorageError(
            f"There are no credentials for the archive {url}.", hint=_CREDENTIALS[address.scheme]
        )
    if status is None and not type(error).__name__.startswith(_REFUSED):
        return UnansweredError(
            f"The object store of the archive {url} did not answer.", hint=_LATER
        )
    if status is not None and (status == _BUSY or status >= _SERVER):
        return UnreachableError(
            f"The object store of the archive {url} answered {status}.", hint=_LATER
        )
    return _refused(url, status, code)


def _refused(url: str, status: int | None, code: str) -> StorageError:
    if status in (_BAD_REQUEST, _TOO_LARGE) and "TooLarge" in code:
        return StorageError(f"The object store at {url} does not accept objects of this size.")
    if status in (None, 401, 403):
        return StorageError(
            f"The object store refuses access to the archive {url}{code}.",
            hint="Use credentials that may list, read, write and delete there.",
        )
    return StorageError(f"The object store refused a request to {url}: {status}{code}.")


def _status(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return None if found is None else int(found[1] or found[2])


def _code(error: Exception) -> str:
    """The service's name for an error, such as AccessDenied."""
    found = _CODE.search(str(error))
    return "" if found is None else f" ({found[1]})"


def _names(error: Exception, words: tuple[str, ...]) -> bool:
    said = str(error)
    return any(word in said for word in words)
