"""What a configuration means to a running crawl: who is admitted, and the lists it was begun with (A10)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from teia.collections.settings import check
from teia.config.sections import (
    CollectionSettings,
    Config,
    CourtesySettings,
    FetchSettings,
    LimitSettings,
    ScopeSettings,
)
from teia.crawler.child.messages import decode_settings
from teia.crawler.compiled_settings import CompiledSettings, compile_settings, remove_old_copies, seeds_of, user_agent
from teia.errors import ConfigError
from teia.frontier.cell.reconsider import ReconsideredUrl
from teia.frontier.cell.schema import AS_SITEMAP, BY_LINK, BY_LIST, BY_REQUISITE, BY_SEED
from teia.frontier.rules.scope import compile_scope
from teia.version import __version__


def config(**scope: object) -> Config:
    return Config(CollectionSettings(seeds=("http://a.test/",)), scope=ScopeSettings(**scope))  # type: ignore[arg-type]


def compiled(folder: Path, **scope: object) -> CompiledSettings:
    return compile_settings(config(**scope), folder / "lists")


# ---- who is admitted ------------------------------------------------------------------------------------------------


def test_links_need_a_rule_and_may_not_be_too_deep(tmp_path: Path) -> None:
    of_seeds = compiled(tmp_path, max_depth=3)
    assert of_seeds.admits("http://a.test/x", 3, BY_LINK)
    assert not of_seeds.admits("http://a.test/x", 4, BY_LINK)
    assert not of_seeds.admits("http://b.test/x", 1, BY_LINK)


@pytest.mark.parametrize("found_by", [BY_SEED, BY_REQUISITE, AS_SITEMAP, BY_LINK | BY_SEED])
def test_what_was_requested_needs_no_rule_but_may_not_be_excluded(tmp_path: Path, found_by: int) -> None:
    assert compiled(tmp_path).admits("http://b.test/x", 99, found_by)
    assert not compiled(tmp_path, exclude=("host:b.test",)).admits("http://b.test/x", 0, found_by)


def test_a_host_is_blocked_by_a_rule_for_all_of_it_alone(tmp_path: Path) -> None:
    """A rule for some URLs, `.txt` for one, must not forbid robots.txt: then nothing could be fetched at all."""
    excluding = compiled(tmp_path, exclude=("host:b.test", r"regex:\.txt$"))
    assert excluding.blocks("http://b.test/robots.txt")
    assert not excluding.blocks("http://a.test/robots.txt")


def test_a_budget_that_was_raised_lets_urls_come_back(tmp_path: Path) -> None:
    spent = ReconsideredUrl("http://a.test/x", 1, BY_LINK, "budget", 10)
    for pages, wanted in ((10, False), (11, True)):
        of = replace(config(), limits=LimitSettings(pages_per_host=pages))
        assert compile_settings(of, tmp_path / "lists").may_fetch(spent) is wanted


def test_a_former_seed_that_was_never_visited_needs_a_rule_of_the_scope(tmp_path: Path) -> None:
    now = compiled(tmp_path)
    (seed,), typo = now.seeds, "http://exmaple.test/"
    inside = f"{seed}former"
    for url, found_by, is_known_seed, wanted in (
        (seed, BY_SEED, False, True),
        (typo, BY_SEED, False, False),
        (typo, BY_SEED, True, True),
        (typo, BY_SEED | BY_LIST, False, True),
        (inside, BY_SEED, False, True),
    ):
        assert now.may_fetch(ReconsideredUrl(url, 0, found_by, "", 0, is_known_seed)) is wanted


def test_only_what_decides_about_urls_changes_the_mark(tmp_path: Path) -> None:
    before = compiled(tmp_path)
    marks = {
        compiled(tmp_path, exclude=("host:b.test",)).mark,
        compiled(tmp_path, queries=False).mark,
        compiled(tmp_path, max_depth=2).mark,
        compile_settings(replace(config(), limits=LimitSettings(pages_per_host=5)), tmp_path / "lists").mark,
        compile_settings(replace(config(), collection=CollectionSettings(seeds=("http://b.test/",))), tmp_path).mark,
        compile_settings(replace(config(), fetch=FetchSettings(allow_nets=("127.0.0.0/8",))), tmp_path).mark,
        compile_settings(replace(config(), fetch=FetchSettings(resolve=("a.test=192.0.2.1",))), tmp_path).mark,
    }
    assert len(marks | {before.mark}) == 8
    assert compile_settings(replace(config(), limits=LimitSettings(pages=5)), tmp_path / "lists").mark == before.mark


# ---- lists ----------------------------------------------------------------------------------------------------------


def test_children_read_a_copy_that_the_user_cannot_pull_away(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked.txt"
    blocked.write_text("b.test\n")
    first = compiled(tmp_path, include=("suffix:.test",), exclude=(f"list:{blocked}",))
    blocked.write_text("c.test\n")
    second = compiled(tmp_path, include=("suffix:.test",), exclude=(f"list:{blocked}",))
    blocked.unlink()
    for of, url in ((first, "http://b.test/"), (second, "http://c.test/")):
        scope = decode_settings(of.read_settings).scope
        in_child = compile_scope(scope.include, scope.exclude)
        for each in ("http://a.test/", "http://b.test/", "http://c.test/"):
            assert in_child.allows(each) == of.scope.allows(each) == (each != url)
    assert first.mark != second.mark, "another content is another scope"


def test_copies_that_nobody_reads_are_removed_at_the_next_start(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked.txt"
    for name in ("b.test", "c.test"):
        blocked.write_text(name)
        last = compiled(tmp_path, exclude=(f"list:{blocked}",))
    assert len(list((tmp_path / "lists").iterdir())) == 2
    remove_old_copies(tmp_path / "lists", last)
    (kept,) = (tmp_path / "lists").iterdir()
    assert str(kept) in decode_settings(last.read_settings).scope.exclude[0]


def test_a_seed_is_checked_also_where_the_scope_does_not_come_from_it() -> None:
    wrong = Config(CollectionSettings(seeds=("ftp://a.test/",)), scope=ScopeSettings(include=("suffix:.test",)))
    with pytest.raises(ConfigError, match="must be an http or https URL"):
        check(wrong)


@pytest.mark.parametrize("seed", ["exemplo", "exemplo/caminho", "exemplo?q=1"])
def test_a_bare_word_is_no_seed(seed: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a URL; did you mean https://exemplo/"):
        seeds_of(Config(CollectionSettings(seeds=(seed,))))


@pytest.mark.parametrize("seed", ["example.org", "localhost:8000", "127.0.0.1", "[::1]:80", "http://intranet/"])
def test_what_may_be_a_host_is_a_seed(seed: str) -> None:
    assert len(seeds_of(Config(CollectionSettings(seeds=(seed,))))) == 1


# ---- who is crawling ------------------------------------------------------------------------------------------------


def test_requests_name_the_crawler_and_whom_to_ask_about_it() -> None:
    """T9: product and version, and a contact where an operator of a server finds a person."""
    courtesy = CourtesySettings(user_agent="arquivo", contact="https://arquivo.example/bot")
    assert user_agent(courtesy) == f"arquivo/{__version__} (+https://arquivo.example/bot)"
    assert user_agent(CourtesySettings()).startswith("teia/")
