"""What crosses a boundary between stages."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from teia import records
from teia.records import AgentRole, Fetched, Link, LinkKind, Outcome, Page

RECORDS = [each for _, each in inspect.getmembers(records, dataclasses.is_dataclass)]
"""All but `Link`, a tuple: a page has hundreds."""


def test_there_are_records() -> None:
    assert {Fetched, Page} <= set(RECORDS)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_record_is_frozen_and_slotted(record: type) -> None:
    assert record.__dataclass_params__.frozen  # type: ignore[attr-defined]  # only dataclasses are listed
    assert "__slots__" in vars(record)
    assert record.__doc__


def test_a_link_cannot_be_changed_either() -> None:
    with pytest.raises(AttributeError):
        Link("http://a.test/").url = "http://b.test/"  # type: ignore[misc]  # that is the claim


def test_outcome_names_are_the_published_ones() -> None:
    assert {str(outcome) for outcome in Outcome} == {
        "robots", "robots_unreachable", "out_of_scope", "forbidden_type", "too_large", "timeout", "dns", "connect",
        "tls", "bad_answer", "blocked_address", "redirect_loop", "trap", "budget", "alias", "soft_404",
        "parse_failed", "not_rendered", "gone", "dropped", "system",
    }  # fmt: skip


def test_an_outcome_is_not_mistaken_for_a_status() -> None:
    assert not any(outcome.isdigit() for outcome in Outcome)


def test_outcomes_know_the_code_tarantula_gave_them() -> None:
    assert Outcome.ROBOTS.tarantula_code == Outcome.ROBOTS_UNREACHABLE.tarantula_code == -7
    assert Outcome.TIMEOUT.tarantula_code == -10
    assert Outcome.TRAP.tarantula_code is None


def test_requisites_are_what_shows_a_page() -> None:
    requisites = {kind for kind in LinkKind if kind.is_requisite}
    assert requisites == {LinkKind.IMAGE, LinkKind.STYLE, LinkKind.SCRIPT, LinkKind.MEDIA}


def test_received_bytes_are_head_and_body() -> None:
    fetched = Fetched("http://x/", "200", 200, 0.0, 1.0, head=b"abc", body=b"defg", request_head=b"GET")
    assert fetched.bytes_received == 7


def test_pages_do_not_share_their_metadata() -> None:
    assert Page(url="http://x/").metadata is not Page(url="http://y/").metadata


def test_role_names_are_those_of_a1() -> None:
    assert str(AgentRole.URL_SCHEDULER) == "URLScheduler"
    assert len(set(AgentRole)) == 14
