from __future__ import annotations

from teia.crawler.links import MAX_OUTLINKS, field_of, outlink_lines, outlinks_of
from teia.records import Link, LinkKind
from teia.store.warc import warc_fields


def block(*links: Link) -> bytes:
    return warc_fields({"hopsFromSeed": "2", "outlink": outlink_lines(links)})


def test_links_come_back_as_they_went() -> None:
    links = tuple(Link(f"http://a.test/{kind.value}", kind, nofollow=kind is LinkKind.FRAME) for kind in LinkKind)
    assert outlinks_of(block(*links)) == links


def test_lines_of_other_crawlers_are_passed_over() -> None:
    heritrix = b"outlink: http://a.test/ L a/@href\r\noutlink: javascript:x a\r\noutlink:\r\noutlink: x\r\n"
    assert outlinks_of(heritrix) == ()


def test_links_of_one_page_are_bounded() -> None:
    many = (Link(f"http://a.test/{number}") for number in range(MAX_OUTLINKS + 5))
    assert len(outlinks_of(block(*many))) == MAX_OUTLINKS


def test_no_link_can_end_its_line() -> None:
    said = warc_fields({"outlink": ("http://a.test/\r\nWARC-Type: response a",)})
    assert said.count(b"\r\n") == 1


def test_a_field_is_found_by_its_name() -> None:
    assert field_of(block(Link("http://a.test/")), "hopsFromSeed") == "2"
    assert field_of(b"", "hopsFromSeed") == ""
