"""Every place in teia that opens a socket is registered here, with the test that covers it; a new one fails first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT
from tests.conventions.tree import modules, walk

OPENING = {
    "socket", "create_connection", "create_server", "open_connection", "open_unix_connection",
    "create_datagram_endpoint",
    "create_unix_server", "start_server", "start_unix_server", "urlopen", "HTTPConnection", "HTTPSConnection", "Curl",
    "CurlFetcher", "DNSResolver", "SMTP", "ClientSession", "connect",
}  # fmt: skip
"""Names of functions and classes whose call opens a socket, or makes something that does."""

DATABASES = {"sqlite3", "duckdb"}

BEHIND_THE_GUARD = {
    "teia.fetch.curl": "tests/fetch/test_curl.py::test_guard_checks_again_when_the_socket_is_opened",
    "teia.crawler.start": "tests/hostile/test_entries.py::test_1_2_5_no_request_reached_the_inside",
    "teia.transfer.doctor": "tests/transfer/test_doctor.py::"
    "test_an_unreachable_robots_txt_and_a_blocked_address_are_failures",
    "teia.crawler.signals_in.outgoing": "tests/hostile/test_guard.py::test_a_webhook_or_hub_inside_is_not_posted_to",
}
"""Requests to addresses that a page, a name server or a user of the web interface chooses."""

NATS = "tests/cluster/nats/test_wire.py::test_another_key_is_refused_at_once"
CHOSEN_BY_THE_OPERATOR = {
    "teia.fetch.cares": "tests/fetch/test_dns.py::test_wrong_name_server_is_a_configuration_error",
    "teia.cluster.nats.wire": NATS,
    "teia.cluster.nats.objects": "tests/cluster/nats/test_objects.py::test_a_place_that_cannot_be_used_is_reported",
    "teia.cluster.nats.servers": "tests/cluster/nats/test_servers.py::test_places_are_on_this_machine_alone",
    "teia.cluster.placing.landmarks": "tests/cluster/placing/test_landmarks.py::"
    "test_the_nats_servers_are_the_landmarks_unless_others_are_chosen",
    "teia.web.background.alert_mail": "tests/web/background/test_alert_mail.py::"
    "test_a_message_that_is_refused_is_sent_later",
    # These call `connect` of cluster/nats/wire.py.
    "teia.cli.cluster.change": NATS, "teia.cli.cluster.commands": NATS, "teia.cli.cluster.connection": NATS,
    "teia.cluster.cells.copy_all": NATS, "teia.cluster.node": NATS, "teia.cluster.search.ask_nodes": NATS,
    "teia.cluster.search.search_process": NATS, "teia.lab.lookup.over_nats": NATS,
}  # fmt: skip
"""Connections to servers that the operator's settings name: a name server, NATS, landmarks, a mail server."""

LISTENING = {
    "teia.web.serve": "tests/web/server/test_connections.py::test_many_connections_without_a_request_keep_nobody_out",
    "teia.signals.announce": "tests/signals/test_announce.py::test_a_flood_is_dropped_and_counted_by_kind",
    "teia.signals.squid_helper": "tests/signals/test_squid_helper.py::test_any_datagram_can_be_read",
    "teia.web.background.local_search": "tests/web/background/test_local_search.py::"
    "test_only_the_user_of_the_server_and_root_are_answered",
    "teia.web.local_socket": "tests/web/background/test_local_search.py::test_a_server_that_hangs_is_not_waited_for",
}
"""Sockets of this machine on which teia listens, and the programs of this machine that connect to them."""

WITHIN_TEIA = {
    "teia.parse.children.zygote": "tests/parse/children/test_pool.py::test_children_die_with_a_killed_crawler",
}
"""Pairs of sockets between a process and its children."""

_LAB = "tests/lab/server/test_serve.py::test_names_of_one_address_are_distinguished_by_the_host_header"
LABORATORY = {
    "teia.lab.hostile.server": "tests/hostile/test_entries.py::test_17_loops_end",
    "teia.lab.reproduce.cache_parasite": _LAB,
    "teia.lab.server.dns": _LAB,
    "teia.lab.server.listen": _LAB,
    "teia.lab.server.serve": _LAB,
    "teia.lab.server.squid": _LAB,
}
"""Servers of the laboratory, on loopback."""

REGISTRY = {**BEHIND_THE_GUARD, **CHOSEN_BY_THE_OPERATOR, **LISTENING, **WITHIN_TEIA, **LABORATORY}


def opened_in(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the calls of a module that open a socket."""
    for node in walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            owner = getattr(getattr(function, "value", None), "id", "")
            if name in OPENING and owner not in DATABASES:
                yield name


def test_every_module_that_opens_a_socket_is_registered_and_no_other() -> None:
    opening = {module.name: sorted(set(opened_in(module.tree))) for module in modules()}
    found = {name: calls for name, calls in opening.items() if calls}
    assert found.keys() == REGISTRY.keys(), "say here which test covers it, and how it is kept from the inside"


def test_a_new_one_would_be_seen() -> None:
    for source in ("import socket\nsocket.create_connection(x)", "from urllib.request import urlopen\nurlopen(u)"):
        assert list(opened_in(ast.parse(source)))
    assert not list(opened_in(ast.parse("sqlite3.connect(path)")))


@pytest.mark.parametrize("test", sorted(set(REGISTRY.values())))
def test_the_named_tests_are_there(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
