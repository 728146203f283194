"""Renders metrics of the simulated cluster: series as in a Prometheus range query, and node metrics as in a scrape."""

import json
import random
from datetime import datetime, timedelta

from tersely.demo.world import Service, World

_STEP = timedelta(minutes=1)

_OF_SERVICES = {
    "http_requests_per_second": (40.0, 400.0),
    "http_requests_5xx_ratio": (0.0, 0.002),
    "http_requests_4xx_ratio": (0.01, 0.03),
    "http_request_duration_seconds_p50": (0.01, 0.03),
    "http_request_duration_seconds_p99": (0.1, 0.4),
    "db_pool_in_use_connections": (5.0, 25.0),
}
_OF_PODS = {
    "container_memory_working_set_bytes": (2e8, 5e8),
    "container_cpu_usage_cores": (0.05, 0.6),
    "go_goroutines_or_threads": (40.0, 120.0),
}
_OF_NODES = {
    "node_filesystem_avail_bytes": (3e10, 7e10),
    "node_filesystem_size_bytes": (107_361_579_008.0, 107_361_579_008.0),
    "node_memory_MemAvailable_bytes": (8e9, 2.2e10),
    "node_timex_offset_seconds": (-0.002, 0.002),
    "node_load1": (1.0, 6.0),
    "node_network_receive_errs_total": (0.0, 3.0),
    "node_vmstat_oom_kill": (0.0, 2.0),
    "node_context_switches_total": (1e9, 9e9),
}


def service_series(world: World, service: Service, *, minutes: int = 120) -> str:
    """The metrics of a service over the last minutes, as the result of a range query."""
    result = []
    for metric, usual in _OF_SERVICES.items():
        result.append(
            _series(
                world, metric, usual, {"namespace": service.namespace, "service": service.name}, service.name, minutes
            )
        )
    for pod in world.pods_of(service):
        labels = {"namespace": service.namespace, "pod": pod.name, "container": service.name, "node": pod.node}
        result += [_series(world, metric, usual, labels, service.name, minutes) for metric, usual in _OF_PODS.items()]
        restarts = {"__name__": "kube_pod_container_status_restarts_total", **labels}
        result.append({"metric": restarts, "values": [[world.now.timestamp(), str(pod.restarts)]]})
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def node_exposition(world: World) -> str:
    """The newest metrics of every node, in the text format of Prometheus."""
    lines = []
    for metric, usual in _OF_NODES.items():
        kind = "counter" if metric.endswith("_total") else "gauge"
        lines += [f"# HELP {metric} {metric.removeprefix('node_').replace('_', ' ')}.", f"# TYPE {metric} {kind}"]
        for node in world.nodes:
            chance = world.chance(f"{metric}/{node.name}")
            lines.append(
                f'{metric}{{instance="{node.ip}:9100",node="{node.name}"}} '
                f"{_value(world, metric, usual, node.name, world.now, chance):.6g}"
            )
        if metric == "node_filesystem_avail_bytes":
            for node in world.nodes:
                for place in ("/boot", "/run", "/var/lib/etcd-backup", "/dev/shm"):
                    free = world.chance(f"{place}/{node.name}").uniform(5e8, 9e9)
                    lines.append(
                        f'{metric}{{instance="{node.ip}:9100",mountpoint="{place}",node="{node.name}"}} {free:.6g}'
                    )
    lines += _cpu_seconds(world)
    return "\n".join(lines) + "\n"


def _cpu_seconds(world: World) -> list[str]:
    lines = [
        "# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.",
        "# TYPE node_cpu_seconds_total counter",
    ]
    for node in world.nodes:
        chance = world.chance(f"cpu/{node.name}")
        lines += [
            f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}",node="{node.name}"}} {chance.uniform(1e4, 9e6):.2f}'
            for core in range(16)
            for mode in ("idle", "iowait", "system", "user")
        ]
    return lines


def _series(
    world: World, metric: str, usual: tuple[float, float], labels: dict[str, str], of: str, minutes: int
) -> dict[str, object]:
    chance = world.chance(f"{metric}/{sorted(labels.items())}")
    at = world.now - timedelta(minutes=minutes)
    values = []
    while at <= world.now:
        values.append([at.timestamp(), f"{_value(world, metric, usual, of, at, chance):.6g}"])
        at += _STEP
    return {"metric": {"__name__": metric, **labels}, "values": values}


def _value(
    world: World, metric: str, usual: tuple[float, float], of: str, at: datetime, chance: random.Random
) -> float:
    low, high = usual
    level = low + (high - low) * world.chance(f"level/{metric}/{of}").random()
    value = level * chance.uniform(0.9, 1.1)
    for shift in world.shifts:
        if shift.metric == metric and shift.of == of and at >= shift.since:
            value = shift.value * chance.uniform(0.96, 1.04)
    return value
