"""HTML becomes the blocks a reader would see, with their positions."""

import pytest

from tersely.condensing.account import LOST, SHOWN, LineClasses, Place
from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import pages
from tersely.condensing.readers.html_pages import blocks_of
from tersely.condensing.structural import condense_structurally

PAGE = """<!DOCTYPE html>
<html lang="en"><head><title>Harbour reopens &ndash; The Gazette</title><script>if (a < b) { document.write("<p>no</p>"); }</script></head>
<body>
<header><a href="/">The Gazette</a><nav><ul><li><a href="/a">News</a><li><a href="/b">Weather</a></ul></nav></header>
<div class="cookie-banner"><p>We value your privacy and use trackers of many kinds on this site.</p><button>Accept</button></div>
<main><article>
<h1>Harbour reopens</h1>
<p>The harbour of Lindmark reopened on 3&nbsp;June after <a href="/storm">the storm</a> of April. Repairs took nine
weeks, the mayor said.</p>
<div class="share-buttons"><a href="#">Share</a> <a href="#">Tweet</a></div>
<table><tr><th>Quay</th><th>Open from</th></tr><tr><td>North</td><td>3 June</td></tr><tr><td>South</td><td>1 July</td></tr></table>
<ul><li>Ferries to Holm run twice a day.<li>The market moves to the old customs house.</ul>
<pre>tide table
06:12 high</pre>
</article>
<aside><h3>Most read</h3><p>Ten gardens you should see this summer, and why they matter to us all.</p></aside></main>
<footer><p>The Gazette is published by Lindmark Media, 4 Pier Road, and is a member of the press council.</p></footer>
</body></html>
"""


def test_text_table_and_list_stay_and_furniture_goes() -> None:
    reading = pages.read(PAGE, Focus.parse(""), 400)
    assert reading is not None
    text = pack(reading, 400).text
    assert text == (
        "# Harbour reopens\n"
        "The harbour of Lindmark reopened on 3 June after the storm of April. Repairs took nine weeks, the mayor "
        "said.\n"
        "| Quay | Open from |\n| North | 3 June |\n| South | 1 July |\n"
        "* Ferries to Holm run twice a day.\n* The market moves to the old customs house.\ntide table\n06:12 high"
    )


def test_documents_one_after_the_other_are_read_one_by_one() -> None:
    other = PAGE.replace("Harbour reopens", "Mill sold").replace(
        "The harbour of Lindmark reopened", "The mill of Lindmark was sold"
    )
    reading = pages.read(PAGE + other, Focus.parse(""), 600)
    assert reading is not None
    text = pack(reading, 600).text
    assert (
        text.index("# Harbour reopens")
        < text.index("reopened on 3 June")
        < text.index("# Mill sold")
        < text.index("was sold on 3 June")
    )
    assert "Weather" not in text and "Lindmark Media" not in text


ROWS = "".join(f"<tr><td>quay-{number}</td><td>{(number * 37) % 101}</td><td>open</td></tr>\n" for number in range(60))
TABLE = (
    "<html><body><nav>\n<a "
    "href='/'>Home</a>\n</nav><h1>Quays</h1>\n\n<table><tr><th>quay</th><th>ships</th><th>state</th></tr>\n"
    f"{ROWS}</table></body></html>"
)


def test_a_table_on_a_page_is_read_as_a_table_with_the_lines_of_the_page() -> None:
    focus = Focus.parse("Which quay has the most ships?")
    reading = pages.read(TABLE, focus, 120)
    assert reading is not None
    text = pack(reading, 120, focus=focus).text
    most = max(range(60), key=lambda number: (number * 37) % 101)
    assert f"| quay-{most} | {(most * 37) % 101} |" in " ".join(text.split())
    assert "# Quays" in text and "Home" not in text
    lines = TABLE.split("\n")
    row = next(unit for unit in reading.units if f"quay-{most} " in unit.text)
    assert f">quay-{most}<" in lines[row.first - 1]


def test_a_table_inside_an_article_shows_the_asked_for_row_under_its_first_row() -> None:
    article = (
        "<p>The harbour office of Lindmark counts the ships at every quay on the first day of each month, and "
        "has done so since 1832.</p>"
    )
    page = TABLE.replace("<table>", article * 12 + "<table>").replace(
        "</table>", "</table><p>The next count of the ships is planned for the first of June.</p>"
    )
    focus = Focus.parse("How many ships are at quay-44?")
    reading = pages.read(page, focus, 90)
    assert reading is not None
    text = pack(reading, 90, focus=focus).text
    assert text.index("| quay | ships | state |") < text.index(f"| quay-44 | {(44 * 37) % 101} | open |")


def test_a_table_does_not_drown_the_sentence_that_answers() -> None:
    text = (
        "<p>The north crane was built in 1901 by the firm of Osk and lifts twelve tons of cargo from the ships at "
        "each quay.</p>"
    )
    page = TABLE.replace(
        "<table>",
        "<p>The harbour office counts the ships at every quay, in summer and in winter.</p>" * 30 + text + "<table>",
    )
    focus = Focus.parse("Who built the crane that lifts cargo from the ships?")
    reading = pages.read(page, focus, 90)
    assert reading is not None
    assert "by the firm of Osk" in pack(reading, 90, focus=focus).text


def test_a_block_knows_its_source_lines_and_how_much_of_it_is_links() -> None:
    title, blocks = blocks_of(PAGE)
    assert title == "Harbour reopens – The Gazette"
    paragraph = next(block for block in blocks if block.text.startswith("The harbour of"))
    assert (paragraph.first, paragraph.last, paragraph.linked, paragraph.ended) == (8, 9, len("the storm"), True)


def test_lines_of_tags_between_shown_blocks_are_no_gap_and_not_lost() -> None:
    rows = "".join(f"<tr>\n<td>Harbour {n}</td>\n<td>{n * 7} boats</td>\n</tr>\n" for n in range(6))
    told = "".join(
        f"<div>\n<p>\nPier {n} &amp; crane {n} lift boats out of the water in spring.\n</p>\n</div>\n"
        for n in range(90)
    )
    page = (
        "<!doctype html>\n<html>\n<body>\n<h1>Harbours of the island</h1>\n"
        "<p>All harbours of the island have a pier of stone and a light at its end.</p>\n"
        f"<table>\n{rows}</table>\n{told}</body>\n</html>\n"
    )
    result = condense_structurally(page, 300, "Harbours of the island")
    shown = result.text.split("\n")
    first, last = shown.index("| Harbour 0 |  0 boats |"), shown.index("| Harbour 5 |  35 boats |")
    assert last == first + 5
    lost = {at for begin, end in result.account.lost for at in range(begin, end + 1)}
    lines = page.split("\n")
    assert not [line for at, line in enumerate(lines[5:30], 6) if at in lost]
    assert any(f"Pier {n} " in lines[at - 1] for at in lost for n in range(90))


def test_an_address_in_angle_brackets_is_no_tag() -> None:
    lines = ["<p>The harbour is <b>open</b> again.</p>", "<br />", "<!-- old -->", "<https://harbour.example/open>"]
    classes = LineClasses(lines, shown_in_sentences=True)
    classes.enter(Place("The harbour is open again.", ((1, 4),)))
    assert list(classes.close()) == [SHOWN, SHOWN, SHOWN, LOST]


def test_menus_footers_and_hidden_elements_are_marked_as_furniture() -> None:
    _, blocks = blocks_of(
        '<nav>a</nav><div role="navigation">b</div><div hidden>c</div><footer><p>d</p></footer><div '
        'class="sidebar">e</div><p>f</p>'
    )
    assert [(block.text, block.boilerplate) for block in blocks] == [
        ("a", 1.0),
        ("b", 1.0),
        ("c", 1.0),
        ("d", 1.0),
        ("e", 0.5),
        ("f", 0.0),
    ]


def test_a_heading_that_links_to_itself_is_a_heading_and_one_that_links_elsewhere_is_a_link() -> None:
    _, blocks = blocks_of('<h2 id="a"><a href="#a">Structure</a></h2><h2><a href="/b">Ten gardens</a></h2>')
    assert [(block.text, block.linked) for block in blocks] == [
        ("## Structure", 0),
        ("## Ten gardens", len("Ten gardens")),
    ]


def test_an_element_that_is_never_closed_does_not_swallow_the_page() -> None:
    _, blocks = blocks_of("<div><nav><a href=x>Menu</a></div><p>Text after the menu.</p><noscript>on")
    assert [(block.text, block.boilerplate) for block in blocks] == [
        ("Menu", 1.0),
        ("Text after the menu.", 0.0),
        ("on", 0.0),
    ]


def test_nesting_without_end_is_read_in_linear_time() -> None:
    _, blocks = blocks_of("<div>" * 100_000 + "deep" + "</div>" * 100_000)
    assert [block.text for block in blocks] == ["deep"]


def test_an_element_that_contains_most_of_the_page_is_no_boilerplate_whatever_its_name() -> None:
    story = "".join(f"<p>Sentence {number} of the story tells what happened next.</p>" for number in range(9))
    _, blocks = blocks_of(f'<form class="modal"><nav><a href=x>Menu</a></nav>{story}</form>')
    assert [block.boilerplate for block in blocks] == [1.0] + [0.0] * 9


def test_an_attribute_may_be_long_and_contain_tags() -> None:
    data = "{" + "x" * 9_000 + "<p>not shown</p>}"
    _, blocks = blocks_of(f"<div data-list='{data}'><p>Shown text.</p></div>")
    assert [block.text for block in blocks] == ["Shown text."]


def test_each_line_of_preformatted_text_counts_its_own_links() -> None:
    body = "\n".join(f"Line {number} of a memo that has no links in it." for number in range(20))
    _, blocks = blocks_of(f"<pre><a href=x>[Docs] [Tracker] [Diff]</a>\n{body}</pre>")
    assert all(block.linked * 5 < len(block.text) for block in blocks)


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("Which host is down?", ["[60 rows; State: up ×59, down ×1]", "| web-23 | down | 2.3 |"]),
        ("Which kernel does web-41 have?", ["| web-41 | up | 6.1 |", "kernel 2.41 patched"]),
    ],
)
def test_a_table_with_notes_between_its_rows_is_still_a_table(question: str, shown: list[str]) -> None:
    rows = "".join(
        f"<tr><td>web-{at}</td><td>{'down' if at == 23 else 'up'}</td><td>{at % 7}.{at % 10}</td></tr>\n"
        f"<tr><td colspan=3>note: kernel {at % 3}.{at} patched on {at % 28 + 1} May</td></tr>\n"
        for at in range(60)
    )
    page = f"<html><body><table>\n<tr><th>Host</th><th>State</th><th>Load</th></tr>\n{rows}</table></body></html>"
    text = condense_structurally(page, 300, question).text
    assert [each for each in shown if each not in text] == []


def test_a_cell_that_reaches_into_rows_below_keeps_the_others_in_their_columns() -> None:
    page = (
        "<table><tr><th>Rack</th><th>Host</th><th>State</th><th>Load</th></tr>"
        "<tr><td rowspan=2>r1</td><td>a</td><td>up</td><td>1</td></tr><tr><td>b<td>down<td>2</tr>"
        "<tr><td>r2</td><td colspan='2'>empty</td><td rowspan=\"2\">3</td></tr><tr><td>r3</td><td>c</td><td>up</td></tr>"
        "</table>"
    )
    assert [block.text for block in blocks_of(page)[1]] == [
        "| Rack | Host | State | Load |",
        "| r1 | a | up | 1 |",
        "| r1 | b | down | 2 |",
        "| r2 | empty |  | 3 |",
        "| r3 | c | up | 3 |",
    ]


def test_rows_of_one_source_line_stay_in_order_and_what_is_missing_between_them_is_marked() -> None:
    rows = [
        f"<tr><td rowspan=2>rack-{rack}</td><td>web-{rack}a</td><td>up</td></tr>"
        f"<tr><td>web-{rack}b</td><td>{'down' if rack == 37 else 'up'}</td></tr>"
        for rack in range(40)
    ]
    page = "<html><body><table><tr><th>Rack</th><th>Host</th><th>State</th></tr>" + "\n".join(rows) + "</table></html>"
    lines = condense_structurally(page, 300, "which host is down").text.split("\n")
    assert "[80 rows; State: up ×79, down ×1]" in lines
    at = lines.index("| rack-37 | web-37b | down |")
    assert lines[at - 1].startswith(("…", "[…")) and "| Rack | Host | State |" in lines[1]
