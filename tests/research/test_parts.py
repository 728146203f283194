"""The small parts of research, each alone: what a search found, where on a page something stands, what rules are sure
of.
"""

import pytest

from tersely.research.extraction import claims_in
from tersely.research.findings import FactClaim, KnownPage, Ledger
from tersely.research.options import ResearchOptions
from tersely.research.request import request_of
from tersely.research.rules import Rules, passages_of
from tersely.research.sources import PageText
from tersely.research.tools import SearchHit, hits
from tests.fakes.researching import SCHEMA

ADA = """# People

* [Home](https://x.example/)

<p>Ada Lovelace, &ldquo;the Enchantress&rdquo;, is sworn to the [Analytical Guild](https://x.example/guild).</p>

The Siege of Corfe took place on 3 March 1646.
"""


@pytest.mark.parametrize(
    "text",
    [
        '{"results": [{"title": "One", "url": "https://a.example/1"}, {"title": "Two", "url": "https://a.example/2/"}]}',
        "1. One\n   https://a.example/1\n   words\n\n2. Two\n   https://a.example/2/\n",
        "- [One](https://a.example/1): words\n- [Two](https://a.example/2/)\n- [One again](http://A.example/1/)",
    ],
)
def test_addresses_are_found_in_whatever_a_search_returns_each_once(text: str) -> None:
    assert hits(text) == [SearchHit("https://a.example/1", "One"), SearchHit("https://a.example/2/", "Two")]


def test_a_quotation_is_found_behind_links_tags_and_other_quotation_marks() -> None:
    page = PageText(ADA)
    assert page.quoted('Ada Lovelace, "the Enchantress", is sworn to the Analytical Guild.') == (5, 5)
    assert page.quoted("took place […] 3 March") is None, "pieces that are too short prove nothing"
    assert page.quoted("Ada Lovelace was never there") is None
    assert page.together(["Siege of Corfe", "3 March 1646"]) == (7, 7)
    assert page.together(["Siege of Cor", "3 March 1646"]) is None, "half a word is another word"


def test_a_claim_is_a_fact_only_if_a_page_says_so() -> None:
    ledger = Ledger(SCHEMA, [KnownPage("P1", "https://x.example/p", "r_1", PageText(ADA))])
    fact = ledger.claim(FactClaim("people", {"name": "Ada Lovelace", "allegiance": "Analytical Guild"}, [("P1", "")]))
    assert fact and fact.sources[0].lines == (5, 5)
    again = ledger.claim(
        FactClaim("people", {"name": "ada lovelace", "allegiance": "Analytical guild"}, [("https://x.example/p", "")])
    )
    assert again is fact and len(fact.sources) == 1
    for path, value, cited, why in (
        ("people", {"name": "Ada Lovelace", "allegiance": "Clockmakers"}, [("P1", "")], "no page says so"),
        ("people", {"name": "Ada Lovelace"}, [], "it names no source"),
        ("people", {"name": "Ada Lovelace"}, [("P9", "")], "no page says so"),
        ("people", {"byname": "the Enchantress"}, [("P1", "")], "it needs 'name'"),
        ("places", {"name": "Corfe"}, [("P1", "")], "the schema has no 'places'"),
    ):
        assert ledger.claim(FactClaim(path, value, cited)) is None
        assert ledger.refused[-1]["why"] == why


def test_rules_find_what_they_are_sure_of_and_leave_the_rest() -> None:
    text = (
        "Ada Lovelace is sworn to the Analytical Guild.\nThe Siege of Corfe took place on 3 March 1646.\n"
        "Whoever pays Ada Lovelace, it is the Analytical Guild that gets the loyalty.\n| Ember Ledger | keeper | Ada "
        "Lovelace |"
    )
    found = [claim.value for _, claim in Rules.of(SCHEMA).claims(passages_of(text, "P1", text))]
    assert {"name": "Ada Lovelace", "allegiance": "Analytical Guild"} in found
    assert {"name": "Siege of Corfe", "date": "3 March 1646"} in found
    assert {"name": "Ember Ledger", "keeper": "Ada Lovelace"} in found
    assert len(found) == 3


def test_an_answer_that_was_cut_still_gives_the_claims_that_are_whole() -> None:
    text = (
        '```json\n{"facts": [{"path": "people", "value": {"name": "Ada"}, "sources": [{"page": "P1", "quote": '
        '"q"}]}, {"path": "peo'
    )
    assert list(claims_in(text)) == [FactClaim("people", {"name": "Ada"}, [("P1", "q")])]


def test_every_page_gets_its_share_and_the_schema_says_what_matters() -> None:
    data = (
        '{"subject": "Corfe", "topics": ["Who is who in {subject}?", "Dates"], "schema": {"properties": {"people": '
        '{"type": "array"}}}}'
    )
    request = request_of(data, (), ResearchOptions())
    assert (request.pages_per_topic, request.tokens_per_topic) == (7, 12_500)
    assert request.hint(request.topics[0]) == "Extract facts: people. Topic: Corfe, Who is who in Corfe."
