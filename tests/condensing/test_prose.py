"""Prose of several languages: whole sentences, speakers and headings kept, the passage that answers."""

import textwrap
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.condensing.focus import Focus
from tersely.condensing.layout import Gaps
from tersely.condensing.pack import pack
from tersely.condensing.readers import prose
from tersely.condensing.units import GAP
from tersely.text.tokens import count_tokens


def shown(text: str, budget: int, focus: str = "") -> str:
    wish = Focus.parse(focus)
    reading = prose.read(text, wish, budget)
    assert reading is not None
    packed = pack(reading, budget, focus=wish)
    assert count_tokens(packed.text) <= budget
    return packed.text


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        (
            "Dr. Holm arrived on Nov. 3 in St. Ives. She left at once.",
            ["Dr. Holm arrived on Nov. 3 in St. Ives.", "She left at once."],
        ),
        (
            '"Is it open?" he asked. "No!" Nobody answered him.',
            ['"Is it open?" he asked.', '"No!" Nobody answered him.'],
        ),
        (
            "Das kostet ca. 30 Euro. Mehr nicht, z. B. keine Miete.",
            ["Das kostet ca. 30 Euro.", "Mehr nicht, z. B. keine Miete."],
        ),
        (
            "Die Sperrung dauert bis zum 14. März. Sie war 14. Danach ging sie.",
            ["Die Sperrung dauert bis zum 14. März.", "Sie war 14. Danach ging sie."],
        ),
        ("橋は閉鎖された。工事は三月まで続く。", ["橋は閉鎖された。", "工事は三月まで続く。"]),
        ("¿Dónde está? Nadie lo sabe todavía.", ["¿Dónde está?", "Nadie lo sabe todavía."]),
        ("Version 2.4 costs 3.50 a month.", ["Version 2.4 costs 3.50 a month."]),
        ("यह पुल बंद है। मरम्मत मार्च तक चलेगी।", ["यह पुल बंद है।", "मरम्मत मार्च तक चलेगी।"]),
    ],
)
def test_sentences_end_where_a_reader_of_the_language_would_say(paragraph: str, expected: list[str]) -> None:
    assert prose.sentences(paragraph) == expected


def test_speech_without_punctuation_is_cut_at_pauses_and_loses_no_word() -> None:
    speech = ", ".join(f"and then we looked at point {number} again" for number in range(60))
    pieces = prose.sentences(speech)
    assert max(map(len, pieces)) <= prose.LONGEST_SENTENCE
    assert " ".join(pieces).split() == speech.split()


REPORT = (
    "# Annual report of the Lindmark water works\n\n"
    "## Supply\n\n"
    + "The works supplied the town with water in every month of the year. The pressure was steady in all districts. "
    * 3
    + "\n\n## Repairs\n\n"
    "The main under Pier Road burst in January. A crew of six replaced forty metres of pipe within two days. "
    "The cost of the repair was 41,300 crowns, paid from the reserve.\n\n"
    "## Staff\n\n" + "Two apprentices joined in the spring. The canteen was painted in a friendly yellow. " * 3
)


def test_a_question_brings_the_sentence_that_answers_it_under_its_heading() -> None:
    text = shown(REPORT, 60, "How much did the repair of the burst main cost?")
    assert "41,300 crowns" in text
    assert "## Repairs" in text and "canteen" not in text


def test_left_out_sentences_inside_a_paragraph_are_marked() -> None:
    text = (
        "The survey of the reef began in spring. Boats were hired from three villages. Many tents were bought as well. "
        "The survey of the reef ended in autumn with a map of all corals."
    )
    assert shown(text, 30, "survey of the reef") == (
        "The survey of the reef began in spring. … The survey of the reef ended in autumn with a map of all corals."
    )


MEETING = "\n".join(
    [
        "Anna Berg: Good morning. Let us begin with the budget for the playground.",
        "Tom: Fine with me.",
        "Rita: The swings cost 4,000 and the slide another 2,500. I would rather wait with the slide until next year.",
        "Anna Berg: Okay.",
        "Tom: Yes.",
        (
            "Rita: Then the lights in the hall. Three of twelve lamps are broken and the caretaker cannot reach them "
            "without scaffolding."
        ),
        (
            "Tom: We could borrow scaffolding from the fire brigade. They lent it to us two years ago and asked for "
            "nothing but cake."
        ),
        "Anna Berg: Mm-hmm.",
        "Rita: The choir has asked for the hall on Thursdays. I see no reason against it, they pay thirty a month.",
        "Anna Berg: Then we say yes to the choir.",
        "Tom: Agreed.",
    ]
    * 3
)


def test_a_dialogue_keeps_the_speaker_of_every_line_it_shows() -> None:
    text = shown(MEETING, 90, "What was said about the scaffolding for the lamps?")
    assert "Tom: We could borrow scaffolding from the fire brigade." in text
    for line in text.split("\n"):
        assert line == GAP or line.startswith(("Anna Berg: ", "Tom: ", "Rita: "))


@pytest.mark.parametrize(
    "turn",
    [
        "[12:{at:02d}] <{name}> {said}",
        "12.03.24, 14:{at:02d} - {name}: {said}",
        "{name} (14:{at:02d}): {said}",
        "**{name}:** {said}",
        "{name}：{said}",
    ],
)
def test_turns_of_a_chat_are_told_apart_however_they_are_written(turn: str) -> None:
    said = [
        ("Anna", "Has anyone seen the error on the checkout page today?"),
        ("Ben", "Yes, since the deploy at noon. It says payment token expired."),
        ("Anna", "I rolled back the deploy, it works again."),
        ("Carl", "Thanks! Lunch?"),
        ("Ben", "The cause was the clock of node seven, it was nine minutes behind."),
        ("Carl", "I opened a ticket for the time sync."),
    ]
    chat = "\n".join(turn.format(at=at, name=name, said=text) for at, (name, text) in enumerate(said))
    parts = prose.paragraphs(chat)
    assert [part.text for part in parts] == [text for _, text in said]
    assert all(name in part.label for part, (name, _) in zip(parts, said, strict=True))
    assert "node seven" in shown(chat, 80, "What was the cause of the checkout error?")


def test_who_is_asked_about_speaks_first() -> None:
    text = shown(MEETING, 40, "What did Rita think about the slide?")
    assert text.startswith("…\nRita: ") and "slide until next year" in text
    assert "Tom:" not in text


def test_the_speaker_who_is_asked_about_beats_another_who_says_the_same() -> None:
    others = "\n".join(
        f"{name}: The weather of day {day} was good for the harvest." for day in range(8) for name in ("Ole", "Mia")
    )
    said = "The bridge needs new {} before the winter comes."
    talk = f"Ole: {said.format('lights')}\n{others}\nMia: {said.format('lamps')}\n{others}"
    assert shown(talk, 18, "What did Mia say about the bridge?").startswith("…\nMia: The bridge")
    assert shown(talk, 18, "What did Ole say about the bridge?").startswith("Ole: The bridge")


def test_a_statement_beats_talk_with_the_same_words() -> None:
    filler = "\n".join(f"{name}: Day {day} was quiet at the pier." for day in range(8) for name in ("Ole", "Mia"))
    talk = f"{filler}\nOle: Uh yeah I mean you know the bridge I guess um well okay.\n{filler}\n"
    statement = "Mia: The paint of the bridge comes from the stock of the harbour."
    assert statement in shown(talk + statement + "\n" + filler, 20, "What was said about the bridge?")


def test_the_words_a_subject_is_discussed_with_find_what_was_said_about_it() -> None:
    about = ["The bridge has cracks in the girders.", "The cracks of the bridge reach the girders."]
    later = ["The band plays on Sunday in the park.", "A welder mends girders and cracks in the spring."]
    texts = [*about, *later, *(f"Day {day} was quiet at the pier and in the park." for day in range(60))]
    _, _, band, welder, *others = prose._recurring(prose._telling_words(texts), [1.0, 1.0, *([0.1] * 62)])
    assert welder > max(band, *others)


def test_a_short_remark_counts_as_much_as_the_turns_around_it() -> None:
    turns = [
        prose.Paragraph(1, 1, "The bridge has cracks in the girders on the northern side.", "Mia:"),
        prose.Paragraph(2, 2, "Oh no.", "Ole:"),
        prose.Paragraph(3, 3, "So a welder has to mend it before the winter comes.", "Mia:"),
        prose.Paragraph(4, 4, "Boat four came at noon.", "Ole:"),
        prose.Paragraph(5, 5, "Boat five came at noon.", "Ole:"),
        prose.Paragraph(6, 6, "The lamps of the bridge are not part of this work.", "Mia:"),
    ]
    scores = [1.0, 0.1, 0.8, 0.1, 0.1, 0.9]
    prose._fill_small_gaps(scores, [turn.text for turn in turns], turns)
    assert scores == [1.0, 0.8, 0.8, 0.1, 0.1, 0.9]


def test_of_two_turns_on_the_subject_the_one_with_new_words_is_shown() -> None:
    texts = [
        "The bridge has cracks in its northern girders.",
        "Cracks in northern girders of the bridge.",
        "A welder mends the bridge before winter.",
    ]
    scores = [1.0, 0.9, 0.8]
    prose._prefer_new_words(scores, texts, prose._telling_words(texts), 1_000)
    assert scores[0] > scores[2] > scores[1]


def test_a_sentence_that_is_cut_before_a_gap_has_one_mark() -> None:
    sentences = [f"Boat {day} came to the pier, " + "and so on, " * 14 + "as it did before." for day in range(9)]
    result = prose.reading_of([prose.Paragraph(1, 1, " ".join(sentences))], Focus.parse(""), 100)
    assert result.layout is not None
    text = result.layout({0, 3}, {0: "Boat 0 came …"}, Gaps(result.units, None, 100))
    assert text.startswith("Boat 0 came … Boat 3 came")


def test_a_question_of_a_speaker_gives_way_to_what_is_stated() -> None:
    other = "\n".join(f"{name}: Day {day} was quiet at the pier." for day in range(12) for name in ("Ole", "Mia"))
    said = "Mia: The bridge should be closed because they need it in spring."
    asked = "Ole: So what about the bridge and the cost of the repair for the harbour?"
    assert said in shown(f"{other}\n{asked}\n{other}\n{said}\n{other}", 20, "What about the bridge?")


def test_words_that_only_say_where_something_was_discussed_count_less() -> None:
    other = "\n".join(f"{name}: Day {day} was quiet at the pier." for day in range(12) for name in ("Ole", "Mia"))
    lamps = "Mia: The lamps are cheap."
    budget = "Ole: The budget of the harbour contains the budget of the pier."
    talk = f"{other}\n{lamps}\n{other}\n{budget}\n{other}"
    assert lamps in shown(talk, 12, "What did they say about lamps when discussing the budget of the harbour?")


def test_a_sentence_that_stands_twice_is_shown_once() -> None:
    notice = "The office is closed on the first Monday of every month."
    assert (
        shown(f"{notice} Please write instead.\n\nLetters are answered within a week.\n\n{notice}", 200).count(notice)
        == 1
    )


HOUSES = ["Museum", "Library", "Harbour bath", "Town hall"]


def test_a_sentence_is_found_by_the_heading_it_stands_under() -> None:
    sections = "\n\n".join(
        f"## {name}\n\nIt opens at {hour} and closes at {hour + 8}."
        for hour, name in enumerate(["Museum", "Library", "Harbour bath", "Town hall"], 7)
    )
    assert "It opens at 9 and closes at 17." in shown(sections, 24, "When does the bath open?")


def test_without_a_focus_the_whole_text_is_represented_by_what_it_comes_back_to() -> None:
    themes = ["glacier", "harbour", "railway"]
    text = "\n\n".join(
        f"The {theme} commission met in {2000 + year}. It measured the {theme} and reported on the {theme} "
        "commission's plans. "
        "Then there was tea."
        for theme in themes
        for year in range(6)
    )
    summary = shown(text, 120)
    assert "Then there was tea." not in summary
    assert all(theme in summary for theme in themes)


def test_a_question_in_a_script_without_spaces_finds_its_sentence() -> None:
    text = "".join(f"第{number}回の会議では庭園の花について長い議論が行われた。" for number in range(20))
    text += "修理費は約三億八千万円と市の担当者は説明した。" + "次の会議の日程はまだ決まっていない。"
    assert "三億八千万円" in shown(text, 60, "修理費はいくらですか")


@pytest.mark.slow
def test_a_very_long_text_is_read_where_it_promises_an_answer() -> None:
    dull = "The committee met again and spoke about many things that had been on the list for a while. " * 12 + "\n\n"
    text = dull * 3_000 + "The lighthouse keeper found the missing ledger under the stairs.\n\n" + dull * 1_000
    assert len(text) > prose.MOST_TEXT
    assert "ledger under the stairs" in shown(text, 100, "Where was the missing ledger found?")
    reading = prose.read(text, Focus.parse("ledger"), 100)
    assert reading is not None
    account = pack(reading, 100, focus=Focus.parse("ledger")).account(reading, text.split("\n"))
    assert sum(last - first + 1 for first, last in account.lost) > 7_000


def test_lines_that_begin_with_a_number_are_no_headings() -> None:
    recipe = (
        "1.2 Bread\n\n"
        + "\n\n".join(["3 eggs from the farm", "2 cups of flour", "1 spoon of salt"])
        + "\n\n----\n\nMix all of it and bake it."
    )
    reading = prose.read(recipe, Focus.parse(""), 100)
    assert reading is not None
    assert [unit.text for unit in reading.units if not unit.count] == ["1.2 Bread"]
    assert "2 cups of flour" in pack(reading, 100).text


@pytest.mark.parametrize(
    "records",
    [
        [f"June {day} -- {'Coral Sky ' * (1 + day % 3)}Amphitheatre, West Palm Beach, Florida" for day in range(1, 20)],
        [f"7d6{at}208a{at} Reset the later entry of the table so that it is found (#1269{at})" for at in range(10, 20)],
        [f"client-output-buffer-limit replica {at}mb for each of the connected clients here" for at in range(9)],
        [f"{word}: the value that this field had when it was written down in the book" for word in "abcdefg"],
    ],
)
def test_lines_that_are_records_are_never_joined(records: list[str]) -> None:
    assert [part.text for part in prose.paragraphs("\n".join(records))] == records


@given(
    st.lists(
        st.sampled_from("a the river boats sailed slowly under bridges In March They all came".split()), min_size=9
    )
)
def test_wrapped_prose_is_joined_whatever_the_width(words: list[str]) -> None:
    text = "\n".join(textwrap.wrap("We saw that " + " ".join(words), 72))
    parts = prose.paragraphs(text)
    assert " ".join(part.text for part in parts).split() == text.split()
    openings = [line.split()[0] for line in text.split("\n")]
    if all(first.islower() and first != above for above, first in pairwise(openings)):
        assert len(parts) == 1


def test_every_sentence_and_its_line_come_from_the_source() -> None:
    lines = REPORT.split("\n")
    reading = prose.read(REPORT, Focus.parse("repair"), 200)
    assert reading is not None
    for unit in reading.units:
        assert unit.text in "\n".join(lines[unit.first - 1 : unit.last])


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=600), st.integers(16, 120), st.sampled_from(["", "why?", "names, dates, places"]))
def test_any_text_is_read_within_the_budget(text: str, budget: int, focus: str) -> None:
    wish = Focus.parse(focus)
    reading = prose.read(text, wish, budget)
    if reading is not None:
        packed = pack(reading, budget, focus=wish)
        assert count_tokens(packed.text) <= budget
        assert pack(prose.read(text, wish, budget) or reading, budget, focus=wish).text == packed.text


@pytest.mark.parametrize(
    "text",
    [
        "a" * 300_000,
        ". " * 100_000,
        "A: " * 60_000,
        "。" * 100_000,
        "\n" * 100_000 + "x",
        "Ab. " * 60_000,
        ": : :\n" * 20_000,
    ],
)
def test_hostile_prose_costs_little_and_breaks_nothing(text: str) -> None:
    reading = prose.read(text, Focus.parse("why?"), 100)
    if reading is not None:
        assert count_tokens(pack(reading, 100).text) <= 100
