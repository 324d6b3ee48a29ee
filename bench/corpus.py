"""Text for benchmarks: the same on every run, with the word statistics of real transcripts.

Standard library only: it also runs inside the environments of the baselines.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

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


def _words() -> list[str]:
    chance = random.Random(0)
    words = {"".join(chance.choices(_SYLLABLES, k=chance.randint(1, 5))) for _ in range(60_000)}
    return sorted(words, key=lambda word: (len(word), word))[:_VOCABULARY]


#: Words of all frequencies, for searches.
QUERIES = ("kalo", "stovenre", "mi re", "altarpro", "provenkalo")
