from __future__ import annotations

import pytest

from teia.parse.html.script_signs import EMPTY_CHARS, LITTLE_CHARS, is_nearly_empty, script_hash


def test_a_page_without_scripts_has_no_hash_and_data_is_no_script() -> None:
    assert script_hash(b"<p>text") == 0
    assert script_hash(b'<script type="application/ld+json">{"a": 1}</script>') == 0
    assert script_hash(b"<script") == 0


def test_pages_made_alike_have_one_hash() -> None:
    one = b'<script src="/app.3f2a.js?v=1"></script><script>show("first", 12)</script>'
    other = b"<script src='/app.3f2a.js?v=2'></script><script>show('second', 77)</script>"
    assert script_hash(one) == script_hash(other) != 0


@pytest.mark.parametrize(
    "other",
    [b"<script>hide('x', 1)</script>", b"<script src=/b.js></script>", b"<script>show('x', 1); more()</script>"],
)
def test_other_scripts_have_another_hash(other: bytes) -> None:
    assert script_hash(other) not in {0, script_hash(b"<script>show('x', 1)</script>")}


def test_pages_that_need_scripts_are_nearly_empty() -> None:
    enough = EMPTY_CHARS
    assert is_nearly_empty(b"<p>short", 5)
    assert is_nearly_empty(b'<p>menu</p><div id="root"></div>', enough)
    assert is_nearly_empty(b"<noscript>You need to enable JavaScript to run this app.</noscript>", enough)
    assert not is_nearly_empty(b"<noscript><img src=/count.gif></noscript>", enough)
    assert not is_nearly_empty(b'<div id="root"><p>made by the server</p></div>', enough)
    assert not is_nearly_empty(b'<p>a long text</p><div id="root"></div>', LITTLE_CHARS + 1)
