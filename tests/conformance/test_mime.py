"""The web platform's Content-Type tests (WHATWG mimesniff)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teia.parse.mime import parse_media_type
from teia.parse.text.encoding import encoding_of


def cases(conformance: Path, file: str) -> list[dict[str, Any]]:
    """The objects of a list in which text is commentary."""
    return [each for each in json.loads((conformance / "mime" / file).read_text("utf-8")) if isinstance(each, dict)]


@pytest.mark.parametrize(("file", "count"), [("mime-types.json", 74), ("generated-mime-types.json", 881)])
def test_every_value_is_parsed_and_written_as_the_standard_says(conformance: Path, file: str, count: int) -> None:
    checked = 0
    for case in cases(conformance, file):
        parsed = parse_media_type(case["input"])
        assert (None if parsed is None else str(parsed)) == case["output"], case
        checked += 1
    assert checked == count


def test_every_charset_means_the_encoding_the_standard_says(conformance: Path) -> None:
    for case in cases(conformance, "mime-types.json"):
        if "encoding" in case:
            parsed = parse_media_type(case["input"])
            found = encoding_of(parsed.charset) if parsed else None
            assert (found or "") == (case["encoding"] or "").lower(), case
