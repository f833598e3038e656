"""The rules explained are those of the JSON contract."""

import pytest

from parity import findings
from parity.rules import RULES


def test_every_rule_of_the_contract_is_explained_and_no_other() -> None:
    assert set(RULES) == {*findings.RULES, *findings.SCAN_RULES}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_explained_in_whole_sentences_and_its_example_is_closed(name: str) -> None:
    rule = RULES[name]
    assert ". " not in rule.summary
    for text in (rule.summary, rule.meaning, rule.detection, rule.mending):
        assert text[0].isupper() or text[0] in "`1", text
        assert text.endswith("."), text
    assert rule.example.count("```") % 2 == 0
