"""Notebooks: cells are records, source lines stay verbatim, images are named with their size."""

import json
from typing import Any

import pytest

from tersely.condensing.focus import Focus
from tersely.condensing.readers import notebooks
from tersely.condensing.structural import condense_structurally


def code(source: list[str], outputs: list[dict[str, Any]], count: int) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": count, "metadata": {}, "outputs": outputs, "source": source}


def stream(*lines: str) -> dict[str, Any]:
    return {"name": "stdout", "output_type": "stream", "text": list(lines)}


CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "metadata": {}, "source": ["# Churn\n", "Customers who leave."]}
]
for number in range(40):
    CELLS.append(
        code([f"frame_{number} = load({number})\n", f"frame_{number}.shape"], [stream(f"(12{number}, 7)\n")], number)
    )
CELLS.append(
    code(
        ["model = Forest(trees=300)\n", "    # indented remark\n", "print(model.accuracy(test))"],
        [stream("0.9317\n")],
        41,
    )
)
CELLS.append(
    code(
        ["plot(history)"],
        [
            {
                "data": {"image/png": "iVBORw0KGgo" * 900, "text/plain": ["<Figure size 640x480>"]},
                "output_type": "display_data",
            }
        ],
        42,
    )
)
CELLS.append(
    code(
        ["model.save('/models/churn')"],
        [
            {
                "ename": "OSError",
                "evalue": "disk full",
                "output_type": "error",
                "traceback": [
                    "\x1b[0;31m---------\x1b[0m",
                    "File model.py, line 7",
                    "\x1b[0;31mOSError\x1b[0m: disk full",
                ],
            }
        ],
        43,
    )
)
NOTEBOOK = {"cells": CELLS, "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}
FORMS = {indent: json.dumps(NOTEBOOK, indent=indent) for indent in (1, 2, None)}


@pytest.mark.parametrize("indent", FORMS)
def test_the_result_below_a_relevant_cell_is_kept(indent: int | None) -> None:
    result = condense_structurally(FORMS[indent], 200, "which accuracy did the model reach?")
    shown = result.text.split("\n")
    assert result.kind == "notebook"
    assert "print(model.accuracy(test))" in shown
    assert "0.9317" in shown
    assert shown.index("cells[41] code [41]:") < shown.index("0.9317")


def test_without_a_question_the_exception_is_kept() -> None:
    assert "OSError: disk full" in condense_structurally(FORMS[1], 200).text.split("\n")


def test_an_image_is_named_with_its_size() -> None:
    output = condense_structurally(FORMS[1], 300, "plot(history)").text
    assert "image/png, 9,900 characters" in output
    assert "iVBORw0KGgo" not in output


def test_units_are_lines_of_the_source_and_know_where_they_are() -> None:
    text = FORMS[1]
    lines = text.split("\n")
    reading = notebooks.read(text, Focus.parse("accuracy"), 500)
    assert reading is not None
    assert any(unit.text == "    # indented remark" for unit in reading.units)
    for unit in reading.units:
        if unit.score >= 0 and not unit.text.startswith("image/") and "OSError" not in unit.text:
            assert (
                unit.text.strip() in json.loads(f"[{lines[unit.first - 1].strip().rstrip(',')}]".replace("[[", "["))[0]
            )


@pytest.mark.parametrize(
    "text",
    [
        FORMS[1][:4_000],
        '{"cells": 3, "cell_type": 1}',
        '{"cells": [1, 2], "cell_type": ""}',
        '{"cells": [{"cell_type": "code", "source": 5, "outputs": [{"data": {"image/png": 7}, "text": {}}]}]}',
        '{"cells": [{"cell_type": null, "outputs": {}}]}',
        json.dumps({"cells": [{"rows": 3}], "sheet": "a"}),
    ],
)
def test_other_json_is_declined_or_survives(text: str) -> None:
    reading = notebooks.read(text, Focus.parse("x"), 100)
    assert reading is None or reading.kind == "notebook"


def test_brackets_between_lines_of_a_cell_are_no_gap() -> None:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": [f"## Step {at}\n", f"We load the data of week {at}."]}
        for at in range(60)
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)

    condensed = condense_structurally(text, 250, "")

    assert condensed.text.startswith("cells[0] markdown:\n## Step 0\n")
    for first, second in zip(lines := condensed.text.split("\n"), lines[1:], strict=False):
        assert not (first.startswith("cells[") and second == "…")
    lost = {at for first, last in condensed.account.lost for at in range(first, last + 1)}
    source = text.split("\n")
    assert all(source[at - 1].strip(' "\\n,') not in condensed.text for at in lost if "Step" in source[at - 1])
