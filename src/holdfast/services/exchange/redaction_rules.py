"""What a secret looks like. docs/decisions/0005-redaction-rules.md says why these, and which not.

A rule has hints: a line without any of them is not searched by it, which is what makes this quick.
Every pattern is linear: what it repeats is bounded, or cannot be cut in two ways.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of secret. The group `secret` is replaced, or the whole match when there is none.

    `hints` are in lower case and so is the text they are looked for in. `accepts` has the last
    word on a match. A secret of more than one line is looked for in the whole text.
    """

    name: str
    hints: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    accepts: Callable[[re.Match[str]], bool] = lambda _: True
    has_lines: bool = False


_FEWEST_BITS = 3.0
_KEY_BITS = 3.5  # words joined by dashes stay below, keys of 20 characters do not


def entropy(text: str) -> float:
    """Bits per character, after Shannon: prose has about 4 at any length, keys more."""
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts) if text else 0.0


def looks_random(text: str) -> bool:
    """Letters and digits mixed, as no word of a language mixes them."""
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


def _holds_key(match: re.Match[str]) -> bool:
    """A block with a body; prose that merely quotes the first line has none."""
    return bool(re.search(r"[A-Za-z0-9+/]{32}", match.group("body")))


def _is_no_variable(match: re.Match[str]) -> bool:
    secret = secret_of(match)
    return not (secret[0] in "$<{%[" or set(secret) <= set("*x.…"))


def _shape(name: str, hints: str, pattern: str) -> Rule:
    """A token that its first characters give away; it stands alone, not inside a longer word."""
    return Rule(
        name=name,
        hints=tuple(hints.split()),
        patterns=(re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])"),),
    )


_KEY_LINE = r"(?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"

#: In this order: a narrower name comes before a wider one that would match too.
SHAPES: tuple[Rule, ...] = (
    Rule(
        name="private-key",
        hints=("private key",),
        patterns=(
            re.compile(
                rf"-----BEGIN {_KEY_LINE}(?P<body>[A-Za-z0-9+/=\s\\:,.()-]*?)"
                rf"(?:-----END {_KEY_LINE}|(?![A-Za-z0-9+/=\s\\:,.()-]))"
            ),
        ),
        accepts=_holds_key,
        has_lines=True,
    ),
    _shape("aws-access-key", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    _shape("github-fine-grained-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{50,}"),
    _shape(
        "gitlab-token",
        "glpat- gldt- glrt- glptt- glcbt- glsoat- glft- glimt- glagent- gloas-",
        r"gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent|oas)-[A-Za-z0-9_-]{20,}"
        r"(?:\.[a-z0-9]{2}\.?[a-z0-9]{7,9})?",  # what newer ones end with
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
        name="openai-key",  # and everybody who took the same prefix
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
