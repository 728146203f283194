"""Records that answer a question: complete, identified, and counted, in JSON, YAML, tables and JSON lines."""

import json
from random import Random

from tersely.condensing.structural import condense_structurally

RULES = {
    "S307": "Use of possibly insecure function; consider a literal parser",
    "PLR2004": "Magic value used in comparison",
    "PLC0415": "Import should be at the top-level of a file",
    "S110": "Exception is caught and passed over, consider logging it",
}


def findings(count: int = 160, planted: int = 97) -> str:
    """Findings in the manner of SARIF: the message of a result is far from its file and line."""
    draw = Random(14)
    results = []
    for number in range(count):
        rule = "S307" if number == planted else draw.choice(["PLR2004", "PLC0415", "S110"])
        place = {
            "artifactLocation": {"uri": f"file:///srv/app/lib/module_{number % 23}/part_{number}.py"},
            "region": {"startLine": 1000 + number, "startColumn": draw.randrange(1, 60)},
        }
        results.append(
            {
                "level": "error",
                "locations": [{"physicalLocation": place}],
                "message": {"text": RULES[rule]},
                "ruleId": rule,
            }
        )
    return json.dumps({"version": "2.1.0", "runs": [{"results": results}]}, indent=1)


def test_a_finding_that_answers_is_shown_with_its_place() -> None:
    for budget in (500, 1000, 2000):
        text = condense_structurally(findings(), budget, "Is an insecure function used, and where?").text
        assert "module_5/part_97.py" in text
        assert "startLine: 1097" in text


def test_a_record_that_refers_to_the_answer_is_shown_with_it() -> None:
    rules = [{"id": f"R{number:03}", "text": f"Check number {number} of the style guide"} for number in range(60)]
    rules[31]["text"] = "Pseudo-random generators are not suitable for cryptography"
    results = [
        {"rule": f"R{number % 30:03}", "where": {"file": f"src/part_{number}.c", "line": 7 * number}}
        for number in range(200)
    ]
    results[150]["rule"] = "R031"
    text = condense_structurally(
        json.dumps({"rules": rules, "results": results}), 500, "Where are pseudo-random generators used?"
    ).text
    assert "src/part_150.c" in text
    assert "line: 1050" in text
