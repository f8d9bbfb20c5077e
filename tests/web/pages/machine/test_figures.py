"""One name, one meaning, one source: the figures of a collection, wherever they are shown."""

from __future__ import annotations

from bench.figures import contradictions, read_sample
from teia.collections.control_file import CrawlReports
from teia.collections.figures import FIGURES
from teia.web.access.roles import Role
from tests.web.conftest import Web
from tests.web.pages.collection.test_monitor import LIVE

FRESHNESS = {"pages": 400, "visited_again": 300, "fresh_error": 0.03, "best": 0.9, "best_error": 0.02, "possible": 0.95}
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
            said["freshness"] = {**FRESHNESS, "fresh": 0.81234 + number / 100}
            reports.write_account(name, said, web.installation.clock.now_s())
            sample = read_sample(get, root, name)
            assert sample is not None
            assert contradictions(sample) == []
            shown = {figure: value for values in sample.values() for figure, value in values.items()}
            assert {figure: shown[figure] for figure in COUNTED} == counts
            assert all("urls_queued" in values for place, values in sample.items() if place != "search")
            places = {place for place, values in sample.items() if "freshness.fresh" in values}
            assert places == set(sample) - {"frontier"}, "every other place shows it"


def test_different_values_of_one_figure_are_a_contradiction() -> None:
    assert contradictions({"API": {"captures": 4.0}, "monitor": {"captures": 5.0}}) == ["captures: API 4, monitor 5"]


def test_shares_that_are_shown_in_percent_may_differ_by_their_rounding_alone() -> None:
    assert contradictions({"API": {"freshness.fresh": 0.8123}, "monitor": {"freshness.fresh": 0.812}}) == []
    assert contradictions({"API": {"freshness.fresh": 0.8123}, "monitor": {"freshness.fresh": 0.813}}) != []


def test_the_meaning_of_every_figure_is_on_a_page(web: Web) -> None:
    client = web.client()
    page, listed = client.get("/help/figures").text, client.get("/api/v1/help/figures").json()["figures"]
    assert [each["name"] for each in listed] == list(FIGURES)
    for each in listed:
        assert each["meaning"] in page
    portuguese = client.get("/help/figures", headers={"accept-language": "pt-BR"}).text
    assert "páginas pesquisáveis" in portuguese
    assert not [each["meaning"] for each in listed if each["meaning"] in portuguese]
