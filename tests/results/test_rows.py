"""SQL has the rows that the condenser counts: both parse a text with `tersely.shapes`."""

import re

import pytest

from bench.generator.cases import all_shapes, draw
from tersely import condense
from tersely.condensing.segments import parts_of
from tersely.results.rows import Rows, rows_of

_COUNTED = re.compile(r"^\[(\d+) rows; ([^\n]+?): ", re.M)


def rows_in(text: str) -> Rows:
    rows = rows_of(text)
    assert rows is not None
    return rows


def names_of(rows: Rows) -> list[str]:
    return [column.name for column in rows.columns]


@pytest.mark.parametrize("shape", sorted({shape for shape, _ in all_shapes()}))
def test_the_condenser_and_sql_count_the_same_rows(shape: str) -> None:
    for ask in [ask for name, ask in all_shapes() if name == shape]:
        case = draw(shape, ask, 5, 12_000)
        counted = _COUNTED.findall(condense(case.text, 1000, case.focus, mask=False).text)
        if counted and [part.kind for part in parts_of(case.text)] in (["csv"], ["table"]):
            rows = rows_in(case.text)
            assert {int(count) for count, _ in counted} == {len(rows.values)}, case.id
            assert {label for _, label in counted} <= set(names_of(rows)), case.id


QUERY = "\n".join(
    [
        " id |  name   | amount ",
        "----+---------+--------",
        *(f" {number:2} | item-{number:2} |  {number * 3:4}  " for number in range(1, 31)),
        "(30 rows)",
        "",
    ]
)


def test_lines_around_a_table_are_no_rows_of_it() -> None:
    rows = rows_in(QUERY)
    assert (names_of(rows), len(rows.values), rows.values[0]) == (["id", "name", "amount"], 30, [1, "item- 1", 3])
    assert rows.form == "a drawn table (1 other line left out)"
    titled = "Listing of the disks of this host\n\n" + "".join(
        f"{name:10} {size:>6} {free:>6}\n" for name, size, free in [("NAME", "SIZE", "FREE"), *[("sda", 500, 20)] * 9]
    )
    assert (names_of(rows_in(titled)), len(rows_in(titled).values)) == (["NAME", "SIZE", "FREE"], 9)


def test_the_first_line_of_a_log_is_no_header() -> None:
    log = "".join(f"2026-03-0{day} 10:00:0{day},12{day} INFO  [worker] took {day} jobs\n" for day in range(1, 10))
    rows = rows_in(log)
    assert len(rows.values) == 9 and names_of(rows)[:2] == ["c1", "c2"]
    piped = "".join(f"10:00:{second} | INFO | worker | took {second} jobs\n" for second in range(10, 40))
    rows = rows_in(piped)
    assert len(rows.values) == 30 and names_of(rows) == ["c1", "c2", "c3", "c4"]


def test_tables_under_the_same_header_are_one() -> None:
    report = "Device  reads  writes\nsda     12     5\nsdb     3      0\nsdc     1      1\n\n"
    rows = rows_in(report * 4)
    assert (names_of(rows), len(rows.values)) == (["Device", "reads", "writes"], 12)


def test_cells_beyond_the_header_are_kept() -> None:
    rows = rows_in("a,b,c\n1,2,3\n4,5,6,7\n" + "8,9,10\n" * 9)
    assert names_of(rows) == ["a", "b", "c", "c4"] and rows.values[1] == [4, 5, 6, 7]


def test_a_row_that_the_csv_module_refuses_is_kept() -> None:
    rows = rows_in('name,size,note\n"a",1,x\n"b",2,y\rz\n"c",3,w\n')
    assert [row[0] for row in rows.values] == ["a", '"b"', "c"]


def test_records_behind_a_prefix_and_documents_over_several_lines_are_rows() -> None:
    lines = [f'[pod/web-{number}] {{"level": "info", "took": {number}}}' for number in range(12)]
    rows = rows_in("\n".join([*lines, "stopped"]))
    assert rows.form == "JSON lines (1 other line left out)"
    assert names_of(rows) == ["level", "took", "prefix"] and rows.values[3] == ["info", 3, "[pod/web-3]"]
    pretty = "\n".join(f'{{\n  "id": {number},\n  "name": "n{number}"\n}}' for number in range(5))
    rows = rows_in(pretty)
    assert (rows.form, names_of(rows), rows.values[4]) == ("JSON documents", ["id", "name"], [4, "n4"])
