"""Decoys: symptoms that look like a cause but are not, such as old problems, harmless warnings and failing callers.

Each affects a service other than the faulty one, and returns an `ExpectedFinding`, so
that reports which blame it are recognised as wrong.
"""

from collections.abc import Callable
from datetime import timedelta

from tersely.demo.causes import Cause, ExpectedFinding, Scene
from tersely.demo.world import STAGING, Condition, Ending, Pod, Shift


def old_memory_kill(scene: Scene) -> ExpectedFinding:
    pod = scene.chance.choice(scene.world.pods_of(scene.victim))
    at = scene.now - timedelta(days=scene.chance.uniform(2, 6))
    pod.restarts, pod.last_ending = 1, Ending("OOMKilled", 137, at, timedelta(hours=31))
    return ExpectedFinding(
        f"{scene.victim.name} was killed once, days ago", r"OOM-?Kill|exit\W{0,3}code\W{0,4}137", (scene.victim.name,)
    )


def certificate_that_is_renewed_in_time(scene: Scene) -> ExpectedFinding:
    manager = [pod for pod in scene.world.pods if pod.service.name == "cert-manager"]
    name = f"{scene.victim.name}-tls"
    soon = (
        f'"certificate expires soon, renewal scheduled" certificate="{scene.victim.namespace}/{name}" '
        f"days={scene.chance.randint(15, 28)}"
    )
    scene.log(manager, "WARN", soon, every=900, since=scene.now - timedelta(hours=3))
    return ExpectedFinding(
        f"the certificate of {scene.victim.name} expires in weeks",
        r"certificate.*expires|expires.*certificate",
        (name,),
    )


def half_full_disk(scene: Scene) -> ExpectedFinding:
    node = scene.chance.choice(scene.world.nodes)
    message = (
        f"Disk usage on image filesystem is over the high threshold (85%): {scene.chance.randint(85, 88)}%. "
        "Freed 6442450944 bytes."
    )
    scene.event(
        "Node", node.name, "Normal", "ImageGC", message, namespace="default", first=scene.now - timedelta(minutes=50)
    )
    return ExpectedFinding(f"images were cleaned up on {node.name}", r"image filesystem|ImageGC", (node.name,))


def unused_telemetry(scene: Scene) -> ExpectedFinding:
    host = "stats-legacy.monitoring.svc.cluster.local"
    scene.log(
        scene.world.pods_of(scene.victim),
        "WARN",
        f"telemetry not sent: lookup {host} on 10.96.0.10:53: no such host (ignored)",
        every=300,
        since=scene.now - timedelta(hours=3),
    )
    return ExpectedFinding("an old telemetry address is gone", r"no such host|telemetry", ("stats-legacy",))


def staging_crashes(scene: Scene) -> ExpectedFinding:
    pod = _staging_pod(scene)
    since = scene.now - timedelta(days=2)
    pod.created, pod.is_ready, pod.restarts = since, False, scene.chance.randint(300, 560)
    pod.waiting = (
        "CrashLoopBackOff",
        f"back-off 5m0s restarting failed container={pod.service.name} pod={pod.name}_{STAGING}",
    )
    pod.last_ending = Ending("Error", 1, scene.now - timedelta(minutes=4), timedelta(seconds=2))
    message = f"Back-off restarting failed container {pod.service.name} in pod {pod.name}_{STAGING}"
    scene.warn("Pod", pod.name, "BackOff", message, namespace=STAGING, count=pod.restarts * 5, first=since)
    staging = Scene(scene.world, scene.chance, pod.service, since)
    staging.log(
        [pod],
        "FATAL",
        "cannot start: migration 0071 is missing on this branch",
        every=310,
        since=scene.now - timedelta(hours=3),
    )
    return ExpectedFinding(
        f"{pod.service.name} in staging crashes, for two days",
        r"CrashLoop|back-?off|migration",
        (pod.name, f"{STAGING}/"),
    )


def staging_image_missing(scene: Scene) -> ExpectedFinding:
    pod = _staging_pod(scene)
    since = scene.now - timedelta(days=3)
    pod.image = pod.image.rpartition(":")[0] + ":feature-x"
    pod.created, pod.phase, pod.is_ready = since, "Pending", False
    pod.waiting = ("ImagePullBackOff", f'Back-off pulling image "{pod.image}"')
    scene.warn("Pod", pod.name, "Failed", "Error: ImagePullBackOff", namespace=STAGING, count=4_102, first=since)
    return ExpectedFinding(
        f"{pod.service.name} in staging has no image, for three days",
        r"Image ?Pull|pulling image",
        (pod.name, f"{STAGING}/"),
    )


def sessions_that_ran_out(scene: Scene) -> ExpectedFinding:
    pods = scene.world.pods_of(scene.victim)
    scene.log(
        pods,
        "WARN",
        lambda: (
            f"401 for user u{scene.chance.randint(1, 90_000)}: token expired {scene.chance.randint(2, 90)} minutes "
            "ago, "
            "asking to log in again"
        ),
        every=40,
        since=scene.now - timedelta(hours=3),
    )
    return ExpectedFinding("users whose session ran out", r"token expired", (scene.victim.name, "token expired"))


def pool_that_is_busy(scene: Scene) -> ExpectedFinding:
    pods = scene.world.pods_of(scene.victim)
    scene.log(
        pods,
        "WARN",
        lambda: f"connection pool at {scene.chance.randint(70, 84)}% of 80 connections",
        every=600,
        since=scene.now - timedelta(hours=3),
    )
    return ExpectedFinding(f"the pool of {scene.victim.name} is busy", r"connection pool at", (scene.victim.name,))


def probe_that_failed_while_starting(scene: Scene) -> ExpectedFinding:
    pod = scene.chance.choice(scene.world.pods_of(scene.victim))
    at = scene.now - timedelta(minutes=scene.chance.randint(43, 55))
    pod.created = at - timedelta(seconds=20)
    address = f"{pod.ip}:{scene.victim.port}"
    message = f'Readiness probe failed: Get "http://{address}/healthz": dial tcp {address}: connect: connection refused'
    scene.warn("Pod", pod.name, "Unhealthy", message, count=2, first=at, last=at)
    return ExpectedFinding(
        f"{scene.victim.name} was not ready while it started", r"readiness ?probe|Unhealthy", (scene.victim.name,)
    )


def autoscaler_without_metrics(scene: Scene) -> ExpectedFinding:
    message = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from "
        "resource metrics API"
    )
    scene.warn(
        "HorizontalPodAutoscaler", scene.victim.name, "FailedGetResourceMetric", message, count=3_318,
        first=scene.now - timedelta(days=9),
        source="horizontal-pod-autoscaler",
    )  # fmt: skip
    return ExpectedFinding(
        f"the autoscaler of {scene.victim.name} has no metrics, for days",
        r"FailedGetResourceMetric|cpu utilization",
        (scene.victim.name,),
    )


def nightly_job_failed(scene: Scene) -> ExpectedFinding:
    name = f"{scene.victim.name}-cleanup-{scene.chance.randint(29_000_000, 29_900_000)}"
    at = scene.now - timedelta(minutes=scene.chance.randint(40, 58))
    scene.warn(
        "Job",
        name,
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
        first=at,
        last=at,
        source="job-controller",
    )
    return ExpectedFinding(f"the job {name} failed", r"backoff ?limit|Job has", (name, f"{scene.victim.name}-cleanup"))


def node_that_was_replaced(scene: Scene) -> ExpectedFinding:
    node = scene.chance.choice(scene.world.nodes)
    at = scene.now - timedelta(hours=5)
    node.conditions["KernelDeadlock"] = Condition("False", "KernelHasNoDeadlock", "kernel has no deadlock", at)
    detector = [
        pod for pod in scene.world.pods if pod.service.name == "node-problem-detector" and pod.node == node.name
    ]
    message = f'"task kworker blocked for more than 120 seconds" node="{node.name}" action="condition cleared"'
    scene.log(detector, "WARN", message, every=4_000, since=at)
    return ExpectedFinding(f"{node.name} hung for a moment, hours ago", r"kworker|blocked for more", (node.name,))


HISTORY = ExpectedFinding("an incident of the past", r"\bINC-\d", ("INC-",))
"""The knowledge base contains many of them; none is the current one."""

DECOYS: tuple[Callable[[Scene], ExpectedFinding], ...] = (
    old_memory_kill,
    certificate_that_is_renewed_in_time,
    half_full_disk,
    unused_telemetry,
    staging_crashes,
    staging_image_missing,
    sessions_that_ran_out,
    pool_that_is_busy,
    probe_that_failed_while_starting,
    autoscaler_without_metrics,
    nightly_job_failed,
    node_that_was_replaced,
)


def callers_fail(scene: Scene, cause: Cause) -> None:
    """Callers of the victim fail as well, and log errors."""
    for caller in scene.world.callers_of(scene.victim):
        pods = scene.world.pods_of(caller)
        status = 503 if cause.symptom == "unavailable" else 502
        message = (
            f"upstream prematurely closed connection while reading response header from upstream, upstream: "
            f'"http://10.96.14.8:{scene.victim.port}/api/v1/{scene.victim.name}", host: '
            f'"{scene.victim.name}.example.com"'
            if caller.log_format == "nginx"
            else f"call to {scene.victim.name} failed: {status} after 3 attempts"
        )
        scene.log(pods, "ERROR", message, every=9, trace=scene.chance.random() < 0.5)
        scene.world.shifts.append(
            Shift(
                "http_requests_5xx_ratio",
                caller.name,
                scene.began + timedelta(minutes=1),
                scene.chance.uniform(0.05, 0.2),
            )
        )


def _staging_pod(scene: Scene) -> Pod:
    """A healthy staging pod whose production service is not the faulty one; otherwise even an expert could not tell
    them apart.
    """
    free = [
        pod
        for pod in scene.world.pods
        if pod.service.namespace == STAGING and pod.waiting is None and pod.service.name != scene.faulty_service
    ]
    return scene.chance.choice(free)
