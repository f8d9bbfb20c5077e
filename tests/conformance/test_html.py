"""Other people's tests of three small things in HTML: the encoding prescan, meta refresh and srcset."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from teia.parse.html.references import chosen_at_density_1, parse_refresh, parse_srcset
from teia.parse.text.encoding import DEFAULT, declared_encoding

SHOWN_PX = 1_000.0
CONTRADICTORY_SRCSETS = {
    # Each of these stands in the file twice more without a candidate: an invisible sign that made it invalid is
    # missing there.
    "data:,a 1w",
    "data:,a 1x",
    "data:,a 1w 1h",
}


def prescan_cases(folder: Path) -> list[tuple[bytes, str]]:
    found: list[tuple[bytes, str]] = []
    for file in sorted(folder.glob("*.dat")):
        for part in file.read_bytes().split(b"#data\n")[1:]:
            data, _, encoding = part.partition(b"\n#encoding\n")
            found.append((data, encoding.split(b"\n")[0].decode("ascii").strip().lower()))
    return found


def test_encoding_is_found_where_browsers_find_it(conformance: Path) -> None:
    cases = prescan_cases(conformance / "html" / "encoding-prescan")
    assert len(cases) == 82
    for data, expected in cases:
        assert (declared_encoding(data, "", is_html=True) or DEFAULT) == expected, data[:200]


def test_refresh_is_read_as_browsers_read_it(conformance_file: Callable[[str], Path]) -> None:
    cases = json.loads(conformance_file("html/meta_refresh.json").read_text("utf-8"))
    assert len(cases) == 73
    for case in cases:
        found = parse_refresh(case["content"])
        assert (found is not None) == case["valid"], case
        if found is not None:
            assert found.seconds == case["seconds"], case
            # Tabs and line ends inside are for the URL parser to remove.
            reference = found.reference and "".join(found.reference.split("\t")).replace("\n", "")
            assert reference == case["url"], case


def test_srcset_offers_what_browsers_choose_from(conformance_file: Callable[[str], Path]) -> None:
    cases = json.loads(conformance_file("html/srcset.json").read_text("utf-8"))
    assert len(cases) == 236
    expectations: defaultdict[str, set[str | None]] = defaultdict(set)
    for case in cases:
        expectations[case["srcset"]].add(case["first_chosen"])
    assert {text for text, chosen in expectations.items() if len(chosen) > 1} == CONTRADICTORY_SRCSETS
    for text, chosen in expectations.items():
        assert chosen_at_density_1(parse_srcset(text), SHOWN_PX) in chosen - (
            {None} if text in CONTRADICTORY_SRCSETS else set()
        ), text
