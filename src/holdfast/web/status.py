"""What an error is in HTTP."""

from __future__ import annotations

from holdfast.errors import (
    BusyError,
    CannotUndoError,
    HoldfastError,
    StalePlanError,
    UnknownCheckpointError,
    UnknownSessionError,
    UsageError,
)
from holdfast.web.site import UnknownPageError

SERVER_ERROR = 500
#: The first that fits.
_STATUS: tuple[tuple[type[HoldfastError], int], ...] = (
    (UnknownPageError, 404),
    (UnknownSessionError, 404),
    (UnknownCheckpointError, 404),
    (StalePlanError, 409),
    (CannotUndoError, 409),
    (UsageError, 400),
    (BusyError, 503),
)


def status_of(error: HoldfastError) -> int:
    return next((code for kind, code in _STATUS if isinstance(error, kind)), SERVER_ERROR)
