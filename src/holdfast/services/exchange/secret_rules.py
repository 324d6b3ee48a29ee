"""The rules for secrets. docs/decisions/0005-redaction-rules.md explains the choice of rules.

`SHAPES` find secrets by their form. `NAMINGS` find those that only a name reveals: `password=…`,
`api_key: …`, {"token": "…"}. The name decides how much the value must look like a secret. After
`password=` there is always a password. Many things are called a token. Next to a mere `key`, only a
value that looks like the output of a random generator counts, and digests and UUIDs never do.

A rule has hints: it is not run on a line that has none of them, which keeps this fast. Every
pattern takes linear time: its repetitions are bounded, or can match in one way only.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable

from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of secret. The group `secret` is replaced, or the whole match if there is none.

    `hints` are in lower case, and so is the text that they are searched in. `accepts` makes the
    final decision on a match. Rules are for secrets in one line; `private_keys` finds longer ones.
    """

    name: str
    hints: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    accepts: Callable[[re.Match[str]], bool] = lambda _: True


_FEWEST_BITS = 3.0
_KEY_BITS = 3.5  # words joined by dashes stay below, keys of 20 characters do not


def entropy(text: str) -> float:
    """Bits per character, after Shannon: prose has about 4 at any length, keys more."""
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts) if text else 0.0


def looks_random(text: str) -> bool:
    """True if a text mixes letters and digits as no word of a language does."""
    mixed = re.search(r"[0-9]", text) and re.search(r"[A-Za-z]", text)
    return bool(mixed) and entropy(text) >= _FEWEST_BITS


def secret_group(match: re.Match[str]) -> int:
    return match.re.groupindex.get("secret", 0)


def secret_of(match: re.Match[str]) -> str:
    return match[secret_group(match)]


def _random_secret(match: re.Match[str]) -> bool:
    return looks_random(secret_of(match))


def _is_key(match: re.Match[str]) -> bool:
    key = secret_of(match).removeprefix("sk-")
    return looks_random(key) and entropy(key) >= _KEY_BITS


def _is_user_and_password(match: re.Match[str]) -> bool:
    try:
        decoded = base64.b64decode(secret_of(match), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and all(32 <= byte < 127 for byte in decoded)  # noqa: PLR2004 - ASCII


def _is_no_variable(match: re.Match[str]) -> bool:
    secret = secret_of(match)
    return not (secret[0] in "$<{%[" or set(secret) <= set("*x.…"))


def _shape(name: str, hints: str, pattern: str) -> Rule:
    """A token that its first characters give away. It must not be inside a longer word."""
    return Rule(
        name=name,
        hints=tuple(hints.split()),
        patterns=(re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])"),),
    )


#: In this order: a narrower name comes before a wider one that would match too.
SHAPES: tuple[Rule, ...] = (
    _shape("aws-access-key", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    _shape("github-fine-grained-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{50,}"),
    _shape(
        "gitlab-token",
        "glpat- gldt- glrt- glptt- glcbt- glsoat- glft- glimt- glagent- gloas-",
        r"gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent|oas)-[A-Za-z0-9_-]{20,}"
        r"(?:\.[a-z0-9]{2}\.?[a-z0-9]{7,9})?",  # suffix of newer tokens
    ),
    _shape(
        "slack-token",
        "xox xapp-",
        r"xox[abeoprs](?:\.xox[bp])?(?:-[A-Za-z0-9]{1,200}){2,8}|xapp-\d(?:-[A-Za-z0-9]{1,100}){3}",
    ),
    Rule(
        name="slack-webhook",
        hints=("hooks.slack.com",),
        patterns=(
            re.compile(
                r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{20,200})"
            ),
        ),
    ),
    _shape("google-api-key", "aiza", r"AIza[A-Za-z0-9_-]{35}"),
    _shape("google-oauth-token", "ya29. gocspx-", r"ya29\.[A-Za-z0-9_.-]{20,}|GOCSPX-[\w-]{20,}"),
    _shape("stripe-key", "k_live_ k_test_ whsec_", r"(?:[sr]k_(?:live|test)|whsec)_\w{16,}"),
    _shape("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,}"),
    Rule(
        name="openai-key",  # and others that use the same prefix
        hints=("sk-",),
        patterns=(re.compile(r"(?<![A-Za-z0-9-])sk-[A-Za-z0-9_-]{20,}"),),
        accepts=_is_key,
    ),
    _shape("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _shape("pypi-token", "pypi-age", r"pypi-AgE[A-Za-z0-9_-]{32,}"),
    _shape("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{34,}"),
    _shape("telegram-bot-token", ":aa", r"\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    _shape("jwt", "eyj", r"(?<![\w-])eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{8,}"),
    Rule(
        name="bearer-token",
        hints=("bearer",),
        patterns=(re.compile(r"(?i)\bbearer[ \t]{1,4}(?P<secret>[A-Za-z0-9._~+/=-]{16,})"),),
        accepts=_random_secret,
    ),
    Rule(
        name="basic-credentials",
        hints=("basic",),
        patterns=(re.compile(r"(?i)\bbasic[ \t]{1,4}(?P<secret>[A-Za-z0-9+/]{6,}={0,2})"),),
        accepts=_is_user_and_password,
    ),
    Rule(
        name="url-password",
        hints=("://",),
        patterns=(re.compile(r"""://[^\s:@/"'<>`]{0,100}:(?P<secret>[^\s@/"'<>`]{1,200})@"""),),
        accepts=_is_no_variable,
    ),
)


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
    """Names of one strength: `rule` finds assignments to such a name in text, `ends_name` matches
    the key of an object. `judge` is called with a value, and whether it is in quotes.
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
