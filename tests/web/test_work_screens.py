"""Trash, log, archive, usage, doctor and configuration in the browser."""

from __future__ import annotations

import re

from holdfast import open as open_home
from holdfast.model.item import SPACE
from holdfast.model.plan import Action
from holdfast.model.session import Message, Tokens
from holdfast.value import replace
from holdfast.web.screens.log import entry_of, redo_of
from tests.cli.agents import settle
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.web.client import Web
from tests.web.forms import hidden

_SCREENS = (
    "/cleanup",
    "/checkpoints",
    "/usage",
    "/trash",
    "/log",
    "/archive",
    "/vault",
    "/doctor",
)


def test_a_machine_without_agents_is_told_what_to_do(web: Web) -> None:
    for path in (*_SCREENS, "/configuration"):
        assert 'class="empty"' in web.ok(path).text, path


def test_a_page_that_is_read_only_has_no_form_that_changes(pruned: Machine) -> None:
    of_home = (
        "/configuration/holdfast",
        "/configuration/holdfast/text",
        "/log/holdfast/1",
        "/log/holdfast/1/undo",
        "/trash/holdfast/empty",
        "/cleanup/confirm?sessions.retention_days=1",
        "/cleanup/confirm?trash=never&sessions.retention_days=1",
        "/doctor/holdfast",
        "/sessions",
    )
    with Web(pruned) as web, Web(pruned, read_only=True) as shown:
        for path in (*_SCREENS, *of_home):
            web.ok(path)
            page = shown.ok(path).text
            assert 'method="post"' not in page, path
            assert 'class="button danger"' not in page, path


def test_the_trash_is_emptied_for_good_after_a_word(pruned: Machine) -> None:
    with Web(pruned) as web:
        assert "5" in web.ok("/trash").words
        asks = web.ok("/trash/holdfast/empty?operation=1")
        assert web.post("/trash/holdfast/empty", hidden(asks)).status == 400
        done = web.post("/trash/holdfast/empty", {**hidden(asks), "for_good": "yes"})
        assert done.status == 303, done
        assert "5 removed" in web.ok(done.place).words
        assert "The trash is empty" in web.ok("/trash").words
        # What was shown before is not done again.
        late = web.post("/trash/holdfast/empty", {**hidden(asks), "for_good": "yes"})
        assert late.status in (400, 409), late


def test_undo_and_redo_from_the_log(used: Machine) -> None:
    Inside(used).ok("sessions", "prune", "--yes")
    names = used.names()
    with Web(used) as web:
        assert "Undo" in web.ok("/log").words
        assert web.post("/log/holdfast/1/undo").status == 303
        assert used.names() > names
        asks = web.post("/log/holdfast/1/redo")  # without a look it only shows
        assert asks.status == 200
        assert "Redo operation 1" in asks.words
        assert used.names() > names
        assert web.post("/log/holdfast/1/redo", hidden(asks)).status == 303
        assert used.names() == names


def test_a_redo_counts_what_leaves_and_not_the_space_that_is_given_back(pruned: Machine) -> None:
    Inside(pruned).ok("undo")
    with open_home(pruned.home) as home:
        made = home.plan_redo("1")
        [operation] = [each for each in home.log.read().operations if each.id == "1"]
    plan = made.planned.plan
    first = plan.items[0]
    space = replace(first, kind=SPACE, id="sessions", action=Action.RECLAIM, goes_with="")
    more = replace(
        made, planned=replace(made.planned, plan=replace(plan, items=(*plan.items, space)))
    )
    entry = entry_of("holdfast", "holdfast", operation, {"1"})
    assert redo_of(more, entry).total == redo_of(made, entry).total == len(plan.items)


def test_an_older_operation_is_undone_after_a_look_only(half: Machine) -> None:
    Inside(half).ok("sessions", "prune", "--yes")
    names = half.names()
    with Web(half) as web:
        asks = web.post("/log/holdfast/1/undo")
        assert asks.status == 200
        assert "Since then, operation 2 ran" in asks.words
        assert half.names() == names
        assert web.post("/log/holdfast/1/undo", hidden(asks)).status == 303
        assert half.names() > names


def test_an_undo_that_somebody_else_did_is_said(pruned: Machine) -> None:
    with Web(pruned) as web:
        asks = hidden(web.ok("/log/holdfast/1/undo"))
        Inside(pruned).ok("undo")
        late = web.post("/log/holdfast/1/undo", asks)
        assert late.status == 409, late


def test_a_setting_is_changed_as_config_set_does(used: Machine) -> None:
    file = used.configure("# mine\n[sessions]\nretention_days = 30  # a month\n")
    with Web(used) as web:
        form = hidden(web.ok("/configuration/holdfast?edit=sessions.retention_days"))
        wrong = web.post("/configuration/holdfast", {**form, "value": "-3"})
        assert wrong.status == 400
        assert "sessions.retention_days: " in wrong.words
        assert 'value="-3"' in wrong.text
        assert web.post("/configuration/holdfast", {**form, "value": "45"}).status == 303
        assert file.read_text() == "# mine\n[sessions]\nretention_days = 45  # a month\n"
        late = web.post("/configuration/holdfast", {**form, "value": "50"})
        assert late.status == 409
        assert 'value="50"' in late.text  # what was typed stays
        assert "retention_days = 45" in file.read_text()


def test_the_whole_file_is_replaced_only_if_it_is_right(used: Machine) -> None:
    before = "# \u202emine\n\n[sessions]\nretention_days = 30\n"
    file = used.configure(before)
    with Web(used) as web:
        page = web.ok("/configuration/holdfast/text")
        assert before in page.text.replace("&#34;", '"')
        form = hidden(page)
        sent = before.replace("30", "forty").replace("\n", "\r\n")
        wrong = web.post("/configuration/holdfast/text", {**form, "text": sent})
        assert wrong.status == 400
        assert file.read_text() == before
        sent = before.replace("30", "31").replace("\n", "\r\n")
        assert web.post("/configuration/holdfast/text", {**form, "text": sent}).status == 303
        assert file.read_text() == before.replace("30", "31")


def test_a_file_that_changed_meanwhile_costs_nobody_their_text(used: Machine) -> None:
    file = used.configure("[sessions]\nretention_days = 30\n")
    mine = "[sessions]\nretention_days = 31\n# \u202emine\n"
    with Web(used) as web:
        form = {**hidden(web.ok("/configuration/holdfast/text")), "text": mine}
        file.write_text("[sessions]\nretention_days = 30\nmax_count = 7\n")
        late = web.post("/configuration/holdfast/text", form)
        assert late.status == 409
        assert "the file changed since you opened it" in late.words
        assert f"{mine}</textarea>" in late.text
        assert "+max_count = 7" in late.words
        assert "max_count = 7" in file.read_text()
        # What changed was shown, so the same text may be saved now.
        agreed = {**hidden(late), "text": mine}
        assert web.post("/configuration/holdfast/text", agreed).status == 303
        assert file.read_text() == mine
        file.write_text('[store]\nurl = "postgresql://me:hunter2@db/x"\n')
        secret = web.post("/configuration/holdfast/text", agreed)
        assert secret.status == 409
        assert mine in secret.text
        assert "hunter2" not in secret.text


def test_a_wrong_configuration_can_be_corrected_here(used: Machine) -> None:
    used.configure("[sessions]\nretention_days = -1\n")
    with Web(used) as web:
        shown = web.ok("/configuration/holdfast")
        assert "commands refuse to run" in shown.words
        assert "retention_days" in shown.words
        form = hidden(web.ok("/configuration/holdfast/text"))
        assert web.post("/configuration/holdfast/text", {**form, "text": ""}).status == 303
        assert "retention_days" in web.ok("/configuration/holdfast").words


def test_a_password_in_a_file_is_not_shown(used: Machine) -> None:
    used.configure('[store]\nurl = "postgresql://me:hunter2@db/holdfast"\n')
    with Web(used) as web:
        for path in ("/configuration/holdfast", "/configuration/holdfast/text"):
            assert "hunter2" not in web.ok(path).text


def test_what_was_used_is_what_the_command_says(machine: Machine) -> None:
    with open_home(machine.home, create=True) as home:
        sessions = home.sessions
        one = sessions.create(source="cli", cwd="/work/<b>shop", model="<i>model")
        tokens = Tokens(input=1_200, output=34)
        sessions.append(one, Message(role="assistant", content="hi", tokens=tokens, cost=0.5))
    with Web(machine) as web:
        page = web.ok("/usage")
    assert "1,234" in page.words
    assert "&lt;i&gt;model" in page.text
    assert "&lt;b&gt;shop" in page.text
    assert "<i>model" not in page.text


def test_an_archived_session_comes_back(machine: Machine) -> None:
    with open_home(machine.home, create=True) as home:
        sessions = home.sessions
        one = sessions.create(source="cli", title="<script>alert(1)</script>")
        sessions.append(one, {"role": "user", "content": "hello"})
        sessions.end(one, "done")
        home.archive_sessions(one.id)
    with Web(machine) as web:
        page = web.ok("/archive")
        assert "&lt;script&gt;" in page.text
        done = web.post("/archive/restore", {"session": f"holdfast:{one.id}"})
        assert done.status == 303, done
        assert "1 brought back" in web.ok(done.place).words
        assert "The archive is empty" in web.ok("/archive").words


def test_what_a_repair_mends_needs_no_command(pruned: Machine) -> None:
    (pruned.home / "operations" / "1.jsonl").chmod(0o644)
    with Web(pruned) as web, Web(pruned, read_only=True) as shown:
        page, only = web.ok("/doctor/holdfast"), shown.ok("/doctor/holdfast")
    assert "Repair below mends it" in page.words
    assert "doctor --repair" not in page.words
    assert re.search(r"<code>holdfast .*doctor --repair</code> makes \w+ private to you", only.text)
    assert "`" not in page.words


def test_a_check_up_says_what_the_command_says(pruned: Machine) -> None:
    with Web(pruned) as web:
        page = web.ok("/doctor/holdfast")
    assert "configuration" in page.words
    assert "fine" in page.words


def test_a_vault_keeps_what_its_agent_deletes(machine: Machine) -> None:
    settle(machine, "claude-code")
    with Web(machine) as web:
        assert "off" in web.ok("/vault").words
        done = web.post("/vault/claude-code", {"on": "yes"})
        assert done.status == 303, done
        assert re.search(r"\d+ sessions? kept", web.ok(done.place).words)
        gone = next((machine.user / ".claude" / "projects").rglob("*.jsonl"))
        content, name = gone.read_bytes(), gone.stem
        gone.unlink()
        with open_home(machine.user / ".claude") as home:
            home.refresh_vault()
        read = f"/sessions/claude-code/read?id={name}"
        assert f'href="{read}"' in web.ok("/vault").text
        assert "vaulted" in web.ok("/sessions/results").words
        only = web.ok("/sessions/results?state=vaulted")
        assert only.text.count('class="title"') == 1
        assert name in only.words
        page = web.ok(read)
        assert "deleted this session; the vault has it" in page.words
        assert "Archive…" not in page.words
        # The hint is for the home that was asked.
        refused = web.post("/archive/restore", {"session": "claude-code:nobody-1"})
        assert "holdfast --home claude-code sessions" in refused.words
        back = web.post("/archive/restore", hidden(page))
        assert back.status == 303, back
        assert "Restore from the vault" in web.ok(back.place).words
        assert gone.read_bytes() == content
        assert "vaulted" not in web.ok(read).words
