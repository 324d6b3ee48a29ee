"""Text for benchmarks: the same on every run, with the word statistics of real transcripts.

Standard library only: it also runs inside the environments of the baselines.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

_SYLLABLES = (
    "ka",
    "lo",
    "mi",
    "re",
    "sto",
    "ven",
    "tar",
    "in",
    "ex",
    "pro",
    "con",
    "de",
    "al",
    "ur",
)
_VOCABULARY = 20_000
OLD_DAYS = 400
_CODE = (
    "def {a}_{b}(self, {c}: int) -> None:\n    return self.{b}.{a}({c})\n",
    "Traceback: {a}.{b}: could not open /var/lib/{c}/{a}.db\n",
    '{{"tool": "{a}", "arguments": {{"path": "/home/user/{b}/{c}.py"}}}}\n',
)


def messages(count: int, seed: int = 1) -> Iterator[str]:
    """`count` texts of about 1.5 kB: prose with Zipf-distributed words, and some code."""
    chance = random.Random(seed)
    words = _words()
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    for _ in range(count):
        length = max(10, int(chance.lognormvariate(5.2, 0.6)))
        drawn = chance.choices(words, cum_weights=weights, k=length)
        text = " ".join(drawn)
        if chance.random() < 0.3:
            a, b, c = chance.sample(words, 3)
            text += "\n" + chance.choice(_CODE).format(a=a, b=b, c=c) * 3
        yield text


def sessions(count: int, per_session: int, now: float) -> Iterator[dict[str, Any]]:
    """Ended sessions, as `sessions import` reads them: the first tenth is `OLD_DAYS` old, the
    others are half of that."""
    texts = messages(count * per_session)
    for number in range(count):
        days = OLD_DAYS if number < count // 10 else OLD_DAYS / 2
        began = now - days * 86_400 + number
        said = [
            {
                "role": ("user", "assistant")[n % 2],
                "content": text,
                "timestamp": began + n,
                "tokens": 400,
            }
            for n, text in enumerate(itertools.islice(texts, per_session))
        ]
        yield {
            "id": f"20260101_{number:06d}_{number:06x}",
            "source": "cli",
            "started_at": began,
            "ended_at": began + per_session,
            "end_reason": "ended",
            "messages": said,
        }


def _words() -> list[str]:
    chance = random.Random(0)
    words = {"".join(chance.choices(_SYLLABLES, k=chance.randint(1, 5))) for _ in range(60_000)}
    return sorted(words, key=lambda word: (len(word), word))[:_VOCABULARY]


#: Words of all frequencies, for searches.
QUERIES = ("kalo", "stovenre", "mi re", "altarpro", "provenkalo")
