"""An incident of the simulated cluster, drawn from a seed: a cause, decoys, and the alert.

The alert describes only the symptom. The servers (`cluster`, `knowledge`) provide the
evidence; `judge` knows the cause.
"""

import random
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tersely.demo.causes import CAUSES, NEEDS_DATABASE, Cause, ExpectedFinding, Scene
from tersely.demo.decoys import DECOYS, HISTORY, callers_fail
from tersely.demo.world import EDGE, IDENTITY, Event, Service, World, draw_world, suffix

_ALERTS = {
    "errors": (
        "HighErrorRate",
        "Requests to {service} fail",
        "More than 5% of the requests to {service} failed over the last 10 minutes.",
    ),
    "unavailable": (
        "ReplicasUnavailable",
        "{service} has too few ready replicas",
        "{service} has had fewer ready replicas than desired for more than 10 minutes, and callers see errors.",
    ),
    "latency": (
        "HighLatency",
        "{service} answers slowly",
        "The 99th percentile of the response time of {service} has been above 5 s for 10 minutes.",
    ),
}
"""Per symptom: name, summary and description of the alert."""


@dataclass(frozen=True)
class Incident:
    seed: int
    world: World
    victim: Service
    began: datetime
    cause: Cause
    decoys: tuple[ExpectedFinding, ...]

    @property
    def alert(self) -> dict[str, Any]:
        """The body of an Alertmanager webhook."""
        name, summary, description = _ALERTS[self.cause.symptom]
        labels = {
            "alertname": name,
            "cluster": "demo",
            "namespace": self.victim.namespace,
            "service": self.victim.name,
            "severity": "critical",
        }
        annotations = {
            "summary": summary.format(service=self.victim.name),
            "description": description.format(service=self.victim.name),
        }
        started = self.world.now - timedelta(minutes=4)
        alert = {
            "status": "firing",
            "labels": labels,
            "annotations": annotations,
            "startsAt": started.isoformat(),
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus.monitoring.svc.cluster.local:9090/graph",
            "fingerprint": f"{self.world.chance('fingerprint').getrandbits(64):016x}",
        }
        return {
            "version": "4",
            "groupKey": f'{{}}:{{alertname="{name}", service="{self.victim.name}"}}',
            "truncatedAlerts": 0,
            "status": "firing",
            "receiver": "tersely",
            "groupLabels": {"alertname": name, "service": self.victim.name},
            "commonLabels": labels,
            "commonAnnotations": annotations,
            "externalURL": "http://alertmanager.monitoring.svc.cluster.local:9093",
            "alerts": [alert],
        }

    @property
    def question(self) -> str:
        """The alert in one line."""
        alert = self.alert["alerts"][0]
        return (
            f"{alert['labels']['alertname']} {self.victim.namespace}/{self.victim.name}: "
            f"{alert['annotations']['description']}"
        )


def this_minute() -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0)


def draw_incident(seed: int, now: datetime | None = None, *, cause: str | None = None) -> Incident:
    """Draw an incident; `cause` selects one by name."""
    chance = random.Random(f"{seed}/incident")
    world = draw_world(seed, now or this_minute())
    drawn = chance.choice(CAUSES)
    act = next((known for known in CAUSES if known.__name__.replace("_", "-") == cause), drawn) if cause else drawn
    possible = [
        service
        for service in world.production()
        if service.name not in (EDGE, IDENTITY)
        and world.callers_of(service)
        and (service.database or act not in NEEDS_DATABASE)
    ]
    victim = chance.choice(possible)
    _daily_events(world)

    scene = Scene(
        world,
        chance,
        victim,
        world.now - timedelta(minutes=chance.uniform(18, 38)),
        error_interval=chance.choice((3, 8, 20)),
    )
    drawn_cause = act(scene)
    callers_fail(scene, drawn_cause)

    # Decoys affect other services: on the victim itself, even an expert could not tell them from the cause.
    others = [
        service for service in world.production() if service.name not in (EDGE, IDENTITY, victim.name, *victim.calls)
    ]
    elsewhere = chance.sample(others, len(others))
    findings = []
    for place, decoy in enumerate(chance.sample(DECOYS, 7)):
        findings.append(
            decoy(Scene(world, chance, elsewhere[place % len(elsewhere)], scene.began, faulty_service=victim.name))
        )
    return Incident(seed, world, victim, scene.began, drawn_cause, (*findings, HISTORY))


def server_commands(seed: int, now: datetime) -> dict[str, list[str]]:
    """How to start the two MCP servers of an incident, each as a process that speaks on its standard input and
    output.
    """
    return {
        name: [sys.executable, "-m", f"tersely.demo.{name}", "--seed", str(seed), "--at", now.isoformat()]
        for name in ("cluster", "knowledge")
    }


def _daily_events(world: World) -> None:
    """Routine cluster events of the last hour."""
    chance = world.chance("daily-events")
    for minutes in range(58, 0, -2):
        job = f"{chance.choice(('heartbeat', 'sync-rates', 'expire-carts', 'rotate-logs'))}-{29_700_000 - minutes}"
        at = world.now - timedelta(minutes=minutes, seconds=chance.uniform(0, 50))
        pod, node = f"{job}-{suffix(chance)}", chance.choice(world.nodes).name
        for reason, kind, name, message, source in (
            ("SuccessfulCreate", "CronJob", job.rpartition("-")[0], f"Created job {job}", "cronjob-controller"),
            ("SuccessfulCreate", "Job", job, f"Created pod: {pod}", "job-controller"),
            ("Scheduled", "Pod", pod, f"Successfully assigned {world.namespace}/{pod} to {node}", "default-scheduler"),
            (
                "Pulled",
                "Pod",
                pod,
                'Container image "registry.example.net/tools/cron:1.9.0" already present on machine',
                "kubelet",
            ),
            ("Created", "Pod", pod, "Created container: job", "kubelet"),
            ("Started", "Pod", pod, "Started container job", "kubelet"),
            ("Completed", "Job", job, "Job completed", "job-controller"),
        ):
            at += timedelta(seconds=chance.uniform(0, 2))
            world.events.append(Event(world.namespace, kind, name, "Normal", reason, message, at, at, 1, source))
    for service in world.production():
        at = world.now - timedelta(minutes=chance.uniform(2, 58))
        message = f"New size: {service.replicas}; reason: All metrics below target"
        world.events.append(
            Event(
                world.namespace,
                "HorizontalPodAutoscaler",
                service.name,
                "Normal",
                "SuccessfulRescale",
                message,
                at,
                at,
                1,
                "horizontal-pod-autoscaler",
            )
        )
