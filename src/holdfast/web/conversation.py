"""Messages as a page shows them: roles, texts with their code, folded tool calls, names of images.

Content comes from agents and from anything they read. It is shown as text, never as markup, and
nothing in it is loaded: an image is shown as a line with its size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from holdfast.model.session import Json, Message
from holdfast.model.text import format_bytes, one_line
from holdfast.value import dataclass

TEXT, CODE, TOOL, RESULT, REASONING, OTHER = "text", "code", "tool", "result", "reasoning", "other"
#: How many characters of a message are shown at once; the rest is one click away.
MOST_SHOWN = 12_000
#: The maximum length of the summary of a folded tool call.
_MOST_SUMMARY = 120
_FENCE = re.compile(
    r"^(?P<mark> {0,3}(?:`{3,}|~{3,}))[ \t]*(?P<name>[\w+#.-]*)[^\n`]*\n(?P<code>.*?)"
    r"(?:\n(?P=mark)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
#: The most informative arguments of a tool call.
_TELLING = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "description")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a message. `title` is the visible line of a folded one, `hidden` how many
    characters were cut off."""

    kind: str
    text: str
    title: str = ""
    hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message, ready to be shown."""

    number: int | None
    role: str
    who: str
    at: float | None
    taken_back: bool
    replaced: bool
    blocks: Sequence[Block]
    usage: str = ""


def said(message: Message, *, most: int = MOST_SHOWN) -> Said:
    """A message as it is shown; `most` is how many characters of it are shown."""
    left = _Budget(most)
    tokens = message.usage
    return Said(
        number=message.number,
        role=_ROLES.get(message.role, "other"),
        who=f"{message.role} {message.tool_name}" if message.tool_name else message.role,
        at=message.timestamp,
        taken_back=message.taken_back,
        replaced=message.replaced and not message.taken_back,
        blocks=[left.cut(each) for each in _blocks(message)],
        usage=f"{tokens.total:,} tokens" if tokens.total else "",
    )


#: Roles with their own style.
_ROLES = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system"}


class _Budget:
    """Limits the length of a message, so that one of megabytes does not become a page of
    megabytes."""

    def __init__(self, most: int) -> None:
        self._left = most

    def cut(self, block: Block) -> Block:
        shown = block.text[: self._left]
        self._left -= len(shown)
        return Block(
            kind=block.kind, title=block.title, text=shown, hidden=len(block.text) - len(shown)
        )


def _blocks(message: Message) -> Iterator[Block]:
    if message.reasoning:
        yield Block(kind=REASONING, title="Reasoning", text=_flat(message.reasoning))
    if message.role == "tool":
        text = _flat(message.content)
        yield Block(kind=RESULT, title=_first_line(text) or "no output", text=text)
    else:
        yield from _of_content(message.content)
    calls = message.tool_calls
    for call in calls if isinstance(calls, list) else () if calls is None else (calls,):
        yield _call(call)


def _of_content(content: Json) -> Iterator[Block]:
    if content is None:
        return
    if isinstance(content, str):
        yield from _of_text(content)
    elif isinstance(content, list):
        for part in content:
            yield from _of_part(part)
    else:
        yield from _of_part(content)


def _of_part(part: Json) -> Iterator[Block]:
    if not isinstance(part, dict):
        yield from _of_text(part if isinstance(part, str) else _pretty(part))
        return
    kind, text = str(part.get("type", "")), part.get("text")
    if _is_media(kind, part):
        yield Block(kind=OTHER, title=_media(kind, part), text="")
    elif kind in ("tool_use", "function_call", "tool_call"):
        yield _call(part)
    elif kind in ("tool_result", "function_call_output"):
        flat = _flat(part.get("content", part.get("output")))
        yield Block(kind=RESULT, title=_first_line(flat) or "no output", text=flat)
    elif kind in ("thinking", "reasoning"):
        yield Block(kind=REASONING, title="Reasoning", text=_flat(part.get("thinking", text) or ""))
    elif isinstance(text, str):
        yield from _of_text(text)
    else:
        yield Block(kind=OTHER, title=kind or "part", text=_pretty(part))


def _of_text(text: str) -> Iterator[Block]:
    """Split a text into plain parts and code blocks."""
    at = 0
    for found in _FENCE.finditer(text):
        if before := text[at : found.start()].strip("\n"):
            yield Block(kind=TEXT, text=before)
        yield Block(kind=CODE, title=found["name"], text=found["code"])
        at = found.end()
    if rest := text[at:].strip("\n"):
        yield Block(kind=TEXT, text=rest)


def _call(call: Json) -> Block:
    """A tool call; its format differs between models."""
    if not isinstance(call, dict):
        return Block(kind=TOOL, title="tool", text=_pretty(call))
    inner = call.get("function")
    held: Mapping[str, Json] = inner if isinstance(inner, dict) else call
    name = held.get("name") or call.get("name") or call.get("type") or "tool"
    given = next((held[key] for key in ("arguments", "input", "args") if key in held), None)
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:  # a truncated call, or plain text
            return Block(kind=TOOL, title=f"{name}  {_first_line(given)}", text=given)
    title = f"{name}  {_telling(given)}".strip()
    return Block(kind=TOOL, title=title, text=_pretty(call if given is None else given))


def _telling(given: Json) -> str:
    if not isinstance(given, dict):
        return ""
    found = next((given[key] for key in _TELLING if given.get(key)), None)
    return _first_line(found if isinstance(found, str) else _pretty(found)) if found else ""


def _is_media(kind: str, part: Mapping[str, Json]) -> bool:
    return kind in ("image", "image_url", "input_image", "audio", "document", "file") or (
        "inlineData" in part or "inline_data" in part
    )


def _media(kind: str, part: Mapping[str, Json]) -> str:
    """A placeholder with the type and size of content that is not shown. That is never put into the
    page."""
    source = part.get("source") or part.get("inlineData") or part.get("inline_data") or part
    known = source if isinstance(source, dict) else {}
    name = known.get("media_type") or known.get("mimeType") or known.get("mime_type") or ""
    size = format_bytes(len(_pretty(dict(part))))
    what = f"{kind or 'data'} {name}".strip()
    return f"{what}, {size}, not shown"


def _flat(content: Json) -> str:
    """All text in a content."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_flat_part, content)))
    return _flat_part(content)


def _flat_part(part: Json) -> str:
    if not isinstance(part, dict):
        return part if isinstance(part, str) else _pretty(part)
    kind = str(part.get("type", ""))
    if _is_media(kind, part):
        return f"[{_media(kind, part)}]"
    text = part.get("text", part.get("summary"))
    if isinstance(text, list):
        return _flat(text)
    return text if isinstance(text, str) else _pretty(part)


def _pretty(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _first_line(text: str) -> str:
    line = next((each.strip() for each in text[:4096].splitlines() if each.strip()), "")
    shown = one_line(line[: _MOST_SUMMARY + 1])
    return shown if len(shown) <= _MOST_SUMMARY else f"{shown[:_MOST_SUMMARY].rstrip()}…"
