"""T8: the table is the paper's, and a world shows its shares."""

from __future__ import annotations

from collections import Counter
from math import sqrt

import pytest

from teia.errors import ConfigError
from teia.lab.world.exchange import ServerFault
from teia.lab.world.url_kinds import TABLE, TOTAL, UrlKind
from tests.lab.worlds import EPOCH_S, fetch, make_world, slots_of_kind, url_of

BAD_TEXTS = {UrlKind.PDF, UrlKind.ORPHAN}


def test_the_table_adds_up_to_the_papers_total() -> None:
    # The rows of the printed table; its last line says 796,629.
    assert TOTAL == 796_629


@pytest.mark.parametrize("seed", [1, 2])
def test_kinds_have_the_shares_of_the_table(seed: int) -> None:
    world = make_world(seed=seed, pages=100_000, hosts=1_000)
    counts = Counter(space.kind(slot) for space in world.spaces for slot in range(space.size))
    counts[UrlKind.PAGE] += sum(counts.pop(kind) for kind in BAD_TEXTS)
    slots = sum(counts.values())
    assert slots == 100_000
    for kind, number in TABLE.items():
        expected = slots * number / TOTAL
        assert abs(counts[kind] - expected) <= 4.5 * sqrt(expected) + 3, kind


def test_scale_zero_switches_errors_off_and_two_doubles_them() -> None:
    calm = make_world(pages=5_000, errors__scale=0.0, robots__excluded=0.0)
    kinds = {space.kind(slot) for space in calm.spaces for slot in range(space.size)}
    assert kinds <= {UrlKind.PAGE, UrlKind.PDF, UrlKind.ORPHAN}
    rough = make_world(pages=20_000, errors__scale=2.0)
    share = len(slots_of_kind(rough, UrlKind.FOUND)) / 20_000
    assert share == pytest.approx(2 * TABLE[UrlKind.FOUND] / TOTAL, rel=0.2)


def test_urls_that_ask_for_patience_can_be_more_than_in_the_table() -> None:
    busy = make_world(pages=20_000, errors__unavailable=0.01)
    assert len(slots_of_kind(busy, UrlKind.UNAVAILABLE)) / 20_000 == pytest.approx(0.01, rel=0.3)
    assert len(slots_of_kind(busy, UrlKind.FOUND)) / 20_000 == pytest.approx(TABLE[UrlKind.FOUND] / TOTAL, rel=0.2)


def test_errors_that_leave_no_room_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"reduce errors\.scale"):
        make_world(pages=1_000, errors__scale=5.0, text__pdfs=0.9)


@pytest.mark.parametrize(
    ("kind", "status", "fault"),
    [
        (UrlKind.RESET, 0, ServerFault.RESET),
        (UrlKind.SILENT, 0, ServerFault.SILENT),
        (UrlKind.GARBAGE, 0, ServerFault.GARBAGE),
        (UrlKind.TOO_LARGE, 200, ServerFault.NONE),
        (UrlKind.FORBIDDEN_TYPE, 200, ServerFault.NONE),
        (UrlKind.NOT_FOUND, 404, ServerFault.NONE),
        (UrlKind.FORBIDDEN, 403, ServerFault.NONE),
        (UrlKind.BAD_REQUEST, 400, ServerFault.NONE),
        (UrlKind.UNAUTHORIZED, 401, ServerFault.NONE),
        (UrlKind.FOUND, 302, ServerFault.NONE),
        (UrlKind.MOVED, 301, ServerFault.NONE),
    ],
)
def test_a_kind_is_answered_as_the_table_means_it(kind: UrlKind, status: int, fault: ServerFault) -> None:
    world = make_world(pages=30_000, hosts=50, errors__silent_s=33.0, errors__large_bytes=2_000_000)
    space, slot = slots_of_kind(world, kind)[0]
    answer = fetch(world, url_of(world, space, slot), EPOCH_S)
    assert (answer.status, answer.fault) == (status, fault)
    assert answer.delay_s == (33.0 if kind is UrlKind.SILENT else 0.0)
    if kind is UrlKind.TOO_LARGE:
        assert len(answer.body) == 2_000_000
    if kind is UrlKind.FORBIDDEN_TYPE:
        assert b"text/html" not in answer.headers


def test_redirects_end_at_a_page_but_for_the_declared_loops() -> None:
    world = make_world(pages=30_000, hosts=50, errors__loops=0.1, errors__chains=0.2)
    lengths: Counter[int] = Counter()
    for space, slot in slots_of_kind(world, UrlKind.FOUND):
        url, hops = url_of(world, space, slot), 0
        while hops < 12:
            answer = fetch(world, url)
            if answer.status not in {301, 302}:
                assert answer.status == 200
                break
            location = answer.headers.partition(b"Location: ")[2].partition(b"\r\n")[0].decode()
            url = location if "://" in location else url[: url.index("/", 7)] + location
            hops += 1
        lengths[hops] += 1
    total = sum(lengths.values())
    assert 0.05 < lengths[12] / total < 0.18
    assert lengths[2] > 0
    assert lengths[1] / total > 0.6
