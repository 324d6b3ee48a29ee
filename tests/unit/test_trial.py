"""Settings that are tried out: read as `config set` reads them, and nobody's policy yet."""

from __future__ import annotations

import pytest

from holdfast.api.cleanup import tried
from holdfast.config.settings import Own, Settings
from holdfast.errors import UsageError
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.policy.rules import DAY
from holdfast.value import replace


def test_keys_of_all_sessions_and_of_one_source() -> None:
    usual = Settings()
    found = tried(
        usual,
        {
            "sessions.retention_days": "30",
            "sessions.source.cron.retention_days": "7",
            'sessions.source."my source".max_count': "3",
            "checkpoints.max_snapshots": "5",
        },
    )
    policy = found.policy()
    assert policy.everywhere.rules.max_age == 30 * DAY
    assert policy.by_source["cron"].rules.max_age == 7 * DAY
    assert policy.by_source["my source"].caps.max_count == 3
    assert policy.by_source["my source"].rules.max_age == 30 * DAY
    assert found.max_snapshots == 5
    assert usual == Settings()


def test_a_source_keeps_what_it_has_and_can_get_back_what_all_have() -> None:
    own = Own(table="sessions", name="cron", values=(("retention_days", 3), ("max_count", 9)))
    usual = replace(Settings(), own=(own,))
    found = usual.changed_for("sessions", "cron", {"max_count": 4})
    assert found.own == (replace(own, values=(("retention_days", 3), ("max_count", 4))),)
    bare = found.changed_for("sessions", "cron", {"max_count": None, "retention_days": None})
    assert bare.own == ()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("sessions.retention_days", "-1"),
        ("sessions.retention_days", "soon"),
        ("sessions.source.cron.retention_days", "soon"),
        ("sessions.source.cron.pins", "x"),
        ("sessions.retention", "1"),
        ("sessions", "1"),
        ("prices.gpt.input", "1"),
        ("a b", "1"),
    ],
)
def test_what_config_set_refuses_is_refused(key: str, text: str) -> None:
    with pytest.raises(UsageError):
        tried(Settings(), {key: text})


def _plan(*items: PlanItem, home: str = "/home", made_at: float = 0.0) -> Plan:
    return Plan(home=home, command="prune", made_at=made_at, items=items)


def test_a_fingerprint_is_of_what_is_done_and_of_nothing_else() -> None:
    item = PlanItem(
        kind="session",
        id="a",
        source="cli",
        bytes=1,
        last_active_at=0.0,
        version="v1",
        action=Action.REMOVE,
        reason="old",
        undoable=True,
    )
    kept = replace(item, id="k", action=Action.KEEP)
    other = replace(item, id="b")
    one = _plan(item, other).fingerprint
    assert one == _plan(other, kept, item, made_at=99.0).fingerprint
    assert one == _plan(replace(item, reason="older", last_active_at=5.0), other).fingerprint
    for changed in (
        _plan(item),
        _plan(item, replace(other, version="v2")),
        _plan(item, replace(other, undoable=False)),
        _plan(item, replace(other, action=Action.ARCHIVE)),
        _plan(item, other, home="/another"),
    ):
        assert changed.fingerprint != one
