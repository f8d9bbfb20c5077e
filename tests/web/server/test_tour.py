"""Things to try in a demonstration."""

from __future__ import annotations

import re

from teia.web.access.roles import Role
from teia.web.server.tour import Tour, read_tour, write_tour
from tests.web.conftest import Web


def test_the_front_page_of_a_demonstration_has_five_things_to_try_and_all_of_them_open(web: Web) -> None:
    client, root = web.client(Role.ADMIN), web.installation.root
    assert read_tour(root) is None
    assert "Five things to try" not in client.get("/").text
    write_tour(root, Tour("main", web.some_url()))
    tour = client.get("/").text.partition('id="tour"')[2].partition("</ol>")[0]
    assert tour.count("<li>") == 5
    links = [each.replace("&amp;", "&") for each in re.findall(r'href="([^"]+)"', tour)]
    assert len(links) == 5
    assert [client.get(each).status_code for each in links] == [200] * 5


def test_a_damaged_file_is_no_tour(web: Web) -> None:
    (web.installation.root.path / "tour.json").write_text("{", "utf-8")
    assert read_tour(web.installation.root) is None
