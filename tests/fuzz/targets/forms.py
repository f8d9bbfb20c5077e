"""The form of a collection: any fields are settings or faults with a place to show them."""

from __future__ import annotations

from urllib.parse import parse_qs

from teia.collections.drafts import check_draft
from teia.config.tree import flatten
from teia.web.collection_form import FIELD_OF, Fields, field_of, fields_from_config, form_rules, settings_from_fields
from tests.fuzz.pieces import clean_text_of

SEEDS = (
    b"name=main&seeds=http%3A%2F%2Fa.test%2F&scope=suffix&suffix=.test&delay=5&every_number=2&every_unit=hours",
    b"name=x&seeds=a.test&rule_do=keep&rule_kind=regex&rule_value=%5Ea%2B%24&scope=rules&max_pages=1,000&body_mib=1e9",
    b"rule_lines=skip+suffix%3A.pdf%0Akeep+regex%3A(&start=2026-11-21T02%3A00&zone=Europe%2FParis&more=fetch.dns+%3D+1",
    b"delay=other&delay_s=nan&max_seconds=-1&fetch_s=inf&more=%5Bscope%5D%0Atypes%3D%5B%5D&keep_fresh=1&until=9999-99-99",
    b"stop_number=99999999999&stop_unit=days&every_number=1e3&every_unit=months&tries=http%3A%2F%2F%5B&rows=99999",
)
LISTS = {"rule_do", "rule_kind", "rule_value"}


def fuzz_one(data: bytes) -> None:
    typed = parse_qs(clean_text_of(data), keep_blank_values=True, max_num_fields=None)
    values = {name: typed[name] if name in LISTS else typed[name][-1] for name in Fields.model_fields if name in typed}
    fields = Fields.model_validate(values)
    form_rules(fields)
    settings, faults = settings_from_fields(fields)
    draft = check_draft(settings)
    for fault in (*faults, *draft.faults):
        assert str(fault.message)
        assert field_of(fault) in {*Fields.model_fields, *FIELD_OF.values()}
    if draft.config is not None and not faults and not draft.faults:
        shown = fields_from_config(draft.config)
        again, wrong = settings_from_fields(shown)
        assert not wrong, wrong
        assert check_draft(again).config == draft.config, "the form shows other settings"
    flatten({})
