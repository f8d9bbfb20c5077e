"""Flags of `teia crawl` as names of settings, and the names that settings choose from."""

from __future__ import annotations

import inspect
from typing import get_args, get_type_hints

import pytest

from teia.cli.crawl.crawl import crawl
from teia.config.sections import FLAGS, ORDERS, Config, settings_of_flags
from teia.config.tree import keys_of


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_is_of_the_command_and_names_a_setting(name: str) -> None:
    assert name in inspect.signature(crawl).parameters
    assert FLAGS[name] in keys_of(Config)


def test_an_empty_list_is_a_flag_that_was_not_given() -> None:
    assert settings_of_flags({"scope": [], "delay": 0.0, "order": None, "requisites": False}) == {
        "scope.include": None,
        "courtesy.delay_s": 0.0,
        "collection.order": None,
        "archive.requisites": False,
    }


def test_the_help_of_order_names_every_order() -> None:
    option = get_args(get_type_hints(crawl, include_extras=True)["order"])[1]
    assert all(order in option.help for order in ORDERS)
