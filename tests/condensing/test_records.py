from tersely.condensing.focus import Focus
from tersely.condensing.records import columns_of_lines, extremes, numbers_of, weigh_columns


def test_amounts_are_the_largest_of_their_line_and_stay_within_it() -> None:
    texts = [
        "fetch done in 310 ms after waiting 2.5 s",
        "nothing was measured here, only step 7",
        "s-bahn is no unit of the number above",
        "build took 12",
        "seconds are named on the next line",
        "link 90 ms",
        "strip 1 s, packed at v1.2s",
        "upload 3m",
    ]
    columns = [column for column in columns_of_lines(texts, Focus.parse("Which step took the longest?")) if column.rows]
    amounts = next(column for column in columns if column.label == "durat")
    assert list(amounts.rows) == [0, 5, 6, 7]
    assert [float(value) for value in amounts.values] == [2.5, 0.09, 1.0, 180.0]


def test_extremes_are_the_best_first_and_the_earlier_of_equal_ones() -> None:
    numbers = [3.0, None, 9.0, 1.0, 9.0, 1.0]
    assert extremes(numbers, 1) == [2, 4, 0]
    assert extremes(numbers, -1) == [3, 5, 0]
    assert extremes([None], 1) == []


def test_amounts_with_a_unit_behind_a_blank_are_compared_with_their_unit() -> None:
    lines = [f"oven.py:{row}: size={900 - row} B, count=3" for row in range(20)]
    lines[7] = "oven.py:7: size=3 KiB, count=3"
    scores = [0.0] * 20
    focus = Focus.parse("which line has the largest size?")
    weigh_columns(scores, columns_of_lines(lines, focus), focus)
    assert max(scores) == scores[7]


def test_amounts_before_a_word_of_the_question_are_compared() -> None:
    lines = [f"unused variable 'tray{row}' (60% confidence)" for row in range(20)]
    lines[7] = "unused function 'bake' (100% confidence)"
    scores = [0.0] * 20
    focus = Focus.parse("what is unused with the highest confidence?")
    weigh_columns(scores, columns_of_lines(lines, focus), focus)
    assert scores[7] > 3 > sorted(scores)[-2]


def test_hexadecimal_sizes_that_zeros_fill_up_are_numbers() -> None:
    sizes = ["0000001c", "00000024", "0001f3a2", "00000e10", "0000beef", "00000020"]
    assert numbers_of(sizes) == [int(size, 16) for size in sizes]
    assert numbers_of(["91c6b3fe", "cd90742e", "364993f0", "d1980854", "550d885e"]) is None
