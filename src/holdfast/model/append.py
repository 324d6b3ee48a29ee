"""What a host appends to a session, and the result of an append."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.errors import UsageError
from holdfast.model.arguments import check_known, shown
from holdfast.model.guard import Alert
from holdfast.model.session import Message, Session, Tokens
from holdfast.value import dataclass, fields

#: A message, or a mapping with the names of its fields.
MessageLike: TypeAlias = Message | Mapping[str, Any]
_MESSAGE_FIELDS = frozenset(each.name for each in fields(Message))
#: What model APIs and other libraries call these fields.
_OTHER_NAMES = {
    "text": "content",
    "message": "content",
    "body": "content",
    "parts": "content",
    "reasoning_content": "reasoning",
    "time": "timestamp",
    "created_at": "timestamp",
    "usage": "tokens",
}
_TOKEN_FIELDS = frozenset(each.name for each in fields(Tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The result of an append. `continued_as` is the session to go on with when a limit was
    passed."""

    session: Session
    numbers: Sequence[int]
    alerts: tuple[Alert, ...] = ()
    continued_as: Session | None = None


def messages_of(given: Iterable[MessageLike | Iterable[MessageLike]]) -> Iterator[Message]:
    """Yield messages as a host passes them: single messages or lists of them."""
    for each in given:
        if isinstance(each, Message):
            yield each
        elif isinstance(each, Mapping | str | bytes) or not isinstance(each, Iterable):
            yield _message(each)
        else:
            yield from map(_message, each)


def message_list(given: object) -> list[Message]:
    """Return the messages of a list that a host passes."""
    if isinstance(given, Message | Mapping | str | bytes) or not isinstance(given, Iterable):
        raise UsageError(
            f"`messages` must be a list of messages, not {shown(given)}.",
            hint="Put a single message into a list: `[message]`.",
        )
    return [*messages_of(given)]


def _check_field(name: object) -> None:
    try:
        check_known(name, _MESSAGE_FIELDS, "a field of a message", meant=_OTHER_NAMES)
    except UsageError as error:  # model APIs have many more fields
        error.hint = f"{error.hint} Put other fields into `extra`."
        raise


def _message(value: object) -> Message:
    """Raises `UsageError` for an unknown field."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise UsageError(f"A message must be a Message or a dict, not {shown(value)}.")
    for name in value:
        _check_field(name)
    if "role" not in value:
        raise UsageError(f"A message needs a role: {shown(dict(value))}.")
    tokens = value.get("tokens")
    if not isinstance(tokens, Mapping):
        return Message(**value)
    for name in tokens:
        check_known(name, _TOKEN_FIELDS, "a count of tokens")
    return Message(**{**value, "tokens": Tokens(**tokens)})
