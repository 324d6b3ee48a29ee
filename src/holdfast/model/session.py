"""One conversation and its messages, filters for sessions, and search queries."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from holdfast.errors import UsageError
from holdfast.model import arguments
from holdfast.model.arguments import StrPath
from holdfast.model.json_value import fields_to_json
from holdfast.value import KW_ONLY, dataclass, field

if TYPE_CHECKING:  # `guard` imports this module
    from holdfast.model.guard import Guarded

#: Any JSON value. Values are returned as they were stored.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
#: JSON as a host has it, for example a list of `dict[str, object]`, which a type checker does not
#: take for a list of `Json`. What is not JSON is refused when it is stored.
JsonLike: TypeAlias = bool | int | float | str | Sequence[object] | Mapping[str, object] | None


_FACTS = struct.Struct("<dd?")
#: The extra field of a message that was taken back. The message is kept, but counts as never sent.
TAKEN_BACK = "taken_back"
#: The extra field of a message that a summary replaced. The message still counts and is searched.
COMPACTED = "holdfast_compacted"
#: The extra field of a message that was written before the model of its session changed.
USED_MODEL = "holdfast_model"
#: The extra field with the id of a session's parent that is not in the store. In an exported line
#: it is `parent_id`; an import that brings the parent links the two and drops this field.
AWAITED_PARENT = "holdfast_awaited_parent"
#: The extra field with the original source of a session that was imported from another agent.
AGENT_SOURCE = "agent_source"
#: The prefix of the extra fields that Holdfast itself keeps.
OWN_FIELDS = "holdfast_"


class Relation(StrEnum):
    """How a session came from its parent."""

    BRANCH = "branch"
    CONTINUATION = "continuation"
    DELEGATE = "delegate"

    @classmethod
    def of(cls, text: str) -> Relation:
        """Return the relation with that name; raises `UsageError` if there is none."""
        try:
            return cls(text)
        except ValueError:
            known = ", ".join(cls)
            raise UsageError(f"{text!r} is not a relation; the relations are {known}.") from None


class EndReason(StrEnum):
    """Reasons that Holdfast itself uses. A host may end a session with any other word."""

    ENDED = "ended"
    SESSION_RESET = "session_reset"
    IDLE_RESET = "idle_reset"
    LIMIT = "limit"
    DELIVERED = "delivered"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a model read and wrote. `cached` is what it read from its cache and is not part of
    `input`."""

    input: int = 0
    output: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    @property
    def counts(self) -> tuple[int, int, int]:
        """`input`, `output` and `cached`, in this order."""
        return self.input, self.output, self.cached

    @property
    def any(self) -> bool:
        return bool(self.input or self.output or self.cached)

    def to_json(self, name: str) -> dict[str, int]:
        """Return them as fields of the value that contains these tokens as `name`."""
        return {
            f"{name}_in": self.input,
            f"{name}_out": self.output,
            f"{name}_cached": self.cached,
        }

    def to_object(self) -> Json:
        return {"in": self.input, "out": self.output, "cached": self.cached}

    def plus(self, other: Tokens) -> Tokens:
        """The sum of both."""
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            cached=self.cached + other.cached,
        )


def by_count(one: Tokens, other: Tokens, join: Callable[[int, int], int]) -> Tokens:
    """Combine each count of two values with a function."""
    return Tokens(
        input=join(one.input, other.input),
        output=join(one.output, other.output),
        cached=join(one.cached, other.cached),
    )


@dataclass(frozen=True, slots=True)
class Message:
    """One message: `Message("user", "hi")`. `content` is text, a list of parts in the format of the
    model's API, or None.

    `extra` holds every field Holdfast has no name for. `number` is the place of a stored message in
    its store: numbers grow, and are never reused.
    """

    role: str
    content: Json = None
    _: KW_ONLY
    timestamp: float | None = None
    tool_name: str | None = None
    tool_calls: Json = None
    tool_call_id: str | None = None
    reasoning: Json = None
    tokens: int | Tokens | None = None
    cost: float | None = None
    extra: Mapping[str, Json] = field(default_factory=dict)
    number: int | None = None

    if TYPE_CHECKING:  # wider than the fields, which have the types in which messages come back

        def __init__(  # noqa: PLR0913 - its fields
            self,
            role: str,
            content: JsonLike = None,
            *,
            timestamp: float | None = None,
            tool_name: str | None = None,
            tool_calls: JsonLike = None,
            tool_call_id: str | None = None,
            reasoning: JsonLike = None,
            tokens: int | Tokens | None = None,
            cost: float | None = None,
            extra: Mapping[str, JsonLike] = ...,
            number: int | None = None,
        ) -> None: ...

    @property
    def named_fields(self) -> dict[str, Json]:
        """The fields that are set, apart from role, content, time and extra fields, as JSON."""
        tokens = self.tokens
        named: dict[str, Json] = {
            "tool_name": self.tool_name,
            "tool_calls": self.tool_calls,
            "tool_call_id": self.tool_call_id,
            "reasoning": self.reasoning,
            "tokens": tokens.to_object() if isinstance(tokens, Tokens) else tokens,
            "cost": self.cost,
        }
        return {name: value for name, value in named.items() if value is not None}

    @property
    def usage(self) -> Tokens:
        """A plain count is output for an assistant's message, and input for any other."""
        if self.tokens is None:
            return Tokens()
        if isinstance(self.tokens, Tokens):
            return self.tokens
        if self.role == "assistant":
            return Tokens(output=self.tokens)
        return Tokens(input=self.tokens)

    @property
    def unpriced(self) -> Tokens:
        """The tokens without a reported cost. A cost of 0 is a reported cost."""
        return self.usage if self.cost is None else Tokens()

    @property
    def taken_back(self) -> bool:
        return self.extra.get(TAKEN_BACK) is True

    @property
    def replaced(self) -> bool:
        """True if it is only history: taken back, or replaced by a summary."""
        return self.taken_back or self.extra.get(COMPACTED) is True

    @property
    def model(self) -> str | None:
        """The model that it was sent to or came from, if that is not the session's current
        model."""
        model = self.extra.get(USED_MODEL)
        return model if isinstance(model, str) else None

    @property
    def tool_call_count(self) -> int:
        return len(self.tool_calls) if isinstance(self.tool_calls, list | tuple) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as the store knows it. The totals include its messages and the usage that a guard
    booked without a message (`guarded`).

    `message_count` leaves out messages that were taken back, although they are kept. `cost` is the
    reported cost; `unpriced` are the tokens of messages without a reported cost. `bytes` is the
    size of its messages before compression. `last_active_at` is the latest of its start, its last
    message, its reopening and its end. `counted` is False if a list did not read all messages of a
    very large transcript: then the totals are lower bounds. A `vaulted` session was deleted by its
    agent, and the vault has it.
    """

    id: str
    source: str
    started_at: float
    last_active_at: float
    parent_id: str | None = None
    relation: Relation | None = None
    title: str | None = None
    cwd: str | None = None
    model: str | None = None
    ended_at: float | None = None
    end_reason: str | None = None
    pinned: bool = False
    routing_key: str | None = None
    message_count: int = 0
    tool_call_count: int = 0
    tokens: Tokens = Tokens()
    cost: float = 0.0
    unpriced: Tokens = Tokens()
    bytes: int = 0
    extra: Mapping[str, Json] = field(default_factory=dict)
    guarded: Guarded | None = None
    counted: bool = True
    vaulted: bool = False

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def is_in_parent(self) -> bool:
        """True if its messages are in the file of its parent: then it has no bytes of its own."""
        return self.relation is Relation.DELEGATE and bool(self.message_count) and not self.bytes

    @property
    def version(self) -> str:
        return session_version(
            self.message_count,
            self.last_active_at,
            self.ended_at,
            self.pinned,
            (self.title, self.cwd, self.model),
        )

    def to_json(self) -> dict[str, Any]:
        tokens = self.tokens.to_json("tokens") | self.unpriced.to_json("unpriced")
        # Most sessions are counted, and few are in the vault: only the unusual values are written.
        usual = (*(["counted"] if self.counted else []), *([] if self.vaulted else ["vaulted"]))
        without = ("tokens", "unpriced", *usual)
        return fields_to_json(self, without=without) | tokens


class OfSession(Protocol):
    """A search result that refers to a session and can be passed in its place: an archived session
    or a hit."""

    @property
    def session(self) -> Session: ...


#: What a caller may pass for a session: its id, the session itself, or an object that refers to it.
SessionRef: TypeAlias = str | Session | OfSession


def id_of(session: SessionRef, what: str = "A session id") -> str:
    """Return the id of a session that a host passes in any of these ways; else raise
    `UsageError`."""
    found = getattr(session, "session", session)
    if isinstance(found, Session):
        return found.id
    if not isinstance(session, str):
        raise UsageError(f"{what} must be a string or a Session, not {arguments.shown(session)}.")
    return arguments.text(session, what)


def session_version(
    message_count: int,
    last_active_at: float,
    ended_at: float | None,
    pinned: bool,
    texts: tuple[str | None, str | None, str | None],
) -> str:
    """A short string that changes with every message, end, reopening and pin, and with the title,
    folder and model in `texts`: with whatever a filter can select by and a host can change."""
    facts = _FACTS.pack(last_active_at, math.inf if ended_at is None else ended_at, bool(pinned))
    for text in texts:
        facts += b"\0" if text is None else b"\1" + str(text).encode(errors="surrogatepass") + b"\0"
    return f"{message_count}.{zlib.crc32(facts):08x}"


class Unchanged(Enum):
    """The value of a field that stays the same; None would clear it."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChange:
    """New values for a stored session. `extra` replaces the extra fields of the host; those that
    Holdfast itself keeps there stay."""

    model: str | Unchanged | None = UNCHANGED
    cwd: str | Unchanged | None = UNCHANGED
    extra: Mapping[str, Json] | Unchanged = UNCHANGED


class SessionOrder(StrEnum):
    """How a list is sorted: largest or latest first, text from A to Z and, where equal, the last
    active first. The names are those of columns."""

    ID = "id"
    SOURCE = "source"
    LAST_ACTIVE = "active"
    STARTED = "started"
    MESSAGES = "messages"
    TOKENS = "tokens"
    COST = "cost"
    BYTES = "size"
    TITLE = "title"

    @property
    def of_texts(self) -> bool:
        return self in (SessionOrder.ID, SessionOrder.SOURCE, SessionOrder.TITLE)

    @classmethod
    def of(cls, value: SessionOrder | str) -> SessionOrder:
        """Return the order with this name."""
        arguments.check_known(value, cls, "a sort order for sessions")
        return cls(value)

    @classmethod
    def _missing_(cls, value: object) -> SessionOrder | None:
        """The former names of these two."""
        return {"last-active": cls.LAST_ACTIVE, "bytes": cls.BYTES}.get(str(value))


#: The words for one value where a filter takes several: `find(source="cli")`.
SINGULARS = {
    "id": "ids",
    "not_id": "not_ids",
    "source": "sources",
    "not_source": "not_sources",
    "end_reason": "end_reasons",
    "relation": "relations",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions to select; every field that is set must match. Times are epoch seconds; a
    `date` or `datetime` is converted. Durations ("2d") are for `find`: a filter has no clock.

    Fields for several values also take a single string, and a `Session` stands for its id. `title`
    and `model` match a part of the text and ignore case; `title_is` matches the whole title; `cwd`
    a folder and everything below it, as an absolute path. Bounds are inclusive, except those on
    times. `roots` selects sessions without a parent, or with one. A session whose cost is partly
    unknown matches no `max_cost`. `agent_archived` selects sessions that were archived in the agent
    whose home it is, not in our own archive, `vaulted` those that only our vault has.
    """

    ids: Collection[SessionRef] | OfSession | Session | None = None
    not_ids: Collection[SessionRef] | OfSession | Session | None = None
    id_prefix: str | None = None
    sources: Collection[str] | None = None
    not_sources: Collection[str] | None = None
    title: str | None = None
    title_is: str | None = None
    end_reasons: Collection[str] | None = None
    cwd: StrPath | None = None
    model: str | None = None
    routing_key: str | None = None
    parent_id: SessionRef | None = None
    relations: Collection[str] | None = None
    roots: bool | None = None
    ended: bool | None = None
    pinned: bool | None = None
    titled: bool | None = None
    agent_archived: bool | None = None
    vaulted: bool | None = None
    active_before: float | None = None
    active_after: float | None = None
    started_before: float | None = None
    started_after: float | None = None
    min_messages: int | None = None
    max_messages: int | None = None
    min_bytes: int | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    min_cost: float | None = None
    max_cost: float | None = None

    def __new__(cls, *_: object, **given: object) -> SessionFilter:  # noqa: PYI034 - it is final
        for name in given:
            if name not in cls.__slots__:
                raise _unknown_field(name, cls.__slots__)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        relations = texts_of(self.relations, "relations")
        values: dict[str, object] = {
            "ids": _ids_of(self.ids, "ids"),
            "not_ids": _ids_of(self.not_ids, "not_ids"),
            "sources": texts_of(self.sources, "sources"),
            "not_sources": texts_of(self.not_sources, "not_sources"),
            "end_reasons": texts_of(self.end_reasons, "end_reasons"),
            "relations": relations and tuple(map(Relation.of, relations)),
            "parent_id": None if self.parent_id is None else id_of(self.parent_id),
            "cwd": arguments.folder_text(self.cwd) if arguments.is_path(self.cwd) else self.cwd,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for name in _TEXTS:
            if (text := getattr(self, name)) is not None:
                arguments.instance(text, str, f"`{name}` of a filter")
                _need_text(text, name)
        for name in _FLAGS:
            if (flag := getattr(self, name)) is not None:
                arguments.flag(flag, f"`{name}` of a filter")
        for name in _NUMBERS:
            if (bound := getattr(self, name)) is not None:
                object.__setattr__(self, name, _bound(bound, f"`{name}` of a filter", name))


def _need_text(text: str, name: str) -> None:
    """An empty text comes from an unset variable. It would match all sessions, or none."""
    if not text:
        raise UsageError(
            f"`{name}` of a filter is empty.", hint="Leave it out to select any value."
        )


def _unknown_field(name: str, fields: tuple[str, ...]) -> UsageError:
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    near = SINGULARS.get(name) or next(iter(get_close_matches(name, fields, n=1)), None)
    return UsageError(
        f"A filter has no field `{name}`.",
        hint=f"Did you mean `{near}`?" if near else f"Known fields: {', '.join(fields)}.",
    )


def _bound(bound: object, what: str, name: str) -> float:
    """Return a bound as a number; a bound on time may be a date. NaN is refused: it is neither
    below nor above anything."""
    if isinstance(bound, int | float) and not isinstance(bound, bool) and bound == bound:  # noqa: PLR0124
        return bound
    if not name.endswith(_OF_TIME):
        raise UsageError(f"{what} must be a number, not {arguments.shown(bound)}.")
    if hasattr(bound, "isoformat"):
        from holdfast.model.durations import moment  # noqa: PLC0415 - most filters have no dates

        return moment(bound, 0.0, what)
    raise UsageError(
        f"{what} must be a time in epoch seconds, not {arguments.shown(bound)}.",
        hint=f"Pass a number, a date or a datetime. Methods take more: `find({name}='2d')`.",
    )


_TEXTS = ("id_prefix", "title", "title_is", "cwd", "model", "routing_key")
_FLAGS = ("roots", "ended", "pinned", "titled", "agent_archived", "vaulted")
_OF_TIME = ("_before", "_after", "since", "until")
_NUMBERS = tuple(
    name
    for name in SessionFilter.__slots__
    if name.endswith(_OF_TIME) or name.startswith(("min_", "max_"))
)


def texts_of(values: Collection[str] | None, name: str) -> tuple[str, ...] | None:
    """Several strings as a tuple for a filter; a single string is one value, not its characters."""
    if values is None:
        return None
    if not isinstance(values, Collection):
        raise UsageError(f"`{name}` takes strings, not {arguments.shown(values)}.")
    found = arguments.several(values)
    texts = tuple(arguments.instance(value, str, f"Each of `{name}`") for value in found)
    for each in texts:
        _need_text(each, name)
    return texts


def _ids_of(
    values: Collection[SessionRef] | OfSession | Session | None, name: str
) -> tuple[str, ...] | None:
    """The same for the ids of sessions; a session stands for its id."""
    if values is None:
        return None
    return tuple(id_of(value, f"Each of `{name}`") for value in arguments.several(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What an append or a replacement changed: the numbers of the given messages, and the session
    before and after. `kept` given messages were already stored and stayed in place; `replaced`
    stored messages became history, or moved behind the given ones."""

    numbers: tuple[int, ...]
    before: Session
    after: Session
    kept: int = 0
    replaced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A message that a search found, with its session and the text around the match.

    `snippet` encloses each match in `[` and `]`, and may contain other brackets: `matches` has the
    start and end of each match in it, inside its brackets. `score` is larger for better matches.
    """

    session: Session
    message: Message
    snippet: str
    score: float
    matches: tuple[tuple[int, int], ...] = ()


_LARGEST = 2**63 - 1  # the largest count of a store


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search for words in messages of the wanted sessions; with `substring`, for the exact text.

    `since` and `until` bound the time of a message, inclusively.
    """

    text: str
    wanted: SessionFilter = field(default_factory=SessionFilter)
    roles: Collection[str] | None = None
    since: float | None = None
    until: float | None = None
    limit: int = 20
    offset: int = 0
    substring: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "roles", texts_of(self.roles, "roles"))
        arguments.instance(self.text, str, "`text`")
        arguments.instance(self.wanted, SessionFilter, "`wanted` of a search")
        arguments.flag(self.substring, "`substring`")
        for name in ("limit", "offset"):
            object.__setattr__(self, name, arguments.whole(getattr(self, name), f"`{name}`"))
        for name in ("since", "until"):
            if (bound := getattr(self, name)) is not None:
                object.__setattr__(self, name, _bound(bound, f"`{name}` of a search", name))

    @property
    def most(self) -> int:
        """How many of the best hits are needed."""
        return min(self.offset + self.limit, _LARGEST)

    def has(self, message: Message) -> bool:
        """True if a message is to be searched. Messages that were taken back are not."""
        when = message.timestamp or 0.0
        return (
            not message.taken_back
            and (self.roles is None or message.role in self.roles)
            and (self.since is None or when >= self.since)
            and (self.until is None or when <= self.until)
        )
