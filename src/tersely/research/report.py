"""A research result as markdown: facts, contradictions and gaps."""

from collections.abc import Mapping
from typing import Any

MOST_SHOWN = 40


def as_markdown(result: Mapping[str, Any], handle: str) -> str:
    tokens, usage = result["tokens"], result["usage"]
    facts = {path: found for path, found in result["facts"].items() if found}
    count = sum(map(len, facts.values()))
    lines = [
        f"# {result['subject']}",
        f"{count} facts and {len(result['passages'])} passages from {len(result['pages'])} pages; "
        f"{tokens['pages']:,} tokens of pages became {tokens['accumulated']:,}.",
    ]
    if result["reason"]:
        lines.append(f"\n**Stopped early.** {result['reason']}")
    for path, found in facts.items():
        lines.append(f"\n## {path} ({len(found)})")
        lines += [f"- {_record(one['value'])} — {_citation(one['sources'])}" for one in found[:MOST_SHOWN]]
        if len(found) > MOST_SHOWN:
            lines.append(f"- … and {len(found) - MOST_SHOWN} more")
    if result["contradictions"]:
        lines.append("\n## Contradictions")
        for one in result["contradictions"][:MOST_SHOWN]:
            values = "; ".join(f"{value['value']} ({_citation(value['sources'])})" for value in one["values"])
            lines.append(f"- {one['about']}, {one['field']}: {values}")
    if result["gaps"]:
        lines.append("\n## Missing")
        lines += [f"- {gap}" for gap in result["gaps"][:MOST_SHOWN]]
    if result["refused"]:
        lines.append(
            f"\n{len(result['refused'])} claims were refused because no page states them or they do not fit the schema."
        )
    if usage["model"]:
        price = f", ${usage['price_usd']:.4f}" if usage["price_usd"] is not None else ""
        lines.append(
            f"\n{usage['model']}: {usage['model_calls']} calls, {usage['input_tokens'] + usage['output_tokens']:,} "
            f"tokens{price}."
        )
    lines.append(f"\nThe whole result is kept as {handle}.")
    return "\n".join(lines)


def _record(value: Mapping[str, Any]) -> str:
    first, *others = value.items()
    fields = "; ".join(f"{name}: {one}" for name, one in others)
    return f"**{first[1]}**" + (f" · {fields}" if fields else "")


def _citation(sources: list[Mapping[str, Any]]) -> str:
    first = sources[0]
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    low, high = first["lines"]
    return f"{first['url']} line{'' if low == high else 's'} {low}{'' if low == high else f'-{high}'}{more}"
