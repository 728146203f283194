"""The simulated cluster as an MCP server: `python -m tersely.demo.cluster --seed N`.

A real MCP server over stdio with simulated results. All tools except one are declared
read-only; the other one is declared destructive and only reports that it was called.
"""

import sys
from datetime import timedelta
from typing import Annotated

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from tersely.demo import kubernetes, logs, metrics
from tersely.demo.arguments import incident_from
from tersely.demo.world import Service, World

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
DESTROYS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)

Namespace = Annotated[str, Field(description="Only this namespace; empty for all.")]
ServiceName = Annotated[
    str, Field(description="Name of a service (deployment), e.g. as in an alert's `service` label.")
]
InNamespace = Annotated[str, Field(description="Namespace of the service; empty for production.")]


def build(world: World) -> FastMCP:
    """The server over a simulated cluster."""
    server = FastMCP(
        name="cluster",
        instructions="Looks into a Kubernetes cluster: pods, nodes, events, logs, metrics, deployments, configuration.",
    )

    @server.tool(annotations=READS, output_schema=None)
    def list_pods(
        namespace: Namespace = "",
        service: Annotated[str, Field(description="Only pods of this service; empty for all.")] = "",
    ) -> str:
        """List pods as full JSON objects: phase, readiness, restarts, container states, exit codes. Large without a
        filter.
        """
        _check_namespace(world, namespace)
        return kubernetes.pods_json(world, namespace=namespace, service=service)

    @server.tool(annotations=READS, output_schema=None)
    def describe_pod(name: Annotated[str, Field(description="Name of the pod.")]) -> str:
        """Describe one pod: state, last termination, limits, environment, conditions, its recent events."""
        for pod in world.pods:
            if pod.name == name:
                return kubernetes.describe_pod(world, pod)
        raise ToolError(f"There is no pod {name!r}. `list_pods` gives the names.")

    @server.tool(annotations=READS, output_schema=None)
    def list_nodes() -> str:
        """List the nodes of the cluster as full JSON objects: capacity, conditions such as pressure, addresses."""
        return kubernetes.nodes_json(world)

    @server.tool(annotations=READS, output_schema=None)
    def get_events(
        namespace: Namespace = "",
        about: Annotated[
            str, Field(description="Only events whose object or message contains this text; empty for all.")
        ] = "",
        only_warnings: Annotated[bool, Field(description="Leave out events of type Normal.")] = False,
    ) -> str:
        """Get the cluster events of the last hour as a table: warnings, failed probes, evictions, scheduling and
        pulling problems.
        """
        _check_namespace(world, namespace)
        return kubernetes.events_table(world, namespace=namespace, about=about, only_warnings=only_warnings)

    @server.tool(annotations=READS, output_schema=None)
    def get_logs(
        service: ServiceName,
        namespace: InNamespace = "",
        pod: Annotated[str, Field(description="Only this pod of the service; empty for all of them.")] = "",
        lines: Annotated[int, Field(description="How many of the newest lines.", ge=1, le=20_000)] = 3_000,
        since_minutes: Annotated[int, Field(description="Only lines younger than this.", ge=1, le=180)] = 180,
    ) -> str:
        """Get the newest log lines of a service: requests, errors, exceptions with stack traces."""
        found = _service(world, service, namespace)
        if pod and pod not in {one.name for one in world.pods_of(found)}:
            raise ToolError(f"Service {service!r} has no pod {pod!r}. `list_pods` gives the names.")
        entries = logs.lines_of(world, found, pod=pod, lines=lines, since=timedelta(minutes=since_minutes))
        return "\n".join(entries) + "\n" if entries else "There are no log lines: none of its containers has started.\n"

    @server.tool(annotations=READS, output_schema=None)
    def get_metrics(
        service: ServiceName,
        namespace: InNamespace = "",
        minutes: Annotated[int, Field(description="How far back.", ge=5, le=360)] = 120,
    ) -> str:
        """Get the metrics of a service over time, one value per minute: error ratio, latency, memory, CPU, restarts,
        connections.
        """
        return metrics.service_series(world, _service(world, service, namespace), minutes=minutes)

    @server.tool(annotations=READS, output_schema=None)
    def get_node_metrics() -> str:
        """Get the newest metrics of all nodes in the text format of Prometheus: disk, memory, load, clock offset,
        network errors.
        """
        return metrics.node_exposition(world)

    @server.tool(annotations=READS, output_schema=None)
    def get_deployments(namespace: Namespace = "") -> str:
        """Get the deployments as a table: ready, up-to-date and available replicas, image."""
        _check_namespace(world, namespace)
        return kubernetes.deployments_table(world, namespace=namespace)

    @server.tool(annotations=READS, output_schema=None)
    def get_rollout_history(service: ServiceName, namespace: InNamespace = "") -> str:
        """Get the revisions of a deployment: when each was rolled out, its image, its memory limit, what changed."""
        return kubernetes.rollout_history(world, _service(world, service, namespace))

    @server.tool(annotations=READS, output_schema=None)
    def get_config(service: ServiceName, namespace: InNamespace = "") -> str:
        """Get the configuration of a service: its ConfigMap with recent changes, and the environment of its
        containers.
        """
        return kubernetes.config_yaml(world, _service(world, service, namespace))

    @server.tool(annotations=DESTROYS, output_schema=None)
    def restart_deployment(service: ServiceName, namespace: InNamespace = "") -> str:
        """Restart all pods of a deployment. Requests in flight are lost."""
        found = _service(world, service, namespace)
        sys.stderr.write(f"restart_deployment was called for {found.key}\n")
        return f"deployment.apps/{found.name} restarted"

    return server


def _service(world: World, name: str, namespace: str) -> Service:
    name = name.rpartition("/")[2]
    if found := world.services.get(f"{namespace or world.namespace}/{name}"):
        return found
    elsewhere = sorted(service.key for service in world.services.values() if service.name == name)
    if not namespace and len(elsewhere) == 1:
        return world.services[elsewhere[0]]
    if elsewhere:
        raise ToolError(
            f"There is no service {name!r} in namespace {namespace or world.namespace!r}; there is "
            f"{', '.join(elsewhere)}."
        )
    raise ToolError(f"There is no service {name!r}. `get_deployments` lists what is there.")


def _check_namespace(world: World, namespace: str) -> None:
    known = sorted({service.namespace for service in world.services.values()} | {"default"})
    if namespace and namespace not in known:
        raise ToolError(f"There is no namespace {namespace!r}; there are {', '.join(known)}.")


if __name__ == "__main__":
    build(incident_from(sys.argv[1:]).world).run(transport="stdio", show_banner=False)
