"""One name, one meaning, one source: the figures of a collection, wherever they are shown."""

from __future__ import annotations

from bench.figures import contradictions, read_sample
from teia.collections.control_file import CrawlReports
from teia.collections.figures import FIGURES
from teia.web.access.roles import Role
from tests.web.conftest import Web
from tests.web.pages.collection.test_monitor import LIVE

COUNTED = ("urls_known", "urls_queued", "captures", "indexed", "requests", "pages", "bytes", "hosts", "links")


def test_a_figure_has_one_value_everywhere_at_rest_and_while_a_crawl_runs(web: Web) -> None:
    client, root, name = web.client(Role.VIEWER), web.installation.root, "main"

    def get(path: str) -> str:
        answer = client.get(path)
        assert answer.status_code == 200, path
        return answer.text

    sample = read_sample(get, root, name)
    assert sample is not None
    assert contradictions(sample) == []
    assert {figure: sample["API"][figure] for figure in ("captures", "indexed", "pages")} == dict.fromkeys(
        ("captures", "indexed", "pages"), 4
    )
    account = client.get("/api/v1/c/main/status").json()
    with CrawlReports(root.control) as reports:
        reports.begin(name, web.installation.clock.now_s())
        for number in range(3):
            counts = {figure: 1_000 * place + number for place, figure in enumerate(COUNTED, 1)}
            said = {**account, **counts, "state": "running", "live": {**LIVE, "early": number}}
            reports.write_account(name, said, web.installation.clock.now_s())
            sample = read_sample(get, root, name)
            assert sample is not None
            assert contradictions(sample) == []
            shown = {figure: value for values in sample.values() for figure, value in values.items()}
            assert {figure: shown[figure] for figure in COUNTED} == counts
            assert all("urls_queued" in values for values in sample.values()), "every place shows it"


def test_different_values_of_one_figure_are_a_contradiction() -> None:
    assert contradictions({"API": {"captures": 4.0}, "monitor": {"captures": 5.0}}) == ["captures: API 4, monitor 5"]


def test_the_meaning_of_every_figure_is_on_a_page(web: Web) -> None:
    client = web.client()
    page, listed = client.get("/help/figures").text, client.get("/api/v1/help/figures").json()["figures"]
    assert [each["name"] for each in listed] == list(FIGURES)
    for each in listed:
        assert each["meaning"] in page
    portuguese = client.get("/help/figures", headers={"accept-language": "pt-BR"}).text
    assert "páginas pesquisáveis" in portuguese
    assert not [each["meaning"] for each in listed if each["meaning"] in portuguese]
