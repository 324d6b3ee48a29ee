"""Redacts secrets in an export: each becomes `[redacted:<rule>]` and is counted.

Every text of a session is searched, including nested values and JSON inside a text, such as the
arguments of a tool call. The structure never changes: keys, numbers, ids and the shape of inner
JSON stay.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from holdfast.model.session import Json, Message, Session
from holdfast.services.exchange.private_keys import key_spans
from holdfast.services.exchange.secret_rules import NAMINGS, SHAPES, Rule, secret_group
from holdfast.value import replace

_RULES = (*SHAPES, *(naming.rule for naming in NAMINGS))
_DEEPEST_TEXT = 4
PRIVATE_KEY = "private-key"
_KEY_HINT = "PRIVATE KEY"
_LITERAL = r'"(?:[^"\\]++|\\.)*+"'
_IN_JSON = re.compile(
    rf"(?P<key>{_LITERAL})(?P<colon>\s*:\s*)(?P<value>{_LITERAL})?|(?P<item>{_LITERAL})"
)


class Redactor:
    """Redacts one export and counts what it found."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        #: The last text ended inside a private key, which the next ones may continue.
        self._in_key = False

    @property
    def counts(self) -> Mapping[str, int]:
        """How many secrets each rule found, the most frequent first."""
        return dict(self._counts.most_common())

    def session(self, session: Session) -> Session:
        """Redact a session. Call `message` for its messages afterwards, in order."""
        self._in_key = False
        return replace(
            session,
            source=self.text(session.source),
            title=self._optional(session.title),
            cwd=self._optional(session.cwd),
            model=self._optional(session.model),
            end_reason=self._optional(session.end_reason),
            routing_key=self._optional(session.routing_key),
            extra=cast("dict[str, Json]", self.value(dict(session.extra))),
        )

    def message(self, message: Message) -> Message:
        return replace(
            message,
            content=self.value(message.content),
            tool_name=self._optional(message.tool_name),
            tool_calls=self.value(message.tool_calls),
            tool_call_id=self._optional(message.tool_call_id),
            reasoning=self.value(message.reasoning),
            extra=cast("dict[str, Json]", self.value(dict(message.extra))),
        )

    def value(self, value: Json, name: str = "") -> Json:
        """A value without its secrets. `name` is the key under which it is stored."""
        if isinstance(value, str):
            return self.text(value, name)
        if isinstance(value, list):
            return [self.value(item, name) for item in value]
        if isinstance(value, dict):
            return {key: self.value(item, key) for key, item in value.items()}
        return value

    def text(self, text: str, name: str = "", *, depth: int = 0) -> str:
        if not text:
            return text
        if depth < _DEEPEST_TEXT and _is_json(text):
            return self._json_text(text, depth)
        redacted = self._plain(text)
        if redacted == text and name:
            for naming in NAMINGS:
                if naming.ends_name.search(name) and naming.judge(text, True):
                    return self._mark(naming.rule.name)
        return redacted

    def _optional(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def _json_text(self, text: str, depth: int) -> str:
        """Only the literals that hold a secret are rewritten; every other byte stays."""

        def literal(raw: str, name: str) -> str:
            before = json.loads(raw)
            after = self.text(before, name, depth=depth + 1)
            return raw if after == before else json.dumps(after, ensure_ascii=False)

        def redacted(match: re.Match[str]) -> str:
            if match["item"]:
                return literal(match["item"], "")
            if not match["value"]:
                return match[0]
            name = json.loads(match["key"])
            return match["key"] + match["colon"] + literal(match["value"], name)

        return _IN_JSON.sub(redacted, text)

    def _plain(self, text: str) -> str:
        text = self._without_keys(text)
        lowered = text.lower()
        rules = [rule for rule in _RULES if _hinted(rule, lowered)]
        if not rules:
            return text
        return "\n".join(self._line(line, rules) for line in text.split("\n"))

    def _without_keys(self, text: str) -> str:
        if not self._in_key and _KEY_HINT not in text:
            return text
        found = key_spans(text, open_before=self._in_key)
        self._in_key = found.open
        for start, end in reversed(found.spans):
            text = text[:start] + self._mark(PRIVATE_KEY) + text[end:]
        return text

    def _line(self, line: str, rules: Sequence[Rule]) -> str:
        lowered = line.lower()
        for rule in rules:
            for pattern in rule.patterns if _hinted(rule, lowered) else ():
                line = pattern.sub(partial(self._replaced, rule), line)
        return line

    def _replaced(self, rule: Rule, match: re.Match[str]) -> str:
        if not rule.accepts(match):
            return match[0]
        start, end = (place - match.start() for place in match.span(secret_group(match)))
        return match[0][:start] + self._mark(rule.name) + match[0][end:]

    def _mark(self, name: str) -> str:
        self._counts[name] += 1
        return f"[redacted:{name}]"


def _hinted(rule: Rule, lowered: str) -> bool:
    return any(hint in lowered for hint in rule.hints)


def _is_json(text: str) -> bool:
    """True if a text is a JSON object or list, not just a word in brackets."""
    stripped = text.strip()
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True
