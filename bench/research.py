"""The research pipeline without a model: fifteen pages in, 25,000 tokens out, and the share of facts that remains.

Five random seeds generate five small webs; each is searched and crawled through its
MCP server and condensed by the pipeline, for a schema with plain descriptions. A
planted fact counts if its name and value are in one line of the output. Lines of
menus, banners, adverts and footers are counted too. For comparison, at the same size:
the head of every page; and an agent that passes the 5,000 characters it sees to a
summarizer that returns them.

    python -m bench.research              five fresh seeds
    python -m bench.research --seeds 1 2  these
    python -m bench.research --smoke      one
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import anyio

from bench.arguments import parser
from bench.bars import Bars
from tersely.agent.options import AgentOptions
from tersely.app.sessions import sessions_app
from tersely.mcp.servers import ServerOptions, TransportOptions
from tersely.research.work import result_of
from tersely.sessions.chains import ChainOptions, StageOptions
from tersely.sessions.intake import Submission
from tersely.settings.model import Settings
from tersely.store import sessions as rows
from tersely.store.events import channel_of
from tersely.text.tokens import O200K
from tests.fakes.web.pages import SmallWeb, draw_web

SEEN_BY_THE_AGENT = 5_000
TOPICS = {
    "people": "Who is who in {subject}: people and what they are called",
    "allegiances": "Factions of {subject}, oaths and allegiances",
    "dates": "Timeline, calendar and chronology of {subject}",
    "events": "Battles and other great events of {subject} and who led them",
    "items": "Relics, artefacts and famous items of {subject} and their keepers",
}
TEXT = {"type": "string"}


def _records(**fields: object) -> dict[str, object]:
    return {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": TEXT, **fields}}}


SCHEMA = {
    "type": "object",
    "properties": {
        "people": _records(byname=TEXT, allegiance={**TEXT, "description": "faction that the person is sworn to"}),
        "events": _records(date=TEXT, leader={**TEXT, "description": "who led it"}),
        "items": _records(keeper={**TEXT, "description": "in whose hands it is"}),
    },
}


def there(web: SmallWeb, text: str) -> float:
    """The share of the planted facts that are in the text, each in one line."""
    lines = text.split("\n")
    claims = web.country.claims
    return sum(any(claim.about in line and claim.value in line for line in lines) for claim in claims) / len(claims)


def boilerplate(web: SmallWeb, text: str) -> float:
    """The share of the lines around the articles that are in the text."""
    lines = {line.strip("*#|- ") for line in text.split("\n")}
    known = list(dict.fromkeys(line for page in web.pages for line in page.boilerplate))
    # A word such as "Home" occurs in many sentences; alone on a line it is part of the menu.
    return sum(line in lines or (len(line) >= 20 and line in text) for line in known) / len(known)


async def researched(seed: int, folder: Path) -> tuple[str, dict[str, object]]:
    """The accumulated content and the result."""
    server = ServerOptions(
        transport=TransportOptions(command=sys.executable, args=("-m", "tests.fakes.web.server", "--seed", str(seed))),
        start_timeout=60,
    )
    base = Settings.load({"TERSELY_DATA_DIR": str(folder)})
    settings = base.model_copy(
        update={
            "mcp_servers": {"search": server},
            "agents": {"researcher": AgentOptions(mcp_servers=("search",))},
            "chains": {
                "research": ChainOptions(
                    alert_types=("research",),
                    kind="research",
                    stages=(StageOptions(name="research", agent="researcher"),),
                )
            },
        }
    )
    data = {"subject": draw_web(seed).subject, "topics": TOPICS, "schema": SCHEMA}
    async with sessions_app(settings, version="bench") as parts:
        accepted = await parts.intake.submit(Submission(data=data, alert_type="research"), principal="bench")
        async with parts.bus.subscribe(channel_of(accepted.session_id), 0) as events:
            async for payload in events:
                if '"session.status"' in payload and any(
                    f'"{status}"' in payload for status in ("completed", "failed", "timed_out")
                ):
                    break
        async with parts.database.reading() as db:
            session = await rows.find(db, accepted.session_id)
        result = await result_of(parts.kept, session)
        if result is None:
            raise SystemExit(f"seed {seed}: {session.reason}")
        texts = [await parts.kept.load(page["content_handle"], session.results_scope) for page in result["pages"]]
        return "\n".join(texts), result


def row(name: str, web: SmallWeb, text: str, note: str = "") -> str:
    return (
        f"    {name:28} {O200K.count(text):>7,} tokens   facts {there(web, text):6.1%}   boilerplate "
        f"{boilerplate(web, text):6.1%}   {note}"
    )


def main(seeds: Iterable[int], to: Path | None = None) -> None:
    bars = Bars()
    worst, most, dirtiest = 1.0, 0, 0.0
    for seed in seeds:
        web = draw_web(seed)
        pages = [page.markdown for page in web.pages]
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            text, result = anyio.run(researched, seed, Path(folder))
        seconds = time.perf_counter() - started
        size = O200K.count(text)
        facts = result["facts"]
        assert isinstance(facts, dict)
        found = sum(map(len, facts.values()))
        whole = "\n".join(pages)
        print(
            f"seed {seed}: {len(web.pages)} pages, {O200K.count(whole):,} tokens, {len(web.country.claims)} facts "
            "planted"
        )
        print(
            row("tersely research", web, text, f"{seconds:.0f} s, {len(result['pages'])} pages, {found} facts by rules")
        )  # type: ignore[arg-type]
        heads = "\n".join(O200K.head(page, size // len(pages)) for page in pages)
        views = "\n".join(page[:SEEN_BY_THE_AGENT] for page in pages)
        print(row("head of each page", web, heads))
        print(row("5,000-character view by value", web, views))
        for way, shown in (("tersely research", text), ("head of each page", heads), ("5,000 characters", views)):
            bars.add("Facts", f"seed {seed}", way, there(web, shown), unit="share", least=0.95)
            bars.add("Boilerplate", f"seed {seed}", way, boilerplate(web, shown), unit="share", most=0.05)
        worst, most, dirtiest = min(worst, there(web, text)), max(most, size), max(dirtiest, boilerplate(web, text))
    bars.write(to)
    print(f"research: at most {most:,} tokens, at least {worst:.1%} of the facts, at most {dirtiest:.1%} boilerplate")
    if worst < 0.95 or most > 25_000 or dirtiest >= 0.05:
        raise SystemExit(
            "research: the target (25,000 tokens, 95 % of the facts, under 5 % of the boilerplate) was missed"
        )


if __name__ == "__main__":
    options = parser(__doc__, figures=True)
    options.add_argument("--seeds", type=int, nargs="+")
    given = options.parse_args()
    os.environ.pop("OPENROUTER_API_KEY", None)
    main(given.seeds or ([7] if given.smoke else [random.randrange(1_000_000) for _ in range(5)]), given.json)
