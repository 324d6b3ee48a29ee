"""One call of the model, from the request for permission to its usage."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.errors import HoldfastError, UsageError
from holdfast.model.append import Appended, MessageLike, messages_of
from holdfast.model.arguments import text
from holdfast.model.session import Tokens
from holdfast.model.usage import Usage
from holdfast.policy.budgets import checked_cost, checked_tokens

if TYPE_CHECKING:
    from holdfast.guard.guard import Guard
    from holdfast.model.guard import Estimate

_log = logging.getLogger("holdfast")


class Call:
    """A call that is permitted when its block is entered, and over when the block is left."""

    def __init__(self, guard: Guard, estimate: Estimate) -> None:
        self._guard = guard
        self._estimate = estimate
        self._reservation: int | None = None
        self._entered = self._refused = False

    def __enter__(self) -> Self:
        if self._entered:
            raise UsageError("A call is made once.", hint="Ask the guard for another one.")
        self._refused = True  # unless this returns
        self._reservation = self._guard.begin(self._estimate)
        self._entered, self._refused = True, False
        return self

    def used(
        self, tokens: Tokens | None = None, *, cost: float | None = None, model: str | None = None
    ) -> None:
        """Book what the call used, in the session's totals and the ledger. It is durable on return.

        This is for usage that is not part of a message: the tokens of a message are counted when
        the message is stored, as `append` does. Without a `cost` the price of the model applies, if
        there is one. You can book more later; the first booking ends the reservation.
        """
        self._need_permission("it cannot have used anything")
        counted = checked_tokens(tokens)
        if model is not None:
            text(model, "A model")
        usage = Usage(
            tokens=counted,
            cost=0.0 if cost is None else checked_cost(cost),
            unpriced=counted if cost is None else Tokens(),
        )
        self._guard.settle(self._reservation, usage, model)
        self._reservation = None

    def append(self, *messages: MessageLike | Iterable[MessageLike]) -> Appended:
        """Store the reply and end the call, in one step that is durable on return.

        Like `sessions.append` with the session of the guard. The tokens and the cost of the
        messages are what the call used: do not report them with `used` as well. If the session was
        ended meanwhile, nothing is stored, and `SessionEndedError` is raised; what the messages
        used is booked nevertheless.
        """
        self._need_permission("it cannot have had a reply")
        appended = self._guard.append(self._reservation, [*messages_of(messages)])
        self._reservation = None
        return appended

    def _need_permission(self, so: str) -> None:
        if self._refused:
            raise UsageError(f"This call was refused, so {so}.")
        if not self._entered:
            raise UsageError(
                "This call has not begun, because its block was not entered.",
                hint="Enter the call first: `with guard.call() as call:`; with an AsyncGuard, "
                "`async with`.",
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reservation is None:
            return
        try:
            self._guard.settle(self._reservation, None, None)
        except HoldfastError as failure:
            if error is None:
                raise
            _log.error("a call could not be cancelled: %s", failure.message)  # `error` says more
        self._reservation = None
