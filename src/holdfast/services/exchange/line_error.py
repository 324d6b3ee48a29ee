"""Why a line is refused."""

from __future__ import annotations

from holdfast.errors import UsageError


class LineError(UsageError):
    """A line that holds no session. The message is the reason; the caller knows the number."""

    kind = "line"
