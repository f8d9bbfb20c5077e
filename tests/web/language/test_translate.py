"""Messages in the reader's language: templates by gettext, numbers and nested messages too."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import teia
from teia.collections.calendar import describe_schedule, parse_schedule
from teia.collections.control_file import CrawlReports
from teia.config.sections import Config, ScheduleSettings
from teia.config.tree import read_tree
from teia.errors import TeiaError, UsageError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.rules.scope import compile_scope
from teia.lib.message import Message, decoded, encoded, joined, plain
from teia.web.access.roles import Role
from teia.web.background.lab.runs import StoredRuns
from teia.web.language.translate import translator_for
from tests.web.conftest import Web
from tests.web.labs import keep

SCHEDULE = ScheduleSettings(
    start="2026-11-21 02:00", every="7 days", stop_after="4 hours", until="2026-12-05", zone="America/Sao_Paulo"
)


def portuguese(text: str) -> str:
    return translator_for("pt-BR").translate(text)


def message_of_failure(failing: object, *args: object) -> str:
    with pytest.raises(TeiaError) as caught:
        failing(*args)  # type: ignore[operator]
    return caught.value.message


@pytest.mark.parametrize(
    ("message", "english", "said"),
    [
        (joined("; ", (
            Message("delay of its host until {time}", time="12:00"),
            Message("queued behind {n:,} URLs of its host", n=1204),
         )),
         "delay of its host until 12:00; queued behind 1,204 URLs of its host",
         "intervalo do seu servidor até 12:00; na fila atrás de 1.204 URLs do seu servidor"),
        (Message("{why}; it will not be fetched",
                 why=Message("it is out of scope: {why}", why=Message("{rule} excludes it", rule="regex:/a"))),
         "it is out of scope: regex:/a excludes it; it will not be fetched",
         "está fora do escopo: regex:/a a exclui; não será visitada"),
        (Message("the query took longer than {n:g} s; narrow it, e.g. with WHERE host = …", n=0.5),
         "the query took longer than 0.5 s; narrow it, e.g. with WHERE host = …",
         "a consulta passou de 0,5 s; restrinja-a, p. ex. com WHERE host = …"),
        (Message("port {port} is not allowed", port=25), "port 25 is not allowed", "a porta 25 não é permitida"),
        (Message("this requires the role {role}; your role is {own}", role=Role.OPERATOR.word, own=Role.VIEWER.word),
         "this requires the role operator; your role is viewer",
         "isto exige o papel operador; o seu é leitor"),
    ],
)  # fmt: skip
def test_a_message_is_shown_in_portuguese(message: Message, english: str, said: str) -> None:
    assert message == english
    assert portuguese(message) == said
    assert portuguese(decoded(encoded(message))) == said, "it survives a database"
    assert translator_for("en").translate(message) == english


def test_errors_of_settings_rules_and_schedules_are_shown_in_portuguese() -> None:
    wrong = message_of_failure(read_tree, Config, {"courtesy.delay_s": -1.5})
    assert wrong == "courtesy.delay_s = -1.5: must be at least 0 s"
    assert portuguese(wrong) == "courtesy.delay_s = -1.5: precisa ser pelo menos 0 s"
    rule = message_of_failure(compile_scope, ("host:a b",))
    assert rule == "scope rule 'host:a b': must be a host name, such as example.org"
    assert portuguese(rule) == "regra de escopo 'host:a b': precisa ser um nome de servidor, como example.org"
    schedule = parse_schedule(SCHEDULE)
    assert schedule is not None
    assert portuguese(describe_schedule(schedule)) == (
        "A cada 7 dias às 02:00 (America/Sao_Paulo) desde sábado 21 nov. 2026, 4 horas no máximo, até 5 dez. 2026."
    )
    at_s = datetime(2026, 11, 21, 5, 0, tzinfo=UTC).timestamp()
    assert schedule.format_time(at_s) == "Sat 21 Nov 2026 02:00 (America/Sao_Paulo)"
    assert portuguese(schedule.format_time(at_s)) == "sáb. 21 nov. 2026 02:00 (America/Sao_Paulo)"


@pytest.mark.parametrize("text", ["", "etwas ganz anderes", "{why}", "\\1 {n}", "a; b", "{" * 3_000, '{"code": 1}'])
def test_a_text_without_a_translation_stays_as_it_is(text: str) -> None:
    assert portuguese(text) == translator_for("en").translate(text) == text


def test_a_sentence_that_an_earlier_version_stored_in_english_is_looked_up_as_a_whole() -> None:
    assert portuguese("its host is paused by an operator") != "its host is paused by an operator"


def test_english_that_has_no_translation_is_marked_as_english(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise UsageError("something <b>nobody</b> foresaw")

    monkeypatch.setattr("teia.web.server.installation.Installation.config", wrong)
    portuguese = {"accept-language": "pt"}
    page = web.client(Role.VIEWER).get("/c/main/page?url=http://x.test/", headers=portuguese)
    assert '<span lang="en">something &lt;b&gt;nobody&lt;/b&gt; foresaw</span>' in page.text
    assert 'lang="en">something' not in web.client(Role.VIEWER).get("/c/main/page?url=http://x.test/").text
    twin = web.client(Role.VIEWER).get("/api/v1/c/main/page?url=http://x.test/", headers=portuguese).json()
    assert twin["message"] == "something <b>nobody</b> foresaw"


def test_errors_of_the_framework_are_shown_in_portuguese(web: Web) -> None:
    page = web.client(Role.VIEWER).get("/c/main/hosts", params={"n": "0"}, headers={"accept-language": "pt"})
    assert "n: precisa ser pelo menos 1" in page.text
    twin = web.client(Role.VIEWER).get("/api/v1/c/main/hosts", params={"n": "0"}).json()
    assert twin["message"] == "n: Input should be greater than or equal to 1"


def test_no_translation_writes_numbers_as_english_does() -> None:
    catalogue = Path(teia.__file__).parent / "web/locale/pt_BR/LC_MESSAGES/teia.po"
    said = re.findall(r'^(?:msgstr(?:\[\d\])?|) ?"(.*)"$', catalogue.read_text("utf-8"), re.MULTILINE)
    english = {text for text in said if re.search(r"\d,\d{3}(?!\d)", text)}
    assert not english - {text for text in english if f'msgid "{text}"' in catalogue.read_text("utf-8")}


# ---- messages in files ----------------------------------------------------------------------------------------------

DELAY = Message("robots.txt asks for a Crawl-delay of {n:g} s", n=1204.5)
SAID = "o robots.txt pede um Crawl-delay de 1204,5 s"
OLD = "robots.txt asks for a Crawl-delay of 90 s"


def test_the_account_of_a_crawl_keeps_its_message(tmp_path: Path) -> None:
    with CrawlReports(tmp_path / "control.sqlite") as control:
        control.begin("main", 0.0)
        for why, said in ((DELAY, SAID), (OLD, OLD)):
            control.write_account("main", {"state": "paused", "paused_why": why}, 1.0)
            run = control.running_crawl("main")
            assert run is not None
            assert (run.account["paused_why"], portuguese(run.account["paused_why"])) == (why, said)


def test_a_parked_host_keeps_its_message_and_an_old_reason_is_shown_in_english(web: Web) -> None:
    with web.installation.lookup("main") as lookup:
        folder = lookup.folders[lookup.cell_number("x.test")]
    for why, said in ((DELAY, SAID), (OLD, OLD)):
        cell = FrontierCell(folder.frontier)
        ((host_id,),) = cell.db.execute("SELECT host_id FROM hosts WHERE name = 'x.test'").fetchall()
        with cell.transaction():
            cell.park_host(host_id, why)
        cell.close()
        web.installation.cache.invalidate(("hosts", "main"))
        client = web.client(Role.VIEWER)
        assert client.get("/api/v1/c/main/hosts/x.test").json()["about"]["parked"] == why
        assert said in client.get("/c/main/hosts/x.test", headers={"accept-language": "pt"}).text
    (row,) = client.get("/api/v1/c/main/reports/hosts").json()["rows"]
    assert row["parked"] == OLD


def test_the_log_of_changes_and_runs_of_the_lab_keep_their_messages(web: Web) -> None:
    for what, said in ((Message("treat host: {deed}", deed=plain("pause")), "tratar servidor: pausar"), (OLD, OLD)):
        web.installation.accounts.log_action("ana", what)
        ((_, line),) = web.installation.accounts.logged_actions(1)
        assert (line.what, portuguese(line.what)) == (what, said)
    stored = web.installation.lab.stored
    run = stored.save(replace(keep(stored), state="failed", message=Message("stopped after {n:g} minutes", n=0.5)))
    again = StoredRuns(stored.path, web.installation.clock).get(run.number)
    assert (again.message, portuguese(again.message)) == (run.message, "parada depois de 0,5 minutos")
