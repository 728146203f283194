"""Pages of several kinds and languages: what a reader came for stays, the boilerplate goes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import pages
from tersely.condensing.structural import condense_structurally
from tersely.text.tokens import count_tokens

NEWS_DE = """
[Lokalblatt](/)

* [Politik](/politik)
* [Sport](/sport)
  + [Fußball](/sport/fussball)
  + [Handball](/sport/handball)
* [Kultur](/kultur)
* [Anmelden](/login)

Wir verwenden Cookies, um unsere Webseite für Sie zu verbessern. Mit der Nutzung stimmen Sie dem zu.

# Brücke am Rathaus gesperrt

Von [Jana Petersen](/autor/petersen)

12.02.2024, 11:40

[Teilen](https://social.example/t?u=1) [Twittern](https://social.example/s?u=2) [Mailen](mailto:?x)

Die Stadt hat die Brücke am Rathaus am Montag gesperrt. Gutachter fanden bei einer Prüfung Risse von bis zu 4 mm.

![Die Brücke](/bild.jpg) Die gesperrte Brücke. Foto: Amt

Die Sperrung dauert nach Angaben des Bauamts bis zum 14. März. Busse der Linie 12 fahren eine [Umleitung über die Hafenstraße](/linie12).

### Das könnte Sie auch interessieren

* [Fünf Tipps für den Garten, die wirklich helfen](/garten)
* [Warum der Zoo schließt und was nun aus den Tieren wird](/zoo)
* [So wird das Wetter am Wochenende im ganzen Land](/wetter)

Die Reparatur kostet rund 380.000 Euro, sagte Bauamtsleiterin Mira Holm. Das Geld stehe im Haushalt bereit.

Zuletzt war die Brücke 1998 gesperrt. Damals mussten alle Lager getauscht werden, weil Salzwasser den Stahl angegriffen hatte.

## Kommentare

[Antworten](#)

Finde ich gut!

[Antworten](#)

Na endlich.

[Antworten](#)

## Bleiben Sie auf dem Laufenden

Abonnieren Sie unseren Newsletter und erhalten Sie jeden Morgen die wichtigsten Meldungen.

[Impressum](/impressum) [Datenschutz](/datenschutz) [AGB](/agb)

© 2024 Lokalblatt Verlag. Alle Rechte vorbehalten.
"""

WIKI_FR = """
[Accueil](/) [Portails](/p) [Article au hasard](/a)

Menu principal

# Phare de Kermor

Un article de l'encyclopédie libre.

Le phare de Kermor est un phare situé sur la pointe nord de l'île. Il fut construit en 1856 par l'ingénieur Yves Le Gall.

| Hauteur | 42 m |
| --- | --- |
| Portée | 24 milles |
| Automatisation | 1987 |

## Histoire

La première lampe fut allumée le 3 mars 1857. Une tempête endommagea la lanterne en 1911, et les gardiens durent la réparer eux-mêmes.

## Voir aussi

* [Liste des phares](/liste)
* [Île de Kermor](/ile)

Catégories : [Phare](/c1) [Bretagne](/c2)

[Politique de confidentialité](/conf) [À propos](/apropos)
"""

SHOP = """
* [Home](/)
* [Drills](/drills)
* [Saws](/saws)
* [Basket (0)](/basket)

# Drill DX-40

£84.99

[Add to basket](/add)

The DX-40 is a hammer drill for masonry and steel. It has two speeds and a chuck of 13 mm.

Power: 850 W
Weight: 2.4 kg
Warranty: 3 years
Order number: 40-1177

### Customers also bought

[Drill bits, set of 10](/bits)

£9.99

[Add to basket](/add)

[Work gloves](/gloves)

£4.50

[Add to basket](/add)

[Delivery](/delivery) [Returns](/returns) [Contact](/contact)
"""

FORUM_JA = """
[ホーム](/) [新着](/new) [ログイン](/login)

# 電源が入らない

昨日から電源ボタンを押しても何も起きません。コンセントは確認しました。型番はKX-300です。

[返信](/r1)

保護回路が働いているかもしれません。三十分ほど電源コードを抜いてから試してください。

[返信](/r2)

解決しました。コードを抜いて三十分待ったら動きました。ありがとうございました。

[返信](/r3)

[利用規約](/terms) [プライバシー](/privacy)
"""


def shown(text: str, budget: int = 400, focus: str = "") -> str:
    wish = Focus.parse(focus)
    reading = pages.read(text, wish, budget)
    assert reading is not None
    packed = pack(reading, budget, focus=wish)
    assert count_tokens(packed.text) <= budget
    return packed.text


def test_a_german_news_page_keeps_its_article_and_loses_menu_banner_teasers_comments_and_footer() -> None:
    text = shown(NEWS_DE)
    for fact in (
        "Risse von bis zu 4 mm",
        "bis zum 14. März",
        "Umleitung über die Hafenstraße.",
        "380.000 Euro, sagte Bauamtsleiterin Mira Holm.",
    ):
        assert fact in text
    for boilerplate in (
        "Handball",
        "Cookies",
        "Twittern",
        "Garten",
        "Antworten",
        "Newsletter",
        "Impressum",
        "Verlag",
        "Foto:",
        "https://",
    ):
        assert boilerplate not in text


def test_a_french_encyclopedia_page_keeps_text_and_table() -> None:
    text = shown(WIKI_FR)
    for fact in (
        "en 1856 par l'ingénieur Yves Le Gall.",
        "| Hauteur | 42 m |",
        "| Automatisation | 1987 |",
        "## Histoire",
        "le 3 mars 1857",
    ):
        assert fact in text
    for boilerplate in ("Article au hasard", "Liste des phares", "Catégories", "confidentialité"):
        assert boilerplate not in text


def test_a_shop_page_keeps_the_description_and_the_pairs_of_the_product() -> None:
    text = shown(SHOP)
    assert "hammer drill for masonry and steel." in text
    assert "Power: 850 W" in text and "Order number: 40-1177" in text
    for boilerplate in ("Saws", "Add to basket", "Work gloves", "Returns"):
        assert boilerplate not in text


def test_a_forum_in_a_script_without_spaces_keeps_question_and_answers() -> None:
    text = shown(FORUM_JA)
    for fact in ("型番はKX-300です。", "三十分ほど電源コードを抜いて", "解決しました。"):
        assert fact in text
    for boilerplate in ("ログイン", "返信", "利用規約"):
        assert boilerplate not in text


def test_a_question_picks_the_sentence_that_answers_it_and_keeps_the_title() -> None:
    text = shown(NEWS_DE, 60, "Was kostet die Reparatur?")
    assert "380.000 Euro" in text
    assert "# Brücke am Rathaus gesperrt" in text


def test_an_answer_in_the_footer_is_found_when_it_is_asked_for_and_not_shown_otherwise() -> None:
    page = NEWS_DE + "\nRedaktion: Hafenweg 3, Telefon 0431 5550\n"
    assert "0431 5550" in shown(page, 120, "Welche Telefonnummer hat die Redaktion?")
    assert "0431 5550" not in shown(page, 400, "")


LONG = (
    "The harbour of Lindmark was closed for nine weeks after the storm, and the repair of both quays cost the town "
    "more than it had. "
)


def test_a_link_between_two_paragraphs_is_left_out_and_both_stay() -> None:
    text = shown(
        f"# The harbour\n\n{LONG}It reopened in June.\n\n[Read more: the best gardens](/g)\n\nSo {LONG}The mayor was "
        "glad.\n"
    )
    assert "reopened in June." in text and "The mayor was glad." in text
    assert "gardens" not in text


def test_comments_after_an_article_are_left_out() -> None:
    comments = "\n\n".join(
        f"user{number}\n\nI was there in {1990 + number} and it was much nicer then, believe me.\n\n[Reply](#r{number})"
        for number in range(6)
    )
    text = shown(
        f"# The harbour\n\n{LONG * 2}\n\nAnd {LONG}It reopened in June.\n\n[Share](/s)\n\n[Print](/p)\n\n{comments}\n"
    )
    assert "reopened in June." in text
    assert "believe me" not in text


def test_the_title_as_focus_means_the_whole_article_from_its_beginning() -> None:
    text = shown(NEWS_DE, 70, "Main article: Brücke am Rathaus gesperrt - Lokalblatt")
    assert text.startswith("Die Stadt hat die Brücke am Rathaus am Montag gesperrt. Gutachter fanden")


def test_a_title_with_commas_is_no_list_of_facts_to_collect() -> None:
    title = "Brücke gesperrt, Markt verlegt, Bad offen"
    page = NEWS_DE.replace("Brücke am Rathaus gesperrt", title)
    result = condense_structurally(page, 400, f"Main article: {title}")
    assert "Die Stadt hat die Brücke am Rathaus am Montag gesperrt." in result.text
    assert "other lines as they stand" not in result.text


def test_of_an_article_beyond_the_budget_the_ending_is_shown_too_and_no_words_about_the_site() -> None:
    told = [
        f"In week {n} the crew measured the slope of terrace {n} again and wrote {n * 7} mm down." for n in range(60)
    ]
    body = "\n\n".join([*told, "After a year the terrace had moved by a hand, and nobody lives there now."])
    about = (
        "[Mara Lindqvist](/authors/mara)\n\nMara Lindqvist writes about mountains and has lived in the valley for years."
        "\n\n## Our newsletter\n\nThe best stories of the week, every Friday morning, free of charge."
    )
    text = f"* [Home](/)\n* [Maps](/maps)\n\n# The slow terrace\n\n{body}\n\n{about}\n"
    found = shown(text, 400, "The slow terrace")
    assert "In week 0" in found
    assert "moved by a hand" in found
    assert "Mara" not in found
    assert "Friday" not in found


def test_a_list_that_a_heading_announces_at_the_end_belongs_to_the_body() -> None:
    body = "\n\n".join(
        f"The path to hut {n} leads through a wood of old larches and over two bridges." for n in range(6)
    )
    text = (
        f"# Huts\n\n{body}\n\n#### **Where to eat:**\n\n* The inn at the lake\n* Anna's kitchen (closed on Mondays)\n"
    )
    assert "Anna's kitchen" in shown(text + "\n[Imprint](/i)\n", 2_000, "Huts")


def test_what_was_left_out_is_named_with_its_lines() -> None:
    wish = Focus.parse("")
    reading = pages.read(SHOP, wish, 400)
    assert reading is not None
    account = pack(reading, 400, focus=wish).account(reading, SHOP.split("\n"))
    assert any(first <= 2 and last >= 5 for first, last in account.lost)


DUMP = f"""URL: https://shop.example/dx-40
{SHOP}
URL: https://wiki.example/kermor
{WIKI_FR}
URL: https://news.example/bruecke
{NEWS_DE}
"""


def test_each_page_of_a_dump_is_judged_by_itself_and_keeps_its_address() -> None:
    text = shown(DUMP, 900)
    places = [
        text.index(part) for part in ("shop.example", "850 W", "wiki.example", "42 m", "news.example", "380.000 Euro")
    ]
    assert places == sorted(places)
    assert "Work gloves" not in text and "Handball" not in text


def test_the_budget_of_a_dump_goes_to_the_page_that_answers() -> None:
    text = shown(DUMP, 120, "When was the phare of Kermor automatisé? Automatisation?")
    assert "wiki.example" in text and "1987" in text
    assert "850 W" not in text


def test_the_title_of_one_page_of_a_dump_brings_that_page() -> None:
    text = shown(DUMP, 110, "Brücke am Rathaus gesperrt")
    assert "news.example" in text and "am Montag gesperrt" in text and "380.000 Euro" in text
    assert "shop.example" not in text


def test_units_of_a_dump_carry_the_lines_of_the_source() -> None:
    lines = DUMP.split("\n")
    reading = pages.read(DUMP, Focus.parse(""), 900)
    assert reading is not None
    for unit in reading.units:
        source = pages.without_links("\n".join(lines[unit.first - 1 : unit.last]))
        assert unit.text.strip() in source


@pytest.mark.parametrize(
    "opening",
    [
        "URL: https://a.example/{}",
        "**Source:** <https://a.example/{}>",
        "## https://a.example/{}",
        "===== https://a.example/{} =====",
        "<!-- https://a.example/{} -->",
        "[{}] https://a.example/{}",
        "Page {}: https://a.example/{}",
        "---\nhttps://a.example/{}",
        "# The {}th page\nhttps://a.example/{}",
        "Title: The {}th page\nURL: https://a.example/{}",
    ],
)
def test_pages_of_a_dump_are_told_apart_however_they_are_announced(opening: str) -> None:
    body = "The harbour of Lindmark is open from spring to autumn, and the ferry to Holm runs twice a day. " * 3
    dump = "\n\n".join(opening.format(number, number) + f"\n\n{body} This is text {number}." for number in range(3))
    found = [page.address for page in pages.split_pages(dump)]
    assert len(found) == 3
    assert all(f"https://a.example/{number}" in address for number, address in enumerate(found))


def test_links_inside_an_article_do_not_cut_it() -> None:
    body = "The harbour of Lindmark is open from spring to autumn, and the ferry to Holm runs twice a day. " * 3
    article = f"# The harbour\n\n{body}\n\nhttps://a.example/map\n\n{body}"
    article += f"\n\n[15](https://a.example/ferry#comments)\n\n{body}" * 3
    assert [page.address for page in pages.split_pages(article)] == [""]


def test_of_very_many_pages_the_one_that_answers_is_shown_with_its_address() -> None:
    dull = "The committee met again and spoke about many things that had been on the list for a while. " * 12
    pages_of_it = [f"URL: https://a.example/{number}\n\n# Minutes {number}\n\n{dull}" for number in range(2_000)]
    pages_of_it[1_333] += "\n\nThe lighthouse keeper found the missing ledger under the stairs of the old tower."
    text = shown("\n\n".join(pages_of_it), 80, "Where was the missing ledger found?")
    assert "https://a.example/1333\n# Minutes 1333\n" in text
    assert "ledger under the stairs" in text


def test_a_list_of_links_is_no_dump() -> None:
    text = (
        "# Links\n\n"
        + "\n".join(f"Source: https://example.org/{number}" for number in range(30))
        + "\n\n"
        + "So much for the links. " * 20
    )
    assert [page.address for page in pages.split_pages(text)] == [""]


def test_when_facts_are_wanted_names_and_numbers_beat_colour() -> None:
    colour = "The wind moved softly over the grass and it was quiet there for a long while.\n\n"
    fact = "Captain Ilsa Venn joined the Order of the Grey Lantern on 4 May 1203."
    page = (
        "# The valley\n\n"
        + colour * 3
        + "The path went on and on through the old and silent wood, and nobody spoke.\n\n"
        + fact
        + "\n\n"
        + colour.replace("grass", "river") * 3
    )
    assert fact in shown(page, 48, "NPCs with faction allegiances, dates, items")


def test_the_same_fact_twice_is_shown_once() -> None:
    fact = "Captain Ilsa Venn joined the Order of the Grey Lantern on 4 May 1203 and stayed there for nine years."
    page = (
        f"# The valley\n\n{fact}\n\nThe lantern hall burned down in the winter of 1212, and was never built "
        f"again.\n\n{fact}\n"
    )
    assert shown(page, 200, "people, dates, items").count("Ilsa Venn") == 1


def without_blank_lines_and_links(page: str) -> str:
    return "\n".join(line.strip() for line in pages.without_links(page).split("\n") if line.strip())


def test_a_page_copied_as_plain_text_loses_its_menus_too() -> None:
    text = shown(without_blank_lines_and_links(NEWS_DE))
    for fact in ("Risse von bis zu 4 mm", "bis zum 14. März", "380.000 Euro"):
        assert fact in text
    for boilerplate in ("Handball", "Cookies", "Twittern", "Impressum", "Verlag"):
        assert boilerplate not in text


def test_text_among_furniture_looks_like_a_page_and_data_with_a_few_words_does_not() -> None:
    article = "\n".join(
        [
            "Home",
            "News",
            "Log in",
            *["The harbour of Lindmark is open from spring to autumn, as it was in every year."] * 5,
            "Imprint",
        ]
    )
    assert pages.looks_like_page(article.split("\n"))
    assert pages.looks_like_page(without_blank_lines_and_links(FORUM_JA * 2).split("\n"))
    described = [
        "Name: harbour",
        "Description: The harbour of Lindmark is open from spring to autumn, as it was in every year.",
        "  The ferry to Holm runs twice a day, and the market is moved to the old customs house.",
        "2024-03-01 The harbour of Lindmark was opened again after the long and heavy storm of April.",
    ]
    assert not pages.looks_like_page(described * 10)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "](" * 50_000,
        "[a](" * 20_000,
        "![[" * 20_000,
        "#" * 100_000,
        "| " * 50_000,
        "* " * 50_000,
        "http://" * 20_000,
        "URL: http://x.example/\n" * 5_000,
        "```\n" * 20_000,
        "\x01\x02" * 10_000,
        "<div>" * 50_000 + "text",
        "<!--" * 50_000,
        "<a href='" * 20_000,
        "<a " + '"' * 20_000 + "</p><p><div></p>" * 5,
        "<a " + "'\"" * 20_000 + "</p><p><div></p>" * 5,
        "</p><p>" * 20_000,
        "<script>" * 20_000,
        "&amp;" * 50_000,
    ],
)
def test_hostile_pages_cost_little_and_break_nothing(text: str) -> None:
    wish = Focus.parse("anything?")
    reading = pages.read(text, wish, 100)
    if reading is not None:
        assert count_tokens(pack(reading, 100, focus=wish).text) <= 100


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "# Title",
                "",
                "A sentence of some length, really.",
                "* [link](/x)",
                "| a | b |",
                "<p>x</p>",
                "URL: http://a.example/",
                "```",
                "Reply",
            ]
        )
    ),
    st.sampled_from(["", "What is the length?", "names, dates, places"]),
)
def test_any_mixture_of_lines_is_read_within_the_budget(lines: list[str], focus: str) -> None:
    wish = Focus.parse(focus)
    reading = pages.read("\n".join(lines), wish, 50)
    if reading is not None:
        assert count_tokens(pack(reading, 50, focus=wish).text) <= 50


def test_html_is_recognised_behind_a_long_head() -> None:
    assert pages.looks_like_html("<!-- x -->\n<!DOCTYPE html><html><head><style>" + "a{b:c}" * 9_000)


def test_markdown_that_speaks_about_tags_is_no_html() -> None:
    text = "# Tags\n\n" + "Some words about markup come first here. " * 200
    assert not pages.looks_like_html(text + "Allowed: <p> <a href> <li> <td> <h1> </p> </a> </li>")


STORY = "\n\n".join(
    f"The ferry number {number} left the harbour late because the fog had not lifted by then." for number in range(6)
)
REMARKS = "\n\n".join(
    f"Person {number} wrote here that the ferry is always late and that nobody does anything." for number in range(6)
)


@pytest.mark.parametrize(
    "opening",
    ["## 6 Comments", "Leave a Reply", "### Kommentare (6)", "## Responses to Ferries", "## One thought on “Ferries”"],
)
def test_comments_of_readers_are_no_part_of_the_body(opening: str) -> None:
    text = shown(f"# Ferries are late\n\n{STORY}\n\n{opening}\n\n{REMARKS}", 400, "Ferries are late")
    assert "ferry number 5" in text and "Person" not in text


def test_a_long_paragraph_about_cookies_is_text_and_a_notice_about_them_is_not() -> None:
    about = (
        "Browsers can be told to forget what a site has stored. Whoever clears every cookie at night is asked to log "
        "in again each morning, which few people like, and so the advice is seldom followed for longer than a week. "
        "The authors of the study watched forty households for a year and found that three of them still did so at "
        "its end, all of them without children."
    )
    notice = "We use cookies on this website so that it works as it should for you."
    text = shown(f"# Ferries are late\n\n{STORY}\n\n{about}\n\n{notice}\n\n{STORY[:80]}", 600, "Ferries are late")
    assert "forty households" in text and "We use cookies" not in text


def test_a_line_beside_the_body_is_shown_below_its_own_heading() -> None:
    link = "https://example.org/compare/"
    thanks = "".join(f"- [Contributor {number}](https://example.org/people/{number})\n" for number in range(12))
    small = [
        f"## [5.{n}.1]({link}{n}) (2026-03-{n})\n\n### Bug Fixes\n\n* {what} ([#{n}]({link}{n}))\n\n### Thanks\n\n{thanks}"
        for n, what in ((19, "a better default"), (18, "security: CVE-2026-39338"), (17, "types of headers"))
    ]
    large = [
        f"## 4.{n}.0 (2025-03-{n})\n\nThis release changes how clients of version {n} are configured. Every request of them "
        "is now checked before it is sent, and an error says which header was wrong and where it was set.\n"
        for n in range(28, 12, -1)
    ]
    text = "# Changelog\n\n" + "\n".join([*small, *large])

    shown = condense_structurally(text, 300, "Which release fixed CVE-2026-39338?").text.split("\n")

    at = next(number for number, line in enumerate(shown) if "CVE-2026-39338" in line)
    assert shown[at - 2 : at] == ["## 5.18.1 (2026-03-18)", "### Bug Fixes"]
