"""A model that answers real agents: on the loopback, without a network, an account or a cost.

It speaks what the four agents speak: Anthropic's messages, OpenAI's responses and chat
completions, and Gemini's generateContent, each as a stream. It says the same line to everybody,
except when the last thing that a user said has one of these words:

    WAIT              the answer stops in the middle until the server is released or closed
    CALL name {json}  a call of that tool, then the line; of several, one after another
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from uuid import uuid4

LINE = "Noted. This is all that there is to say."
_CALL = re.compile(r"CALL (\w+) (?=\{)")
_USED = (100, 12)
#: The name of a model that agents know a price of; some of its input came from a cache.
PRICED, CACHED = "deepseek-flash", 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model does next: call a tool, or say the line."""

    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    waits: bool = False


def answer_to(turns: Sequence[tuple[str, str]], tools: Sequence[str]) -> Answer:
    """`turns` are roles and texts, in order. Agents put words of their own around a prompt, and
    some ask with the same prompt but without tools for a title: such a question never waits."""
    said: list[str] = []
    results = 0
    for role, text in reversed(turns):
        if role == "tool":
            results += 1
        elif role not in ("assistant", "model"):
            said.append(text)
        elif not results or any(_CALL.search(each) for each in said):
            break  # some agents say a word of their own after the result of a tool
    for text in said:
        calls = _calls_in(text, tools)
        if results < len(calls):
            return calls[results]
    waits = bool(tools) and not results and any("WAIT" in text for text in said)
    return Answer(waits=waits)


def _calls_in(text: str, tools: Sequence[str]) -> list[Answer]:
    """A call in the arguments of another is for a subagent. OpenCode quotes what it was given."""
    found = []
    end = 0
    while (called := _CALL.search(text, end)) is not None:
        end = called.end()
        try:
            arguments, end = json.JSONDecoder(strict=False).raw_decode(text, end)
        except ValueError:
            plain = text.replace('\\"', '"').replace("\\\\", "\\")
            return [] if plain == text else _calls_in(plain, tools)
        if called[1] in tools:
            found.append(Answer(tool=called[1], arguments=arguments))
    return found


class ModelServer(ThreadingHTTPServer):
    """Answers until it is closed. `waiting` is set while an answer stands still. `heard` is all
    that it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.waiting = threading.Event()
        self.released = threading.Event()
        self.heard: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def wait(self) -> None:
        self.waiting.set()
        self.released.wait(timeout=120)
        self.waiting.clear()


@contextmanager
def serving() -> Iterator[ModelServer]:
    with ModelServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()


class _Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer
    _ways: ClassVar = (
        ("/chat/completions", "_chat"),
        ("/responses", "_responses"),
        ("/messages", "_messages"),
        (":streamGenerateContent", "_gemini"),
        (":generateContent", "_gemini_whole"),
    )

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if "chunked" in self.headers.get("transfer-encoding", ""):
            raw = b"".join(self._chunks())
        self.server.heard.append(raw)
        body = json.loads(raw or b"{}")
        path = self.path.partition("?")[0]
        way = next((name for end, name in self._ways if path.endswith(end)), None)
        with suppress(BrokenPipeError, ConnectionResetError):  # an agent that was killed
            if way is None:
                self._json({"input_tokens": _USED[0], "totalTokens": _USED[0]})
            else:
                getattr(self, way)(body)

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0] or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()

    def _json(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @contextmanager
    def _stream(self) -> Iterator[None]:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        yield
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, value: object, kind: str = "") -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        data = (f"event: {kind}\n" if kind else "") + f"data: {text}\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data.encode()), data.encode()))
        self.wfile.flush()

    def _event(self, kind: str, **said: object) -> None:
        self._send({"type": kind, **said}, kind)

    def _pause(self, answer: Answer) -> None:
        if answer.waits:
            self.server.wait()

    # --- Anthropic --------------------------------------------------------------------------------

    def _messages(self, body: dict[str, Any]) -> None:
        turns = [
            (
                "tool" if _has(each["content"], "tool_result") else each["role"],
                _text(each["content"]),
            )
            for each in body["messages"]
        ]
        answer = answer_to(turns, [each.get("name") for each in body.get("tools", ())])
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta: dict[str, Any] = {"type": "text_delta", "text": LINE}
        if answer.tool:
            block = {"type": "tool_use", "id": _id("toolu_"), "name": answer.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
        reason = "tool_use" if answer.tool else "end_turn"
        usage = {"input_tokens": _USED[0], "output_tokens": _USED[1]}
        head: dict[str, Any] = {
            "id": _id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream"):
            self._json(
                {**head, "content": [{"type": "text", "text": LINE}], "stop_reason": "end_turn"}
            )
            return
        with self._stream():
            self._event("message_start", message=head)
            self._event("content_block_start", index=0, content_block=block)
            self._pause(answer)
            self._event("content_block_delta", index=0, delta=delta)
            self._event("content_block_stop", index=0)
            self._event("message_delta", delta={"stop_reason": reason}, usage=usage)
            self._event("message_stop")

    # --- OpenAI -----------------------------------------------------------------------------------

    def _responses(self, body: dict[str, Any]) -> None:
        turns = [
            ("tool", "")
            if str(each.get("type", "")).endswith("_output")
            else (each.get("role") or "assistant", _text(each.get("content")))
            for each in body["input"]
        ]
        offered = body.get("tools", ())
        spaces = {tool["name"]: each["name"] for each in offered for tool in each.get("tools", ())}
        answer = answer_to(turns, [*(each.get("name") for each in offered), *spaces])
        item: dict[str, Any] = {
            "type": "message",
            "id": _id("msg_"),
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": LINE, "annotations": []}],
        }
        if answer.tool:
            item = {
                "type": "function_call",
                "id": _id("fc_"),
                "call_id": _id("call_"),
                "name": answer.tool,
                "arguments": json.dumps(answer.arguments),
                "status": "completed",
            }
            if answer.tool in spaces:
                item["namespace"] = spaces[answer.tool]
            if answer.tool in [each.get("name") for each in offered if each["type"] == "custom"]:
                item |= {"type": "custom_tool_call", "input": answer.arguments["input"]}
                del item["arguments"]
        read, written = _USED
        whole = {
            "id": _id("resp_"),
            "object": "response",
            "model": body.get("model"),
            "status": "completed",
            "output": [item],
            "usage": {
                "input_tokens": read,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": written,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": read + written,
            },
        }
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        with self._stream():
            self._event("response.created", response=begun)
            self._pause(answer)
            self._event("response.output_item.done", output_index=0, item=item)
            self._event("response.completed", response=whole)

    def _chat(self, body: dict[str, Any]) -> None:
        turns = [(each["role"], _text(each.get("content"))) for each in body["messages"]]
        answer = answer_to(turns, [each["function"]["name"] for each in body.get("tools", ())])
        delta: dict[str, Any] = {"content": LINE}
        if answer.tool:
            function = {"name": answer.tool, "arguments": json.dumps(answer.arguments)}
            call = {"index": 0, "id": _id("call_"), "type": "function", "function": function}
            delta = {"tool_calls": [call]}
        read, written = _USED
        usage: dict[str, Any] = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": sum(_USED),
        }
        if body["model"] == PRICED:
            usage["prompt_tokens_details"] = {"cached_tokens": CACHED}
        head = {"id": _id("chatcmpl-"), "object": "chat.completion.chunk", "model": body["model"]}

        def chunk(delta: dict[str, Any], end: str | None = None) -> None:
            self._send({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})

        reason = "tool_calls" if answer.tool else "stop"
        if not body.get("stream"):
            self._pause(answer)
            message = {"role": "assistant", "content": None, **delta}
            choice = {"index": 0, "message": message, "finish_reason": reason}
            whole = {**head, "object": "chat.completion", "created": 1, "usage": usage}
            self._json({**whole, "choices": [choice]})
            return
        with self._stream():
            chunk({"role": "assistant", "content": ""})
            self._pause(answer)
            chunk(delta)
            chunk({}, reason)
            self._send({**head, "choices": [], "usage": usage})
            self._send("[DONE]")

    # --- Gemini -----------------------------------------------------------------------------------

    def _gemini(self, body: dict[str, Any]) -> None:
        answer, said = _gemini_answer(body)
        with self._stream():
            self._pause(answer)
            self._send(said)

    def _gemini_whole(self, body: dict[str, Any]) -> None:
        self._json(_gemini_answer(body)[1])


def _gemini_answer(body: dict[str, Any]) -> tuple[Answer, object]:
    turns = [
        ("tool" if _has(each["parts"], "functionResponse") else each["role"], _text(each["parts"]))
        for each in body["contents"]
    ]
    declared = [tool for each in body.get("tools", ()) for tool in each["functionDeclarations"]]
    answer = answer_to(turns, [each["name"] for each in declared])
    part: dict[str, Any] = {"text": LINE}
    if answer.tool:
        part = {"functionCall": {"name": answer.tool, "args": answer.arguments}}
    how = body.get("generationConfig") or {}
    schema = how.get("responseJsonSchema") or how.get("responseSchema")
    if schema:  # it asks itself which model to use, and wants JSON
        part = {
            "text": json.dumps({name: _any(kind) for name, kind in schema["properties"].items()})
        }
    read, written = _USED
    content = {"role": "model", "parts": [part]}
    return answer, {
        "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": read, "candidatesTokenCount": written},
        "modelVersion": "a-model",
    }


def _any(kind: dict[str, Any]) -> object:
    """A value that a schema lets through."""
    return "flash" if str(kind.get("type")).lower() == "string" else 1


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(each.get("text") or "") for each in parts if isinstance(each, dict))


def _has(content: object, kind: str) -> bool:
    parts = content if isinstance(content, list) else []
    return any(each.get("type") == kind or kind in each for each in parts if isinstance(each, dict))


def _id(prefix: str) -> str:
    return prefix + uuid4().hex[:16]
