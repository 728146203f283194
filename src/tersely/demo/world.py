"""A simulated, healthy cluster: services, nodes, pods, configuration and log lines.

Drawn from a seed: every process with the same seed and time sees the same cluster.
Faults are added by `causes` and `decoys`; output is rendered by `kubernetes`, `logs`
and `metrics`.
"""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

LogFormat = Literal["java", "go", "node", "python", "nginx", "klog"]
"""The log format of a service."""

Workload = Literal["Deployment", "DaemonSet"]

_THEMES = {
    "shop": (
        "storefront checkout orders payments inventory pricing catalog search accounts mailer shipping reviews "
        "promotions"
    ),
    "bank": (
        "portal transfers ledger cards accounts limits fraud-check statements fx-rates onboarding documents loans audit"
    ),
    "travel": (
        "web-booking bookings fares seats loyalty itineraries baggage check-in refunds geocoder invoices crew-portal"
    ),
    "media": (
        "player playlists entitlements transcoder subtitles billing profiles ingest thumbnails watch-history licences"
    ),
}
EDGE = "edge-gateway"
IDENTITY = "identity"
STAGING = "staging"


@dataclass(frozen=True)
class Service:
    name: str
    namespace: str
    log_format: LogFormat
    workload: Workload = "Deployment"
    replicas: int = 2
    port: int = 8080
    calls: tuple[str, ...] = ()
    """The services it calls, in its own namespace."""

    database: str = ""
    """The database it writes to; empty when it has none."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def host(self) -> str:
        return f"{self.name}.{self.namespace}.svc.cluster.local"


@dataclass(frozen=True)
class Rollout:
    """One revision of a service: image, time and change description."""

    revision: int
    at: datetime
    image: str
    memory: str
    change: str
    template_hash: str


@dataclass(frozen=True)
class Ending:
    """The last termination of a container."""

    reason: str
    exit_code: int
    at: datetime
    lasted: timedelta


@dataclass
class Pod:
    name: str
    service: Service
    node: str
    ip: str
    image: str
    memory: str
    created: datetime
    phase: Literal["Running", "Pending", "Failed"] = "Running"
    is_ready: bool = True
    restarts: int = 0
    probe_path: str = "/healthz"
    waiting: tuple[str, str] | None = None
    """Reason and message, if the container is waiting."""

    last_ending: Ending | None = None
    reason: str = ""
    message: str = ""
    """Of the pod, e.g. Evicted."""

    serves_until: datetime | None = None
    """When it stopped serving requests; after that, only a cause adds log lines. None: it is serving."""


@dataclass(frozen=True)
class Condition:
    status: Literal["True", "False"]
    reason: str
    message: str
    since: datetime


@dataclass
class Node:
    name: str
    ip: str
    memory_gib: int
    booted: datetime
    conditions: dict[str, Condition] = field(default_factory=dict)
    """Conditions that differ from those of a healthy node."""


@dataclass(frozen=True)
class Event:
    namespace: str
    kind: str
    name: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    first: datetime
    last: datetime
    count: int
    source: str = "kubelet"


@dataclass(frozen=True)
class LogLine:
    """A log line that is not routine."""

    pod: Pod
    at: datetime
    level: Literal["INFO", "WARN", "ERROR", "FATAL"]
    message: str
    trace: bool = False
    """Whether a stack trace follows, in languages that write one."""


@dataclass(frozen=True)
class Shift:
    """A changed metric of one service, pod or node, from `since` on."""

    metric: str
    of: str
    since: datetime
    value: float


@dataclass(frozen=True)
class ConfigChange:
    at: datetime
    by: str
    key: str
    before: str
    after: str


@dataclass
class World:
    seed: int
    now: datetime
    namespace: str
    """The production namespace."""

    services: dict[str, Service]
    nodes: list[Node]
    pods: list[Pod]
    rollouts: dict[str, list[Rollout]]
    config: dict[str, dict[str, str]]
    """Per service, the entries of its ConfigMap."""

    config_changes: dict[str, list[ConfigChange]]
    environment: dict[str, dict[str, str]]
    """Per service, the environment variables of its containers, with secrets in plain text."""

    events: list[Event] = field(default_factory=list)
    log_lines: list[LogLine] = field(default_factory=list)
    shifts: list[Shift] = field(default_factory=list)

    def chance(self, what: str) -> random.Random:
        """A random generator per purpose, so that drawing one thing does not change another."""
        return random.Random(f"{self.seed}/{what}")

    def production(self) -> list[Service]:
        return [service for service in self.services.values() if service.namespace == self.namespace]

    def callers_of(self, service: Service) -> list[Service]:
        return [other for other in self.production() if service.name in other.calls]

    def pods_of(self, service: Service) -> list[Pod]:
        return [pod for pod in self.pods if pod.service.key == service.key]

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def secrets(self) -> list[str]:
        """All values that must be masked."""
        return [
            value
            for entries in self.environment.values()
            for name, value in entries.items()
            if name.endswith(("_PASSWORD", "_API_KEY", "_TOKEN"))
        ]


_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


def suffix(chance: random.Random, length: int = 5) -> str:
    return "".join(chance.choices(_SUFFIX, k=length))


def draw_world(seed: int, now: datetime) -> World:
    """Draw a healthy cluster."""
    chance = random.Random(f"{seed}/world")
    theme = chance.choice(sorted(_THEMES))
    namespace = chance.choice([theme, f"{theme}-prod", "production"])
    services = {service.key: service for service in [*_services(chance, theme, namespace), *_infrastructure()]}
    nodes = _nodes(chance, now)
    world = World(
        seed=seed,
        now=now,
        namespace=namespace,
        services=services,
        nodes=nodes,
        pods=[],
        rollouts={},
        config={},
        config_changes={},
        environment={},
    )
    for service in services.values():
        _deploy(world, service)
    return world


def _services(chance: random.Random, theme: str, namespace: str) -> list[Service]:
    names = _THEMES[theme].split()
    log_formats: tuple[LogFormat, ...] = ("java", "go", "node", "python")
    found = [Service(EDGE, namespace, "nginx", replicas=3, port=8443, calls=tuple(names[:4]))]
    for place, name in enumerate(names):
        behind = names[place + 1 : place + 6]
        calls = tuple(sorted(chance.sample(behind, min(len(behind), chance.randint(1, 3)))))
        found.append(
            Service(
                name,
                namespace,
                chance.choice(log_formats),
                replicas=chance.randint(3, 5),
                port=chance.choice((8080, 8000, 3000, 9000)),
                calls=(*calls, IDENTITY),
                database=f"{name}-db" if chance.random() < 0.6 else "",
            )
        )
    found.append(Service(IDENTITY, namespace, "go", replicas=3, port=9000, database="identity-db"))
    found += [Service(name, STAGING, chance.choice(log_formats), replicas=1) for name in chance.sample(names, 5)]
    return found


def _infrastructure() -> list[Service]:
    return [
        Service("coredns", "kube-system", "klog", replicas=2, port=53),
        Service("kube-proxy", "kube-system", "klog", "DaemonSet", port=10256),
        Service("node-problem-detector", "kube-system", "klog", "DaemonSet", port=20256),
        Service("metrics-server", "kube-system", "klog", replicas=1, port=10250),
        Service("cert-manager", "cert-manager", "klog", replicas=1, port=9402),
        Service("node-exporter", "monitoring", "klog", "DaemonSet", port=9100),
        Service("prometheus", "monitoring", "go", replicas=2, port=9090),
    ]


def _nodes(chance: random.Random, now: datetime) -> list[Node]:
    zone = chance.choice(("eu-central-1", "eu-west-2", "us-east-1", "ap-south-1"))
    names = [
        f"ip-10-{chance.randint(0, 99)}-{chance.randint(1, 250)}-{chance.randint(2, 250)}.{zone}.compute.internal"
        for _ in range(7)
    ]
    return [
        Node(
            name,
            name.removeprefix("ip-").split(".")[0].replace("-", "."),
            chance.choice((32, 64)),
            now - timedelta(days=chance.randint(9, 80)),
        )
        for name in names
    ]


def _deploy(world: World, service: Service) -> None:
    chance = world.chance(f"deploy/{service.key}")
    version = f"{chance.randint(1, 9)}.{chance.randint(0, 40)}"
    memory = chance.choice(("512Mi", "768Mi", "1Gi", "2Gi"))
    history = []
    at = world.now - timedelta(days=chance.uniform(12, 40))
    first_patch = chance.randint(0, 12)
    for patch, revision in enumerate(range(chance.randint(8, 30), 999), start=first_patch):
        history.append(
            Rollout(
                revision,
                at,
                image_of(service, f"{version}.{patch}"),
                memory,
                f"release {version}.{patch}",
                suffix(chance, 9),
            )
        )
        at += timedelta(days=chance.uniform(2, 9))
        if at > world.now - timedelta(days=1) or len(history) == 6:
            break
    world.rollouts[service.key] = history
    world.environment[service.key] = _environment(chance, service)
    world.config[service.key] = _config(chance, service)
    world.config_changes[service.key] = [
        ConfigChange(world.now - timedelta(days=chance.uniform(5, 50)), _person(chance), "log.level", "debug", "info")
    ]
    replace_pods(world, service, chance)


def replace_pods(world: World, service: Service, chance: random.Random) -> list[Pod]:
    """Replace the pods of a service by new ones of the latest revision."""
    latest = world.rollouts[service.key][-1]
    world.pods = [pod for pod in world.pods if pod.service.key != service.key]
    homes = (
        world.nodes
        if service.workload == "DaemonSet"
        else chance.sample(world.nodes, min(service.replicas, len(world.nodes)))
    )
    fresh = []
    for node in homes:
        stem = service.name if service.workload == "DaemonSet" else f"{service.name}-{latest.template_hash}"
        ip = f"10.244.{world.nodes.index(node)}.{chance.randint(2, 254)}"
        created = latest.at + timedelta(seconds=chance.uniform(1, 25))
        fresh.append(Pod(f"{stem}-{suffix(chance)}", service, node.name, ip, latest.image, latest.memory, created))
    world.pods += fresh
    return fresh


def image_of(service: Service, tag: str) -> str:
    return f"registry.example.net/{service.namespace}/{service.name}:{tag}"


def _person(chance: random.Random) -> str:
    return chance.choice(("m.okafor", "c.lind", "j.alvarez", "s.tanaka", "p.novak", "deploy-bot"))


def _environment(chance: random.Random, service: Service) -> dict[str, str]:
    found = {"LOG_LEVEL": "info", "OTEL_SERVICE_NAME": service.name, "GOMAXPROCS": "2"}
    found |= {
        f"{name.upper().replace('-', '_')}_URL": f"http://{name}.{service.namespace}.svc.cluster.local:8080"
        for name in service.calls
    }
    if service.database:
        found["DB_HOST"] = f"{service.database}.data.svc.cluster.local"
        found["DB_USER"] = f"{service.name.replace('-', '_')}_rw"
        found["DB_PASSWORD"] = "".join(chance.choices("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789", k=24))
    if chance.random() < 0.4:
        found["NOTIFY_API_KEY"] = "".join(chance.choices("0123456789abcdef", k=40))
    return found


def _config(chance: random.Random, service: Service) -> dict[str, str]:
    return {
        "log.level": "info",
        "http.read_timeout": f"{chance.choice((5, 10, 15))}s",
        "http.max_body": "4MiB",
        "retry.max_delay": f"{chance.choice((2, 5, 30))}s",
        "retry.attempts": str(chance.randint(2, 5)),
        "cache.ttl": f"{chance.choice((60, 120, 300))}s",
        "cache.max_entries": str(chance.choice((10_000, 50_000))),
        "db.pool_max": str(chance.choice((50, 80, 100))),
        "feature.new_totals": chance.choice(("true", "false")),
        "sampling.ratio": "0.05",
    }
