"""Templates, and the formatting of sizes, times and foreign text in them.

Everything is escaped, and characters that are not safe to show are replaced by escapes: a title
must not change the direction of the text around it, or hide part of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from holdfast.model.plan_words import shown_name
from holdfast.model.text import (
    format_bytes,
    format_cost,
    format_count,
    format_duration,
    one_line,
    printable,
)

_HERE = Path(__file__).parent
STATIC_FOLDER = _HERE / "static"
_JUST_NOW = 45.0
#: File names need not be valid text.
_ANY_NAME = "surrogateescape"


class Templates:
    """`user_home` is shown as `~`."""

    def __init__(self, version: str, user_home: Path) -> None:
        below = f"{user_home.resolve()}/"
        self._jinja = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            finalize=_inert,
        )
        self._jinja.filters |= {
            "bytes": format_bytes,
            "when": when,
            "time": _time,
            "ago": _ago,
            "age": format_duration,
            "cost": format_cost,
            "count": format_count,
            "place": lambda path: _inert(f"{path}".replace(below, "~/", 1)),
            "number": lambda number: f"{number:,}",
            "hint": hint,
            "shown_name": shown_name,
            "one_line": one_line,
            "printable": printable,
            "query": lambda values: urlencode(values, doseq=True, errors=_ANY_NAME),
            "segment": lambda text: quote(text, safe="", errors=_ANY_NAME),
        }
        self._jinja.globals |= {"asset": asset, "version": version}

    def render(self, template: str, **values: Any) -> str:
        return self._jinja.get_template(template).render(**values)


def _inert(value: object) -> object:
    """Make foreign text safe wherever a template does not format it: it must not change the
    direction of the text around it, and invalid text must not break the page."""
    return (
        value
        if not isinstance(value, str) or isinstance(value, Markup)
        else printable(value, keep="\n\t")
    )


@lru_cache
def static_version() -> str:
    """A version that changes with any static file, so that browsers can cache them. It is part of
    the path, so that scripts which import each other stay in the same version."""
    found = blake2b(digest_size=6)
    for path in sorted(STATIC_FOLDER.iterdir()):
        found.update(path.read_bytes())
    return found.hexdigest()


def asset(name: str) -> str:
    """The address of a static file."""
    return f"/static/{static_version()}/{name}"


def when(moment: float) -> str:
    """Local time, to the minute, as in the output of commands."""
    try:
        return datetime.fromtimestamp(moment, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"


def day(moment: float) -> str:
    """The local day."""
    try:
        return datetime.fromtimestamp(moment, UTC).astimezone().strftime("%A, %-d %B %Y")
    except (ValueError, OverflowError, OSError):
        return "on an unknown day"


def hint(text: str) -> Markup:
    """The next step, with its commands marked as code."""
    pieces = printable(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else escape(piece)
        for number, piece in enumerate(pieces)
    )


def _time(moment: float) -> Markup:
    """The same for people and programs."""
    return Markup('<time datetime="{}">{}</time>').format(_exact(moment), when(moment))


def _exact(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


@pass_context
def _ago(context: Context, moment: float) -> Markup:
    """`3 h ago`, with the exact time as a tooltip."""
    passed = context["now"] - moment
    if abs(passed) < _JUST_NOW:
        said = "just now"
    elif passed > 0:
        said = f"{format_duration(passed)} ago"
    else:
        said = f"in {format_duration(-passed)}"
    if not (exact := _exact(moment)):
        return Markup("<time>at an unknown time</time>")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(exact, when(moment), said)
