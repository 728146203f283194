"""Limits in a question: which values they are meant for, and which only happen to be larger."""

import json

from tersely.condensing.focus import Focus, scan
from tersely.condensing.structural import condense_within as condense

ALERT = "HighErrorRate shop/orders: More than 5% of the requests to orders failed over the last 10 minutes."


def test_a_limit_in_percent_is_not_about_dates() -> None:
    def conditions(n: int, disk: str) -> list[dict[str, str]]:
        return [
            {"lastHeartbeatTime": f"2026-11-15T08:18:{n + 10:02d}Z",
             "lastTransitionTime": f"2026-11-{n + 1:02d}T08:19:00Z", "reason": reason,
             "status": "False" if reason.startswith("KubeletHasNo") or reason.startswith("KubeletHasSuff") else "True",
             "type": kind}
            for kind, reason in (("MemoryPressure", "KubeletHasSufficientMemory"), ("DiskPressure", disk), ("Ready",
            "KubeletReady"))
        ]  # fmt: skip

    nodes = [
        {
            "metadata": {"name": f"node-{n}"},
            "status": {"conditions": conditions(n, "KubeletHasDiskPressure" if n == 4 else "KubeletHasNoDiskPressure")},
        }
        for n in range(14)
    ]
    assert "KubeletHasDiskPressure" in condense(json.dumps({"items": nodes}, indent=4), budget=400, focus=ALERT).text


def test_how_much_and_how_long_are_hardly_words_to_look_for() -> None:
    found = scan(["revision=5 of 10", "request failed"], Focus.parse(ALERT))
    assert found.relevance[1] > 5 * found.relevance[0]
