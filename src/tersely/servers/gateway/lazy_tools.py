"""Tools that are found instead of listed: with hundreds of tools, their definitions cost more than their results.

A model sees `search_tools` and `call_tool` in place of the tools of servers that are
configured as lazy, or of all servers above a number of tools. A search returns the
definitions that match best, as the server would list them.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MOST_FOUND = 8
_WORD = re.compile(r"[a-z]+|\d+", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")

SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}
CALL: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["name"],
}


def search_description(servers: Sequence[str], tools: int) -> str:
    """The description of `search_tools`: what there is to find."""
    return f"Find tools by what they do; returns their definitions. {tools} tools of: {', '.join(servers)}."


CALL_DESCRIPTION = "Call a tool that search_tools found, with the arguments of its inputSchema."


def search(query: str, definitions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The definitions that match a query best, by rare words; words in a name count twice."""
    known = list(definitions)
    names = [set(_words(str(one["name"]))) for one in known]
    texts = [name | set(_words(str(one.get("description", "")))) for name, one in zip(names, known, strict=True)]
    frequency = Counter(word for text in texts for word in text)
    wanted = _words(query)
    exact = query.strip().lower()

    def score(number: int) -> float:
        weight = 0.0
        for word in wanted:
            # "pods" finds "pod", and "deploy" finds "deployment".
            alike = [one for one in texts[number] if one == word or _are_forms(one, word)]
            if alike:
                rare = max(math.log(1 + len(known) / frequency[one]) for one in alike)
                weight += rare * (2 if names[number] & set(alike) else 1)
        return weight + (100 if str(known[number]["name"]).lower() == exact else 0)

    scores = [score(number) for number in range(len(known))]
    order = sorted((number for number, one in enumerate(scores) if one > 0), key=lambda number: -scores[number])
    return [known[number] for number in order[:MOST_FOUND]]


def found_text(query: str, found: Sequence[Mapping[str, Any]], every: Sequence[str]) -> str:
    """The answer of `search_tools`: a definition per line, or the names there are."""
    if not found:
        return f"No tool matches {query[:200]!r}. There are: {', '.join(sorted(every)[:200])}."
    shown = [{key: one[key] for key in ("name", "description", "inputSchema") if key in one} for one in found]
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in shown)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(_HUMP.sub(" ", text)) if len(word) > 1]


def _are_forms(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) >= 3 and longer.startswith(shorter) and len(longer) - len(shorter) <= 6
