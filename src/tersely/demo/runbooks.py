"""Pages of a simulated knowledge base: runbooks with menus around them, and past incidents.

As in real ones, each page has a short useful core between navigation, contact tables
and transcripts of old sessions. None of them knows the current cause.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import resources
from typing import Any

import yaml

from tersely.demo.incidents import Incident
from tersely.demo.world import World, suffix


@dataclass(frozen=True)
class RunbookPage:
    id: str
    title: str
    section: str
    tags: tuple[str, ...]
    core: str
    """The useful part of the page; the rest is generated around it."""


@dataclass(frozen=True)
class PastIncident:
    number: int
    at: datetime
    service: str
    title: str
    cause: str
    """Name of the cause, as in `causes.Cause.name`."""

    told: str


_WRITTEN: dict[str, Any] = yaml.safe_load(
    (resources.files("tersely.demo") / "runbooks.yaml").read_text(encoding="utf-8")
)


def pages(world: World) -> list[RunbookPage]:
    found = [
        RunbookPage(page["id"], page["title"], section, tuple(page["tags"].split()), page["text"])
        for section in ("Troubleshooting", "Alerts")
        for page in _WRITTEN[section]
    ]
    for service in world.production():
        needs = ", ".join(service.calls) or "nothing"
        core = (
            f"{service.name} runs in {service.namespace} with {service.replicas} replicas and listens on "
            f"{service.port}. It needs {needs}. "
            f"{'Its data are in ' + service.database + '. ' if service.database else ''}"
            "Restarting it is safe outside of business hours; ask its owners otherwise."
        )
        found.append(
            RunbookPage(
                f"service-{service.name}", f"Service: {service.name}", "Services", ("service", service.name), core
            )
        )
    found += [
        RunbookPage(
            title.lower().replace(" ", "-"),
            title,
            "General",
            tuple(title.lower().split()),
            f"{title}: how we do it, and why.",
        )
        for title in _WRITTEN["General"]
    ]
    return found


def search(world: World, query: str, *, limit: int = 8) -> list[RunbookPage]:
    """The pages that share the most words with the query."""
    words = {word.strip(".,:;!?()/").lower() for word in query.replace("-", " ").replace("/", " ").split()}

    def score(page: RunbookPage) -> int:
        title = set(page.title.lower().replace(":", "").split())
        return (
            3 * len(words & title)
            + 2 * len(words & {tag.lower() for tag in page.tags})
            + len(words & set(page.core.lower().split()))
        )

    ranked = sorted(pages(world), key=lambda page: (-score(page), page.id))
    return [page for page in ranked if score(page) > 0][:limit]


def render(world: World, page: RunbookPage) -> str:
    """The whole page, with its menu."""
    chance = world.chance(f"page/{page.id}")
    parts = [
        _menu(world),
        (
            f"# {page.title}\n\n*{page.section} · last edited "
            f"{world.now - timedelta(days=chance.randint(8, 400)):%Y-%m-%d}*\n"
        ),
        f"## In short\n\n{page.core}\n",
        "## Before you start\n\n- Say in the incident channel that you are on it.\n"
        "- Note the time the alert began; everything is measured from there.\n"
        "- Change nothing until you know what you see.\n",
        "## A session of the past\n\nKept because newcomers find it useful; the names are made up.\n\n```\n"
        + _transcript(chance)
        + "```\n",
        _contacts(world, chance),
        _changes(world, chance),
        _footer(),
    ]
    return "\n".join(parts)


def past_incidents(incident: Incident) -> list[PastIncident]:
    """Incidents of the last months, newest first; never with the current cause."""
    world = incident.world
    chance = world.chance("past")
    names = [service.name for service in world.production()]
    found: list[PastIncident] = []
    at = world.now - timedelta(days=chance.uniform(9, 14))
    number = chance.randint(2_000, 4_000)
    while len(found) < 40:
        # The faulty service has past incidents too: they are the closest decoys.
        service = incident.victim.name if chance.random() < 0.25 else chance.choice(names)
        topic = chance.choice(_WRITTEN["Troubleshooting"])
        if (service, topic["id"]) == (incident.victim.name, incident.cause.name):
            continue
        minutes = chance.randint(12, 190)
        remedy = chance.choice(("rolling back", "replacing the node", "fixing the configuration", "raising the limit"))
        told = (
            f"**{service}** was affected for {minutes} minutes. {topic['text'].split('. ')[0]}. Detected by an alert, "
            f"mitigated by {remedy}, resolved on "
            f"{at + timedelta(minutes=minutes):%Y-%m-%d %H:%M} UTC. Follow-ups: {chance.randint(1, 5)}, all closed."
        )
        found.append(PastIncident(number, at, service, f"{topic['title']} ({service})", topic["id"], told))
        at -= timedelta(days=chance.uniform(2, 12))
        number -= chance.randint(3, 30)
    return found


def render_past(incident: Incident, *, service: str = "", days: int = 365) -> str:
    world = incident.world
    chance = world.chance("past-page")
    earliest = world.now - timedelta(days=days)
    chosen = [past for past in past_incidents(incident) if past.at >= earliest and service in ("", past.service)]
    rows = [
        (
            f"## INC-{past.number}: {past.title}\n\n*{past.at:%Y-%m-%d} · resolved · severity "
            f"{chance.choice((2, 2, 3))}*\n\n{past.told}\n"
        )
        for past in chosen
    ]
    return "\n".join([_menu(world), "# Past incidents\n", *(rows or ["None in this time.\n"]), _footer()])


def _menu(world: World) -> str:
    lines = [
        "[Skip to content](#content) | [Home](/) | [Search](/search) | [Recent changes](/recent) | [Sign out](/logout)",
        "",
    ]
    section = ""
    for page in pages(world):
        if page.section != section:
            section = page.section
            lines.append(f"- **{section}**")
        lines.append(f"  - [{page.title}](/wiki/{section.lower()}/{page.id})")
    return "\n".join([*lines, "", "---", ""])


def _footer() -> str:
    return (
        "\n---\n\nWas this page helpful? [Yes](/feedback?v=1) [No](/feedback?v=0) · [Edit](/edit) · "
        "[History](/history) · [Print](/print)\n"
    )


def _transcript(chance: random.Random) -> str:
    lines = []
    for _ in range(chance.randint(3, 12)):
        lines.append("$ kubectl get pods -n example -o wide")
        for _ in range(chance.randint(20, 45)):
            name = f"{chance.choice(('alpha', 'beta', 'gamma', 'delta'))}-{suffix(chance, 9)}-{suffix(chance)}"
            lines.append(
                f"{name:<32} 1/1   Running   0   {chance.randint(1, 90)}d   "
                f"10.8.{chance.randint(0, 9)}.{chance.randint(2, 250)}"
            )
    return "\n".join(lines) + "\n"


def _contacts(world: World, chance: random.Random) -> str:
    rows = ["## Who owns what\n", "| service | team | channel | pager |", "|---|---|---|---|"]
    for service in world.production():
        team = chance.choice(("core", "growth", "money", "platform", "data"))
        rows.append(f"| {service.name} | {team} | #team-{team} | {team}-primary, then {team}-secondary |")
    return "\n".join([*rows, ""])


def _changes(world: World, chance: random.Random) -> str:
    rows = ["## Changes of this page\n"]
    at = world.now - timedelta(days=10)
    for _ in range(chance.randint(20, 70)):
        who = chance.choice(("m.okafor", "c.lind", "j.alvarez", "s.tanaka", "p.novak"))
        what = chance.choice(
            ("typo", "links", "new owner", "moved", "clearer wording", "removed the old dashboard", "review")
        )
        rows.append(f"- {at:%Y-%m-%d} {who}: {what}")
        at -= timedelta(days=chance.randint(3, 40))
    return "\n".join([*rows, ""])
