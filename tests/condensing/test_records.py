from tersely.condensing.focus import Focus
from tersely.condensing.records import columns_of_lines, extremes


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
