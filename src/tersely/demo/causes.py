"""Causes of incidents in the simulated cluster. Each one changes pods, nodes, events, logs and metrics consistently.

A cause is not written for the condenser or the agent: it changes the cluster as the real
fault would. `ExpectedFinding` recognises a statement that names the cause.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from tersely.demo.world import (
    IDENTITY,
    Condition,
    ConfigChange,
    Ending,
    Event,
    LogLine,
    Pod,
    Rollout,
    Service,
    Shift,
    World,
    image_of,
    replace_pods,
    suffix,
)

Symptom = Literal["errors", "unavailable", "latency"]
Level = Literal["INFO", "WARN", "ERROR", "FATAL"]


@dataclass(frozen=True)
class ExpectedFinding:
    """Matches statements that contain the sign together with one of the subjects."""

    what: str
    """One line, as an engineer on call would write it."""

    sign: str
    """Regular expression of the decisive sign."""

    subjects: tuple[str, ...]
    """Names of the affected objects."""

    def is_named_in(self, statement: str) -> bool:
        return self.shows_in(statement) and self.concerns(statement)

    def shows_in(self, statement: str) -> bool:
        return re.search(self.sign, statement, re.IGNORECASE) is not None

    def concerns(self, statement: str) -> bool:
        return any(re.search(rf"(?<![\w-]){re.escape(subject)}", statement, re.IGNORECASE) for subject in self.subjects)


@dataclass(frozen=True)
class Cause(ExpectedFinding):
    name: str = ""
    symptom: Symptom = "errors"


@dataclass
class Scene:
    """The place and time of a fault: one service, from a point in time."""

    world: World
    chance: random.Random
    victim: Service
    began: datetime
    error_interval: float = 4
    """Seconds between two errors of the affected service."""

    faulty_service: str = ""
    """For decoys: the service with the real fault, whose namesakes must not be changed."""

    @property
    def now(self) -> datetime:
        return self.world.now

    def roll_out(self, change: str, *, tag: str = "", memory: str = "") -> list[Pod]:
        """Deploy a new revision of the victim, with new pods."""
        history = self.world.rollouts[self.victim.key]
        last = history[-1]
        tag = tag or _next_patch(last.image)
        new = Rollout(
            last.revision + 1,
            self.began,
            image_of(self.victim, tag),
            memory or last.memory,
            f"release {tag}{change}",
            suffix(self.chance, 9),
        )
        history.append(new)
        pods = replace_pods(self.world, self.victim, self.chance)
        name = self.victim.name
        message = f"Scaled up replica set {name}-{new.template_hash} to {len(pods)}"
        self.event(
            "Deployment",
            name,
            "Normal",
            "ScalingReplicaSet",
            message,
            first=self.began,
            last=self.began,
            source="deployment-controller",
        )
        return pods

    def event(
        self,
        kind: str,
        name: str,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        count: int = 1,
        first: datetime | None = None,
        last: datetime | None = None,
        source: str = "kubelet",
        namespace: str | None = None,
    ) -> None:
        first = first or self.began + timedelta(seconds=self.chance.uniform(5, 60))
        last = last or self.now - timedelta(seconds=self.chance.uniform(3, 90))
        namespace = self.victim.namespace if namespace is None else namespace
        self.world.events.append(
            Event(namespace, kind, name, type, reason, message, first, max(first, last), count, source)
        )

    def warn(self, kind: str, name: str, reason: str, message: str, **more: object) -> None:
        self.event(kind, name, "Warning", reason, message, **more)  # type: ignore[arg-type]

    def log(
        self,
        pods: list[Pod],
        level: Level,
        message: str | Callable[[], str],
        *,
        every: float,
        since: datetime | None = None,
        trace: bool = False,
    ) -> None:
        """Log a line repeatedly, about every `every` seconds, from one of the pods."""
        at = (since or self.began) + timedelta(seconds=self.chance.uniform(1, every))
        while at < self.now:
            text = message if isinstance(message, str) else message()
            self.world.log_lines.append(LogLine(self.chance.choice(pods), at, level, text, trace))
            at += timedelta(seconds=self.chance.expovariate(1 / every) + 0.2)

    def crash(
        self,
        pods: list[Pod],
        ending: str,
        exit_code: int,
        *,
        last_message: str = "",
        warning: str = "",
        lasts: float = 20,
    ) -> None:
        """Each pod starts, runs for about `lasts` seconds, crashes, and restarts with increasing delays.

        Args:
            last_message: Logged before the crash.
            warning: Logged repeatedly towards the crash.
        """
        for pod in pods:
            at, pause = max(pod.created, self.began) + timedelta(seconds=2), 10.0
            while at < self.now:
                self.world.log_lines.append(
                    LogLine(pod, at, "INFO", f"starting {pod.service.name} {pod.image.rpartition(':')[2]}")
                )
                life = self.chance.uniform(0.5, 1.5) * lasts
                self._run(pod, at, life, warning)
                at += timedelta(seconds=life)
                if at >= self.now:
                    break
                if last_message:
                    self.world.log_lines.append(LogLine(pod, at, "FATAL", last_message))
                pod.restarts += 1
                pod.last_ending = Ending(ending, exit_code, at, timedelta(seconds=lasts))
                at, pause = at + timedelta(seconds=pause), min(pause * 2, 300)
            pod.is_ready = False
            back_off = (
                f"back-off {min(int(pause), 300)}s restarting failed container={pod.service.name} "
                f"pod={pod.name}_{pod.service.namespace}"
            )
            pod.waiting = ("CrashLoopBackOff", back_off)
            message = (
                f"Back-off restarting failed container {pod.service.name} in pod {pod.name}_{pod.service.namespace}"
            )
            self.warn("Pod", pod.name, "BackOff", message, count=max(pod.restarts * 6, 3))

    def _run(self, pod: Pod, since: datetime, seconds: float, warning: str) -> None:
        """The log of a pod between start and crash: two requests a second, and the warning."""
        name = pod.service.name
        for _ in range(int(max(0.0, seconds - 3) * 2)):
            at = since + timedelta(seconds=self.chance.uniform(3, seconds))
            if at < self.now:
                message = (
                    f"GET /api/v1/{name}/{name.rstrip('s')}-{self.chance.randint(10_000, 99_999)} 200 "
                    f"{self.chance.randint(4, 90)}ms"
                )
                self.world.log_lines.append(LogLine(pod, at, "INFO", message))
        for share in (0.7, 0.8, 0.9) if warning else ():
            if (at := since + timedelta(seconds=share * seconds)) < self.now:
                self.world.log_lines.append(LogLine(pod, at, "WARN", warning))

    def shift(self, metric: str, of: str, value: float) -> None:
        self.world.shifts.append(Shift(metric, of, self.began + timedelta(seconds=40), value))

    def change_config(self, key: str, after: str) -> str:
        """Change the configuration of the victim; return the value before."""
        entries = self.world.config[self.victim.key]
        before = entries.get(key, "")
        entries[key] = after
        by = self.chance.choice(("m.okafor", "c.lind", "j.alvarez", "s.tanaka"))
        self.world.config_changes[self.victim.key].append(
            ConfigChange(self.began - timedelta(seconds=50), by, key, before, after)
        )
        return before


def _next_patch(image: str) -> str:
    major, minor, patch = image.rpartition(":")[2].split(".")
    return f"{major}.{minor}.{int(patch) + 1}"


def memory_limit_lowered(scene: Scene) -> Cause:
    before = scene.world.rollouts[scene.victim.key][-1].memory
    now = scene.chance.choice(("128Mi", "160Mi", "192Mi"))
    pods = scene.roll_out(f": resources.limits.memory {before} -> {now}", memory=now)
    for pod in pods:
        process = {"java": "java", "node": "node", "python": "gunicorn"}.get(
            scene.victim.log_format, scene.victim.name[:15]
        )
        killed = (
            f"Memory cgroup out of memory: Killed process {scene.chance.randint(9_000, 99_000)} ({process}) "
            "total-vm:2914304kB, "
            f"anon-rss:{int(now[:-2]) * 1024 - 812}kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1012kB "
            "oom_score_adj:988"
        )
        scene.warn("Node", pod.node, "OOMKilling", killed, namespace="default", source="kernel-monitor", count=3)
    scene.crash(pods, "OOMKilled", 137, warning="memory use is high: 96% of the limit", lasts=60)
    scene.shift("container_memory_working_set_bytes", scene.victim.name, int(now[:-2]) * 2**20 * 0.97)
    return Cause(
        f"{scene.victim.name} is killed for lack of memory: a release lowered its limit from {before} to {now}",
        r"OOM-?Kill|out of memory|exit\W{0,3}code\W{0,4}137|lack of memory|memory limit|limits\.memory",
        (scene.victim.name,),
        "memory-limit-lowered",
        "unavailable",
    )


def certificate_expired(scene: Scene) -> Cause:
    callee = scene.chance.choice([name for name in scene.victim.calls if name != IDENTITY] or list(scene.victim.calls))
    host = f"{callee}.{scene.victim.namespace}.svc.cluster.local"
    ended, pods = scene.began, scene.world.pods_of(scene.victim)
    stamp = f"{ended:%Y-%m-%dT%H:%M:%SZ}"
    message = {
        "java": f"call to https://{host}:8443 failed: PKIX path validation failed: "
        "java.security.cert.CertificateExpiredException: "
        f"NotAfter: {ended:%a %b %d %H:%M:%S} UTC {ended:%Y}",
        "node": (
            f"request to https://{host}:8443/v1/quote failed, reason: certificate has expired (CERT_HAS_EXPIRED, "
            f"valid to {stamp})"
        ),
        "python": f"HTTPSConnectionPool(host='{host}', port=8443): [SSL: CERTIFICATE_VERIFY_FAILED] certificate "
        "verify failed: "
        "certificate has expired (_ssl.c:1006)",
    }.get(
        scene.victim.log_format,
        f'Post "https://{host}:8443/v1/quote": tls: failed to verify certificate: x509: certificate has expired or is '
        "not yet valid: "
        f"current time is after {stamp}",
    )
    scene.log(pods, "ERROR", message, every=scene.error_interval, trace=True)
    _requests_fail(scene, pods, 502)
    renewal = (
        f"Failed to renew certificate {callee}-tls, which expired at {stamp}: "
        "order is in errored state: 429 urn:ietf:params:acme:error:rateLimited"
    )
    scene.warn(
        "Certificate",
        f"{callee}-tls",
        "Failed",
        renewal,
        source="cert-manager",
        count=9,
        first=scene.now - timedelta(days=6),
    )
    manager = next(pod for pod in scene.world.pods if pod.service.name == "cert-manager")
    scene.log(
        [manager],
        "ERROR",
        f'"cannot renew" err="rateLimited" certificate="{scene.victim.namespace}/{callee}-tls"',
        every=600,
    )
    return Cause(
        f"the TLS certificate of {callee} has expired",
        (
            r"certificate\W{0,2}(?:\w+\W+){0,4}?expired|CertificateExpired|CERT_HAS_EXPIRED|expired (?:TLS |x509 "
            r")?certificate|is after 20"
        ),
        (callee, host),
        "certificate-expired",
    )


def disk_full(scene: Scene) -> Cause:
    pods = scene.world.pods_of(scene.victim)
    full = scene.world.node(scene.chance.choice(pods).node)
    full.conditions["DiskPressure"] = Condition(
        "True", "KubeletHasDiskPressure", "kubelet has disk pressure", scene.began
    )
    here = [pod for pod in pods if pod.node == full.name]
    path = f"/var/lib/{scene.victim.name}/spool"
    scene.log(
        here,
        "ERROR",
        lambda: f"cannot write {path}/{scene.chance.getrandbits(40):010x}.tmp: no space left on device",
        every=scene.error_interval,
        trace=True,
    )
    _requests_fail(scene, here, 500)
    scene.warn(
        "Node",
        full.name,
        "EvictionThresholdMet",
        "Attempting to reclaim ephemeral-storage",
        namespace="default",
        count=31,
    )
    message = (
        "Failed to garbage collect required amount of images. Attempted to free 21474836480 bytes, but only "
        "found 0 bytes eligible to free."
    )
    scene.warn("Node", full.name, "FreeDiskSpaceFailed", message, namespace="default", count=6)
    scene.event(
        "Node",
        full.name,
        "Normal",
        "NodeHasDiskPressure",
        f"Node {full.name} status is now: NodeHasDiskPressure",
        namespace="default",
    )
    scene.shift("node_filesystem_avail_bytes", full.name, 0)
    return Cause(
        f"the disk of node {full.name} is full, and {scene.victim.name} cannot write there",
        r"no space left on device|ENOSPC|(?:KubeletHas|NodeHas)?DiskPressure|ephemeral-storage|FreeDiskSpaceFailed|"
        r"disk\b.{0,90}\bfull\b|full disk",
        (full.name, scene.victim.name),
        "disk-full",
    )


def unknown_host(scene: Scene) -> Cause:
    callee = scene.chance.choice([name for name in scene.victim.calls if name != IDENTITY] or list(scene.victim.calls))
    wrong = f"{callee}{scene.chance.choice(('-v2', '-internal', '-svc', '-new'))}"
    host = f"{wrong}.{scene.victim.namespace}.svc.cluster.local"
    variable = f"{callee.upper().replace('-', '_')}_URL"
    pods = scene.roll_out(f": {variable} points to {wrong}")
    scene.world.environment[scene.victim.key][variable] = f"http://{host}:8080"
    message = {
        "java": f"I/O error on POST request for http://{host}:8080/v1/quote: "
        f"java.net.UnknownHostException: {host}: Name or service not known",
        "node": f"request to http://{host}:8080/v1/quote failed, reason: getaddrinfo ENOTFOUND {host}",
        "python": (
            f"HTTPConnectionPool(host='{host}', port=8080): Failed to resolve '{host}' ([Errno -2] Name or "
            "service not known)"
        ),
    }.get(
        scene.victim.log_format,
        f'Post "http://{host}:8080/v1/quote": dial tcp: lookup {host} on 10.96.0.10:53: no such host',
    )
    scene.log(pods, "ERROR", message, every=scene.error_interval, trace=True)
    _requests_fail(scene, pods, 502)
    resolvers = [pod for pod in scene.world.pods if pod.service.name == "coredns"]
    scene.log(resolvers, "INFO", f'10.244.3.17:41200 - "A IN {host}. udp 66" NXDOMAIN qr,aa,rd 159 0.000131s', every=6)
    return Cause(
        f"since its release {scene.victim.name} calls {wrong}, a name that does not exist",
        (
            r"no such host|NXDOMAIN|UnknownHost|ENOTFOUND|Name or service not known|fail(?:s|ed)? to resolve|(?:does"
            r"|do) "
            r"not exist|not resolv"
        ),
        (wrong,),
        "unknown-host",
    )


def config_value_unreadable(scene: Scene) -> Cause:
    key, after, complaint = scene.chance.choice(
        (
            ("retry.max_delay", "30 seconds", 'invalid duration "30 seconds": unknown unit " seconds"'),
            ("http.max_body", "4 MB", 'invalid size "4 MB": expected a number followed by KiB, MiB or GiB'),
            ("cache.ttl", "5min", 'invalid duration "5min": unknown unit "min"'),
            ("sampling.ratio", "5%", 'invalid number "5%"'),
        )
    )
    before = scene.change_config(key, after)
    pods = scene.roll_out(
        ": restarted to read its configuration", tag=scene.world.rollouts[scene.victim.key][-1].image.rpartition(":")[2]
    )
    scene.crash(
        pods, "Error", 1, last_message=f"cannot load /etc/{scene.victim.name}/config.yaml: {key}: {complaint}", lasts=2
    )
    return Cause(
        f"the configuration of {scene.victim.name} cannot be read: {key} was changed from {before} to {after}",
        re.escape(key),
        (scene.victim.name,),
        "config-value-unreadable",
        "unavailable",
    )


def connection_pool_exhausted(scene: Scene) -> Cause:
    size = scene.chance.choice((4, 5, 8))
    before = scene.change_config("db.pool_max", str(size))
    pods = scene.roll_out(f": db.pool_max {before} -> {size}")
    database = scene.victim.database

    def message() -> str:
        waiting = scene.chance.randint(90, 240)
        return {
            "java": f"HikariPool-1 ({database}) - Connection is not available, request timed out after 30000ms "
            f"(total={size}, active={size}, idle=0, waiting={waiting})",
            "node": (
                f"TimeoutError: ResourceRequest timed out: connection pool of {database} exhausted (max {size}, "
                f"pending {waiting})"
            ),
            "python": (
                f"QueuePool limit of size {size} overflow 0 reached for {database}, connection timed out, timeout 30.00"
            ),
        }.get(
            scene.victim.log_format,
            f"could not get a connection: pool of {database} exhausted ({size} of {size} in use, {waiting} waiting)",
        )

    scene.log(pods, "ERROR", message, every=scene.error_interval, trace=True)
    _requests_fail(scene, pods, 503)
    scene.shift("db_pool_in_use_connections", scene.victim.name, size)
    scene.shift("http_request_duration_seconds_p99", scene.victim.name, 30.1)
    return Cause(
        (
            f"{scene.victim.name} runs out of connections to {database}: a release lowered its pool from {before} to "
            f"{size}"
        ),
        r"pool\b.{0,80}(?:exhausted|not available|timed out|limit)|(?:exhausted|limit).{0,60}pool|"
        r"QueuePool limit|pool_max|out of connections",
        (database, scene.victim.name),
        "connection-pool-exhausted",
        "latency",
    )


def image_missing(scene: Scene) -> Cause:
    pods = scene.roll_out("")
    image = pods[0].image
    problem = (
        f'Failed to pull image "{image}": rpc error: code = NotFound desc = failed to pull and unpack image "{image}": '
        f"failed to resolve reference: {image}: manifest unknown"
    )
    for pod in pods:
        pod.phase, pod.is_ready, pod.waiting = (
            "Pending",
            False,
            ("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: manifest unknown'),
        )
        scene.warn("Pod", pod.name, "Failed", problem, count=scene.chance.randint(4, 9))
        scene.warn("Pod", pod.name, "Failed", "Error: ImagePullBackOff", count=scene.chance.randint(20, 60))
        scene.event(
            "Pod",
            pod.name,
            "Normal",
            "BackOff",
            f'Back-off pulling image "{image}"',
            count=scene.chance.randint(20, 60),
        )
    return Cause(
        f"the image {image} cannot be pulled: the registry does not have it",
        (
            r"Image ?Pull|manifest unknown|pull(?:ing|ed)? (?:and unpack )?(?:the )?image|image .{0,120}(?:cannot"
            r"|not) be "
            r"pulled"
        ),
        (scene.victim.name,),
        "image-missing",
        "unavailable",
    )


def noisy_neighbour(scene: Scene) -> Cause:
    pods = scene.world.pods_of(scene.victim)
    crowded = scene.world.node(scene.chance.choice(pods).node)
    hog_name = scene.chance.choice(("report-export", "model-training", "backfill", "nightly-reindex"))
    batch = Service(hog_name, "batch", "python", replicas=1)
    created = scene.began - timedelta(minutes=4)
    hog = Pod(f"{hog_name}-{scene.chance.randint(29_000_000, 29_900_000)}-{suffix(scene.chance)}", batch, crowded.name,
    "10.244.0.77",
              image_of(batch, "2.4.0"), "", created)  # fmt: skip
    scene.world.services[batch.key] = batch
    scene.world.pods.append(hog)
    scene.world.rollouts[batch.key] = [Rollout(1, created, hog.image, "", "job", "0")]
    scene.world.environment[batch.key], scene.world.config[batch.key], scene.world.config_changes[batch.key] = (
        {},
        {},
        [],
    )
    used = int(crowded.memory_gib * 0.83)
    crowded.conditions["MemoryPressure"] = Condition(
        "True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available", scene.began
    )
    for pod in [pod for pod in pods if pod.node == crowded.name]:
        pod.phase, pod.is_ready, pod.reason = "Failed", False, "Evicted"
        pod.message = (
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: "
            f"{scene.chance.randint(31, 90)}Mi. Container "
            f"{scene.victim.name} was using {scene.chance.randint(300, 480)}Mi, request is 128Mi, has larger "
            "consumption of memory."
        )
        scene.warn("Pod", pod.name, "Evicted", pod.message)
    scene.warn(
        "Node", crowded.name, "EvictionThresholdMet", "Attempting to reclaim memory", namespace="default", count=22
    )
    scene.warn(
        "Node",
        crowded.name,
        "SystemOOM",
        "System OOM encountered, victim process: fluent-bit, pid: 8812",
        namespace="default",
        count=2,
    )
    rest = [pod for pod in pods if pod.node != crowded.name]
    scene.log(
        rest, "WARN", lambda: f"overloaded: {scene.chance.randint(180, 400)} requests queued, shedding load", every=8
    )
    _requests_fail(scene, rest, 503)
    scene.shift("node_memory_MemAvailable_bytes", crowded.name, 64 * 2**20)
    scene.shift("container_memory_working_set_bytes", hog_name, used * 2**30)
    return Cause(
        f"the job {hog.name} takes the memory of node {crowded.name}; {scene.victim.name} is evicted there",
        (
            r"Evict|low on resource: memory|MemoryPressure|InsufficientMemory|reclaim memory|SystemOOM|System OOM"
            r"|takes "
            r".{0,20}memory"
        ),
        (hog_name, crowded.name, scene.victim.name),
        "noisy-neighbour",
    )


def clock_skewed(scene: Scene) -> Cause:
    issuers = scene.world.pods_of(scene.world.services[f"{scene.victim.namespace}/{IDENTITY}"])
    wrong = scene.chance.choice(issuers)
    seconds = scene.chance.randint(180, 900)
    pods = scene.world.pods_of(scene.victim)
    scene.log(
        pods,
        "ERROR",
        lambda: (
            f"token rejected: used before issued (iat is {seconds + scene.chance.randint(-1, 1)} s in the future), "
            f"issuer {wrong.name} ({wrong.ip}): check the clock"
        ),
        every=scene.error_interval,
        trace=True,
    )
    _requests_fail(scene, pods, 401)
    scene.world.node(wrong.node).conditions["NTPProblem"] = Condition(
        "True", "NTPIsDown", "NTP service is not running", scene.began
    )
    message = f"chronyd is not synchronised: system clock is off by {seconds} seconds"
    scene.warn(
        "Node", wrong.node, "NTPIsDown", message, namespace="default", source="ntp-custom-plugin-monitor", count=12
    )
    scene.shift("node_timex_offset_seconds", wrong.node, float(seconds))
    return Cause(
        f"the clock of node {wrong.node} is {seconds} s ahead, so tokens issued there are refused",
        r"used before issued|in the future|clock|NTPIsDown|NTPProblem|chronyd|NTP service|not synchroni",
        (IDENTITY, wrong.node, wrong.name, scene.victim.name),
        "clock-skewed",
    )


def password_rotated(scene: Scene) -> Cause:
    user = scene.world.environment[scene.victim.key]["DB_USER"]
    database = scene.victim.database
    pods = scene.world.pods_of(scene.victim)
    refused = f'password authentication failed for user "{user}"'
    message = {
        "java": f"could not open a connection to {database}: org.postgresql.util.PSQLException: FATAL: {refused}",
        "node": f"cannot connect to {database}: {refused} (code 28P01)",
        "python": f"connection to server at {database}.data.svc.cluster.local, port 5432 failed: FATAL:  {refused}",
    }.get(scene.victim.log_format, f"connect to {database}: FATAL: {refused} (SQLSTATE 28P01)")
    scene.log(pods, "ERROR", message, every=scene.error_interval, trace=True)
    _requests_fail(scene, pods, 500)
    name = f"{scene.victim.name}-db-credentials"
    message = f"Secret {name} updated from vault, version 14"
    scene.event(
        "ExternalSecret",
        name,
        "Normal",
        "Updated",
        message,
        first=scene.began,
        last=scene.began,
        source="external-secrets",
    )
    return Cause(
        f"{database} refuses the password of {user}: it was rotated and {scene.victim.name} still uses the old one",
        r"password authentication failed|28P01|(?:password|credential).{0,60}(?:rotat|refus|reject|invalid|old|wrong)",
        (user, database, scene.victim.name),
        "password-rotated",
    )


def quota_exceeded(scene: Scene) -> Cause:
    quota = scene.chance.choice(("compute-quota", "team-budget", "namespace-limits"))
    pods = scene.roll_out("")
    for lost in pods[1:]:
        scene.world.pods.remove(lost)
    latest = scene.world.rollouts[scene.victim.key][-1]
    problem = (
        f'Error creating: pods "{scene.victim.name}-{latest.template_hash}-{suffix(scene.chance)}" is forbidden: '
        f"exceeded quota: {quota}, "
        "requested: limits.memory=2Gi, used: limits.memory=126Gi, limited: limits.memory=127Gi"
    )
    scene.warn(
        "ReplicaSet",
        f"{scene.victim.name}-{latest.template_hash}",
        "FailedCreate",
        problem,
        count=14,
        source="replicaset-controller",
    )
    scene.log(
        pods[:1],
        "WARN",
        lambda: f"overloaded: {scene.chance.randint(180, 400)} requests queued, shedding load",
        every=6,
    )
    _requests_fail(scene, pods[:1], 503)
    return Cause(
        f"the quota {quota} leaves no room for the pods of {scene.victim.name}",
        r"quota",
        (scene.victim.name, quota),
        "quota-exceeded",
        "unavailable",
    )


def probe_path_wrong(scene: Scene) -> Cause:
    path = scene.chance.choice(("/ready", "/health/ready", "/actuator/health/readiness"))
    pods = scene.roll_out(f": readinessProbe path is now {path}")
    for pod in pods:
        pod.is_ready, pod.probe_path = False, path
        pod.serves_until = pod.created + timedelta(seconds=5)
        scene.warn(
            "Pod",
            pod.name,
            "Unhealthy",
            "Readiness probe failed: HTTP probe failed with statuscode: 404",
            count=scene.chance.randint(90, 200),
        )
    scene.log(pods, "INFO", f"GET {path} 404 0ms agent=kube-probe/1.31", every=3)
    return Cause(
        f"the readiness probe of {scene.victim.name} asks for {path}, which the service does not know",
        r"readiness ?probe|probe failed|Unhealthy|statuscode: 404",
        (scene.victim.name,),
        "probe-path-wrong",
        "unavailable",
    )


def _requests_fail(scene: Scene, pods: list[Pod], status: int) -> None:
    """The traces of failing requests, independent of the reason."""
    name = scene.victim.name

    def message() -> str:
        thing = f"{name.rstrip('s')}-{scene.chance.randint(10_000, 99_999)}"
        return (
            f"POST /api/v1/{name}/{thing} {status} {scene.chance.randint(3, 900)}ms "
            f"request={scene.chance.getrandbits(48):012x}"
        )

    scene.log(pods, "WARN", message, every=scene.error_interval)
    scene.shift(
        "http_requests_5xx_ratio" if status >= 500 else "http_requests_4xx_ratio", name, scene.chance.uniform(0.2, 0.6)
    )


CAUSES: tuple[Callable[[Scene], Cause], ...] = (
    memory_limit_lowered,
    certificate_expired,
    disk_full,
    unknown_host,
    config_value_unreadable,
    connection_pool_exhausted,
    image_missing,
    noisy_neighbour,
    clock_skewed,
    password_rotated,
    quota_exceeded,
    probe_path_wrong,
)

NEEDS_DATABASE = (connection_pool_exhausted, password_rotated)
