"""Slots and paths, each made from the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from teia.lab.world.url_kinds import UrlKind
from tests.lab.worlds import make_world, varied_world


def test_every_slot_has_its_own_path_that_leads_back() -> None:
    for space in varied_world().spaces:
        paths = {space.path(slot): slot for slot in range(space.size)}
        assert len(paths) == space.size
        assert all(space.find(path) == slot for path, slot in paths.items())


def test_path_title_and_anchor_agree() -> None:
    world = varied_world()
    for space in world.spaces:
        markup = world.frame(space).markup
        anchors = space.anchors(space.style(markup, b"/"), range(space.size))
        for slot, anchor in enumerate(anchors):
            path, title = space.reference(slot)
            assert (path, title) == (space.path(slot), space.title(slot))
            url = b"/" + (path.replace(b"&", b"&amp;") if markup.escapes else path)
            assert anchor == markup.anchor % (url, b"", title)


def test_only_leaves_are_anything_but_pages() -> None:
    for space in varied_world().spaces:
        assert all(space.kind(slot) is UrlKind.PAGE for slot in range(space.first_leaf))
        assert all(child >= space.size for slot in range(space.first_leaf, space.size) for child in [8 * slot + 1])


def test_the_tree_reaches_every_slot() -> None:
    for space in make_world(pages=2_000, hosts=20, links__orphans=0.0).spaces:
        found, waiting = {0}, [0]
        while waiting:
            children = space.children(waiting.pop())
            found.update(children)
            waiting += children
        assert found == set(range(space.size))


def test_live_and_linkable_give_the_parent_where_the_slot_will_not_do() -> None:
    for space in varied_world().spaces:
        for slot in range(space.size):
            assert space.kind(space.live(slot)) is UrlKind.PAGE
            assert space.kind(space.linkable(slot)) is not UrlKind.ORPHAN


@given(index=st.integers(0, 59), target=st.binary(max_size=60))
def test_no_path_but_a_slots_own_leads_to_it(index: int, target: bytes) -> None:
    space = varied_world().spaces[index]
    slot = space.find(target)
    assert slot is None or target.startswith(space.path(slot))
