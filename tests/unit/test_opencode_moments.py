"""A tool of OpenCode: one record, and two moments in the conversation."""

from __future__ import annotations

from holdfast.homes.agents.opencode import _messages


def test_a_call_and_its_result_have_moments_of_their_own() -> None:
    """A checkpoint before the tool stands between the two, as with other agents."""
    head = {"role": "assistant", "time": {"created": 1_000}}
    states = [
        {"output": "done", "time": {"start": 2_000, "end": 3_000}},
        {"error": "no", "time": {"start": 2_500, "end": 4_500}},
        {"output": "no times"},
        {"output": "odd", "time": []},
    ]
    parts = [{"type": "tool", "tool": "bash", "callID": "c", "state": each} for each in states]
    moments = [(each.role, each.timestamp) for each in _messages(head, parts)]
    assert moments == [
        ("assistant", 1.0),
        ("tool", 3.0),
        ("tool", 4.5),
        ("tool", 1.0),
        ("tool", 1.0),
    ]
