"""Secrets that only their name gives away: `password=…`, `api_key: …`, {"token": "…"}.

A name decides how much its value must look like a secret. Nobody writes `password=` before
anything else; much is called a token; and next to a mere `key` only what looks like the output of
a random generator is taken for a secret. Digests and UUIDs are never that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.services.exchange.redaction_rules import Rule, entropy, looks_random

_PASSWORD = r"passwords?|passwd|passphrase|pwd|(?<=[_-])pass|secret"  # noqa: S105 - a pattern
_CREDENTIAL = (
    r"api[_.-]?keys?|access[_.-]?keys?(?:[_.-]?id)?|secret[_.-]?(?:access[_.-]?)?keys?"
    r"|private[_.-]?key|account[_.-]?key|auth[_.-]?key|encryption[_.-]?key|signing[_.-]?key"
    r"|token|authorization|client[_.-]?secret|credentials?"
)
_WEAK = r"(?<!public)(?<!public[_.-])key|auth|cookie|signature|webhook"

_FEWEST = 4
_FEWEST_RANDOM = 8
_FEWEST_WEAK = 20
_RANDOM_BITS = 3.6

_STANDS_FOR_NOTHING = re.compile(
    r"""
      \[redacted:.*                                  # done before
    | [*x.•…-]+                                      # masked
    | [<$%{@].*                                      # a variable, a template, a tag
    | (?:your|my|the|some|an?)[ _-](?:[a-z]+[ _-]){0,4}(?:password|secret|token|key|value|here)
    | example|change[_-]?me|dummy|placeholder|todo
    | passwords?|passwd|secrets?|tokens?             # a label, or its own name
    | (?:none|null|nil|undefined|true|false|yes|no|required|optional|empty|missing|invalid)
    | (?:str|string|text|bytes?|int|integer|number|bool|boolean|any|object|optional\[.*|varchar.*)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_PATH = r"(?:\.{0,2}|~)/.*"
_IS_PATH = re.compile(_PATH, re.DOTALL)
_IS_CODE = re.compile(
    rf"""
      .*[(\[{{].*                                    # a call, an index
    | [A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+                # settings.password
    | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+                  # the name of a variable of the environment
    | {_PATH}
    """,
    re.VERBOSE | re.DOTALL,
)
_SNAKE = re.compile(r"[a-z]+(?:_[a-z0-9]{1,10})*")
_DIGEST = re.compile(r"(?i:[0-9a-f]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Names of one strength: `rule` finds the ways in which text gives a value to such a name,
    `ends_name` is for the key of an object. `judge` is given a value, and whether quotes hold it.
    """

    rule: Rule
    ends_name: re.Pattern[str]
    judge: Callable[[str, bool], bool]


def _means_something(value: str) -> bool:
    return not _STANDS_FOR_NOTHING.fullmatch(value)


def _is_password(value: str, quoted: bool) -> bool:
    if not _means_something(value):
        return False
    if quoted:
        return not _IS_PATH.fullmatch(value)
    return len(value) >= _FEWEST and not _IS_CODE.fullmatch(value)


def _is_credential(value: str, _quoted: bool) -> bool:
    words = _SNAKE.fullmatch(value) and sum(map(str.isdigit, value)) < _FEWEST
    return (
        len(value) >= _FEWEST_RANDOM
        and not words
        and not re.search(r"\s", value)
        and looks_random(value)
        and _means_something(value)
        and not _IS_CODE.fullmatch(value)
    )


def _is_random(value: str, quoted: bool) -> bool:
    return (
        len(value) >= _FEWEST_WEAK
        and _is_credential(value, quoted)
        and entropy(value) >= _RANDOM_BITS
        and not _DIGEST.fullmatch(value)
        and bool(re.search(r"[a-z]", value) and re.search(r"[A-Z]", value))
    )


_QUOTED = r"""(?P<quote>\\?["'`])(?P<secret>(?:(?!(?P=quote))[^\n]){1,1000})(?P=quote)"""
_BARE = r"""(?P<secret>[^\s"'`,;&|<>)}\]\\]+)"""
_CLOSING = r"""\\?["'`]?"""
_ANY_ASSIGNMENT = r"[ \t]{0,8}(?:=>|:=|={1,3}|:)[ \t]{0,8}"
#: Without quotes a password may be any word, so `name: word` must fill the rest of its line.
_SURE_ASSIGNMENT = r"(?:=|:[ \t]{0,8}(?=\S{1,200}+[ \t]{0,8}\r?$))"


def _naming(
    name: str, words: str, hints: str, judge: Callable[[str, bool], bool], *, bare: str
) -> Naming:
    rule = Rule(
        name=name,
        hints=tuple(hints.split()),
        patterns=(
            re.compile(rf"(?i)(?:{words}){_CLOSING}{_ANY_ASSIGNMENT}{_QUOTED}"),
            re.compile(rf"(?im)(?:{words}){_CLOSING}{bare}{_BARE}"),
            re.compile(rf"(?i)(?<![\w-])--?[a-z0-9-]{{0,30}}(?:{words})[ \t]{{1,4}}(?!-){_BARE}"),
        ),
        accepts=lambda match: judge(match["secret"], "quote" in match.re.groupindex),
    )
    return Naming(rule=rule, ends_name=re.compile(rf"(?i)(?:{words})\Z"), judge=judge)


#: In this order: `secret_key` names a credential, not a password called `secret`.
NAMINGS: tuple[Naming, ...] = (
    _naming(
        "credential",
        _CREDENTIAL,
        "key token authorization secret credential",
        _is_credential,
        bare=_ANY_ASSIGNMENT,
    ),
    _naming("password", _PASSWORD, "pass pwd secret", _is_password, bare=_SURE_ASSIGNMENT),
    _naming(
        "high-entropy", _WEAK, "key auth cookie signature webhook", _is_random, bare=_ANY_ASSIGNMENT
    ),
)
