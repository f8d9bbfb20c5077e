"""Entries as bytes: what is packed is opened again, and what is damaged or too large is not."""

from __future__ import annotations

import pytest
from isal import isal_zlib

from teia.index import entry as entry_module
from teia.index.entry import encode_entry, open_encoded, open_packed, pack_entry, unpack_entry

from .pages import page

SMALL, LARGE = page("http://a.test/", "few words"), page("http://a.test/", "words " * 10_000)


def test_an_entry_that_inflates_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: 204 kB filled 200 MB of memory."""
    packed = pack_entry(LARGE)
    assert unpack_entry(packed) == LARGE
    monkeypatch.setattr(entry_module, "MAX_ENTRY_BYTES", 20_000, raising=False)
    with pytest.raises(Exception, match="more than 20,000 octets"):
        unpack_entry(packed)
    assert open_packed(packed) is None
    opened = open_packed(pack_entry(SMALL))
    assert opened is not None
    assert opened.entry == SMALL


def test_an_entry_that_is_cut_off_is_refused() -> None:
    packed = pack_entry(SMALL)
    assert [open_packed(packed[:length]) for length in range(len(packed))] == [None] * len(packed)


def test_encoded_bytes_are_packed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode_entry(SMALL)
    opened = open_encoded(encoded)
    assert opened is not None
    assert (opened.entry, opened.packed) == (SMALL, pack_entry(SMALL))
    assert opened.packed is opened.packed, "packed once"
    assert open_encoded(pack_entry(SMALL)) is None
    assert [open_encoded(encoded[:length]) for length in range(len(encoded))] == [None] * len(encoded)
    monkeypatch.setattr(entry_module, "MAX_ENTRY_BYTES", len(encoded) - 1, raising=False)
    assert open_encoded(encoded) is None


def test_an_entry_with_a_text_that_is_no_utf_8_is_refused() -> None:
    encoded = encode_entry(SMALL)
    damaged = encoded.replace(b"few words", b"few w\xffrds")
    assert damaged != encoded
    assert open_encoded(damaged) is None
    assert open_packed(isal_zlib.compress(damaged)) is None
