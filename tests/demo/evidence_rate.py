"""How often what gives a cause away survives condensing: `python -m tests.demo.evidence_rate [seeds per cause]`.

For fresh seeds and every cause, each output of the cluster in which the decisive sign
can be seen is condensed to 1,000 tokens with the alert as focus, and looked at again.
"""

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator

from tersely import condense
from tersely.demo import kubernetes, logs, metrics
from tersely.demo.causes import CAUSES
from tersely.demo.incidents import Incident, draw_incident
from tersely.demo.world import Service, World, draw_world

BUDGET = 1_000


def outputs(world: World, victim: Service) -> Iterator[tuple[str, str]]:
    """What the obvious questions to the cluster show."""
    yield "list_pods()", kubernetes.pods_json(world)
    yield "list_pods(namespace)", kubernetes.pods_json(world, namespace=victim.namespace)
    yield "list_pods(service)", kubernetes.pods_json(world, service=victim.name)
    yield "list_nodes()", kubernetes.nodes_json(world)
    yield "get_events()", kubernetes.events_table(world)
    yield "get_events(about)", kubernetes.events_table(world, about=victim.name)
    yield "get_logs(service)", "\n".join(logs.lines_of(world, victim, lines=3_000)) + "\n"
    yield "get_config", kubernetes.config_yaml(world, victim)
    yield "get_node_metrics()", metrics.node_exposition(world)


def signs(incident: Incident, text: str) -> set[str]:
    """The decisive signs that can be read in a text, when it also names what they happen to."""
    if not any(name in text for name in incident.cause.subjects):
        return set()
    return {found.group().lower() for found in re.finditer(incident.cause.sign, text, re.IGNORECASE)}


def measure(seeds: list[int]) -> tuple[dict[str, Counter[str]], list[str]]:
    """Per cause, for each output that shows it: how often it was there, and how often it survived (`… kept`)."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    lost = []
    for act in CAUSES:
        name = act.__name__.replace("_", "-")
        for seed in seeds:
            incident = draw_incident(seed, cause=name)
            # A healthy cluster has a condition DiskPressure too: only what is not in it gives anything away.
            healthy = draw_world(seed, incident.world.now)
            usual = dict(outputs(healthy, incident.victim))
            survived = False
            for tool, text in outputs(incident.world, incident.victim):
                telling = signs(incident, text) - signs(incident, usual[tool])
                if telling:
                    kept = bool(telling & signs(incident, condense(text, budget=BUDGET, focus=incident.question).text))
                    counted[name][tool] += 1
                    counted[name][f"{tool} kept"] += kept
                    survived = survived or kept
                    if not kept:
                        lost.append(f"{name} seed {seed}: {tool}")
            counted[name]["any"] += 1
            counted[name]["any kept"] += survived
    return counted, lost


if __name__ == "__main__":
    fresh = random.SystemRandom().sample(range(10**6), int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    result, lost = measure(fresh)
    for cause, counts in result.items():
        parts = [
            f"{tool} {counts[f'{tool} kept']}/{number}"
            for tool, number in counts.items()
            if not tool.endswith(" kept") and tool != "any"
        ]
        print(f"{cause:<28} {counts['any kept']}/{counts['any']}   {' · '.join(parts)}")
    kept = sum(counts["any kept"] for counts in result.values())
    print(
        f"\nevidence survives in {kept} of {sum(counts['any'] for counts in result.values())} incidents; lost "
        "outputs, e.g.:"
    )
    print("\n".join(lost[:12]))
