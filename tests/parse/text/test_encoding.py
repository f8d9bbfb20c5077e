"""Which characters bytes are."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.parse.text.encoding import declared_encoding, determine_encoding, encoding_of, prescan, to_text
from tests.timing import within

META = b'<meta charset="iso-8859-2">'


@pytest.mark.parametrize(
    "label", ["utf-7", "idna", "zlib", "unicode_escape", "rot13", "punycode", "hex", "x" * 10_000, "ütf"]
)
def test_codecs_no_browser_knows_are_never_used(label: str) -> None:
    assert encoding_of(label) is None
    assert determine_encoding("<p>é".encode(), label, is_html=True) == "utf-8"


@pytest.mark.parametrize(
    ("label", "encoding"),
    [("Latin1", "windows-1252"), (" UTF8 ", "utf-8"), ("sjis", "shift_jis"), ("hz-gb-2312", "replacement"),
     ("x-mac-ukrainian", "x-mac-cyrillic"), ("ks_c_5601-1987", "euc-kr"), ("unicode", "utf-16le")],
)  # fmt: skip
def test_labels_mean_what_they_mean_in_browsers(label: str, encoding: str) -> None:
    assert encoding_of(label) == encoding


def test_mark_beats_header_beats_meta_beats_guess() -> None:
    assert determine_encoding(b"\xef\xbb\xbf" + META, "koi8-r", is_html=True) == "utf-8"
    assert determine_encoding(META, "koi8-r", is_html=True) == "koi8-r"
    assert determine_encoding(META, "", is_html=True) == "iso-8859-2"
    assert determine_encoding(META, "no-such-label", is_html=True) == "iso-8859-2"
    assert determine_encoding("olá".encode(), "", is_html=True) == "utf-8"


def test_a_meta_past_the_first_kibibyte_is_still_believed() -> None:
    assert declared_encoding(b"<!-- " + b"x" * 3_000 + b" -->" + META, "", is_html=True) == "iso-8859-2"


def test_xml_declares_its_encoding_itself() -> None:
    assert declared_encoding(b"<?xml version='1.0' encoding='koi8-r'?><a/>", "", is_html=False) == "koi8-r"
    assert prescan(b"<?xml version='1.0' encoding='koi8-r'?><html>") == "koi8-r"


def test_undeclared_portuguese_is_recognised() -> None:
    text = "A informação não está disponível. É preciso atenção às exceções, à mão e ao coração. " * 10
    for codec, expected in (("utf-8", "utf-8"), ("latin-1", "windows-1252")):
        data = text.encode(codec)
        assert determine_encoding(data, "", is_html=True) == expected
        assert to_text(data, expected) == text


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [("utf-16le", b"\xff\xfeh\0i\0", "hi"), ("utf-8", b"\xef\xbb\xbfa\xffb", "a\ufffdb"), ("gbk", b"\xc4\xe3", "你"),
     ("replacement", b"anything", "\ufffd"), ("x-user-defined", b"a\x80", "a\uf780"), ("windows-1252", b"\x80", "€"),
     ("shift_jis", b"\x87\x40", "①")],
)  # fmt: skip
def test_bytes_become_text_as_in_browsers(encoding: str, data: bytes, text: str) -> None:
    assert to_text(data, encoding) == text


@pytest.mark.parametrize(
    "data",
    [random.Random(1).randbytes(2**20), b"\xe4" * 2**20, bytes(range(0x80, 0x100)) * 8_000, b"\x1b$B" * 300_000],
)
def test_detection_is_bounded(data: bytes) -> None:
    within(0.5, lambda: determine_encoding(data, "", is_html=True))  # 100 ms on an idle machine


@given(st.binary(max_size=200), st.text(max_size=20))
def test_any_bytes_are_some_text(data: bytes, label: str) -> None:
    text = to_text(data, determine_encoding(data, label, is_html=True))
    assert text.encode("utf-8").decode("utf-8") == text


def test_pages_that_begin_alike_are_read_alike_and_others_are_not() -> None:
    """What was learnt from one page holds for those that begin with the same octets, up to the declaration."""
    one = b'<!doctype html><html lang=pt><meta charset="utf-8"><title>a'
    assert prescan(one) == "utf-8"
    assert prescan(one.replace(b"<title>a", b"<meta charset=koi8-r>")) == "utf-8"
    assert prescan(one.replace(b"utf-8", b"koi8-r")) == "koi8-r"
    assert prescan(one[: one.index(b"<title>") - 1]) is None, "the tag has no end yet"
    assert prescan(b"<!-- " + one) is None, "all of it is a comment"
