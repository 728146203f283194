"""Renders the simulated cluster as `kubectl` does: full objects as JSON, tables, descriptions, YAML.

Pure functions from values to text. The objects are as large as real ones, with managed
fields and tolerations, because those fill a context window.
"""

import json
from datetime import datetime, timedelta
from typing import Any

from tersely.demo.world import Event, Node, Pod, Service, World


def pods_json(world: World, *, namespace: str = "", service: str = "") -> str:
    """As `kubectl get pods -o json`."""
    chosen = [
        pod for pod in world.pods if namespace in ("", pod.service.namespace) and service in ("", pod.service.name)
    ]
    items = [_pod(world, pod) for pod in sorted(chosen, key=lambda pod: (pod.service.namespace, pod.name))]
    return _listing(items)


def nodes_json(world: World) -> str:
    """As `kubectl get nodes -o json`."""
    return _listing([_node(world, node) for node in world.nodes])


def pods_table(world: World, *, namespace: str = "") -> str:
    """As `kubectl get pods -A -o wide`."""
    rows = [["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]]
    for pod in sorted(world.pods, key=lambda pod: (pod.service.namespace, pod.name)):
        if namespace in ("", pod.service.namespace):
            ended = f" ({age(world.now - pod.last_ending.at)} ago)" if pod.last_ending else ""
            rows.append([pod.service.namespace, pod.name, f"{int(pod.is_ready)}/1", status_of(pod),
            f"{pod.restarts}{ended}",
                         age(world.now - pod.created), pod.ip, pod.node])  # fmt: skip
    return _table(rows)


def events_table(world: World, *, namespace: str = "", about: str = "", only_warnings: bool = False) -> str:
    """As `kubectl get events -A --sort-by=.lastTimestamp`."""
    rows = [["NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]]
    for event in sorted(world.events, key=lambda event: event.last):
        if (
            world.now - event.last > timedelta(hours=1)
            or namespace not in ("", event.namespace)
            or about not in f"{event.name} {event.message}"
        ):
            continue
        if event.type == "Warning" or not only_warnings:
            rows.append(
                [
                    event.namespace,
                    _seen(world, event),
                    event.type,
                    event.reason,
                    f"{event.kind.lower()}/{event.name}",
                    event.message,
                ]
            )
    return _table(rows)


def deployments_table(world: World, *, namespace: str = "") -> str:
    """As `kubectl get deployments -A -o wide`."""
    rows = [["NAMESPACE", "NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES"]]
    for service in sorted(world.services.values(), key=lambda service: service.key):
        if service.workload == "Deployment" and namespace in ("", service.namespace):
            pods = world.pods_of(service)
            ready = sum(pod.is_ready for pod in pods)
            latest = world.rollouts[service.key][-1]
            first = world.rollouts[service.key][0]
            rows.append([service.namespace, service.name, f"{ready}/{service.replicas}", str(len(pods)), str(ready),
                         age(world.now - first.at), service.name, latest.image])  # fmt: skip
    return _table(rows)


def rollout_history(world: World, service: Service) -> str:
    """As `kubectl rollout history`, with the time of each revision."""
    rows = [["REVISION", "DEPLOYED", "IMAGE", "MEMORY LIMIT", "CHANGE-CAUSE"]]
    rows += [
        [str(rollout.revision), _stamp(rollout.at), rollout.image, rollout.memory or "none", rollout.change]
        for rollout in world.rollouts[service.key]
    ]
    return f"deployment.apps/{service.name}\n{_table(rows)}"


def config_yaml(world: World, service: Service) -> str:
    """The ConfigMap of a service with its history, and the environment of its containers."""
    lines = [
        "apiVersion: v1",
        "kind: ConfigMap",
        "metadata:",
        f"  name: {service.name}-config",
        f"  namespace: {service.namespace}",
        "  annotations:",
    ]
    for number, change in enumerate(world.config_changes[service.key], start=1):
        said = f"{_stamp(change.at)} {change.by} changed {change.key} from {change.before!r} to {change.after!r}"
        lines.append(f"    change.example.net/{number}: {json.dumps(said)}")
    lines += ["data:", *(f"  {key}: {json.dumps(value)}" for key, value in world.config[service.key].items())]
    lines += ["---", "# variables of the containers", "env:"]
    lines += [f"- name: {name}\n  value: {json.dumps(value)}" for name, value in world.environment[service.key].items()]
    return "\n".join(lines) + "\n"


def describe_pod(world: World, pod: Pod) -> str:
    """As `kubectl describe pod`."""
    service = pod.service
    lines = [
        f"Name:             {pod.name}",
        f"Namespace:        {service.namespace}",
        "Priority:         0",
        f"Service Account:  {service.name}",
        f"Node:             {pod.node}/{world.node(pod.node).ip}",
        f"Start Time:       {pod.created:%a, %d %b %Y %H:%M:%S} +0000",
        f"Labels:           app.kubernetes.io/name={service.name}",
        f"Status:           {pod.phase}",
        *([f"Reason:           {pod.reason}", f"Message:          {pod.message}"] if pod.reason else []),
        f"IP:               {pod.ip}",
        f"Controlled By:    ReplicaSet/{pod.name.rpartition('-')[0]}",
        "Containers:",
        f"  {service.name}:",
        f"    Image:          {pod.image}",
        f"    Port:           {service.port}/TCP",
    ]
    lines += _described_state(pod)
    lines += [
        f"    Ready:          {pod.is_ready}",
        f"    Restart Count:  {pod.restarts}",
        "    Limits:",
        f"      memory:  {pod.memory or 'none'}",
        "    Requests:",
        "      cpu:     250m",
        (
            f"    Readiness:    http-get http://:{service.port}{pod.probe_path} delay=5s timeout=1s period=5s "
            "#success=1 "
            "#failure=3"
        ),
        "    Environment:",
        *(f"      {name}:  {value}" for name, value in world.environment[service.key].items()),
        "Conditions:",
        "  Type                        Status",
        "  PodScheduled                True",
        f"  Ready                       {pod.is_ready}",
        f"  ContainersReady             {pod.is_ready}",
        "QoS Class:         Burstable",
        "Tolerations:       node.kubernetes.io/not-ready:NoExecute op=Exists for 300s",
        "                   node.kubernetes.io/unreachable:NoExecute op=Exists for 300s",
        "Events:",
    ]
    rows = [["  Type", "Reason", "Age", "From", "Message"]]
    rows += [
        [f"  {event.type}", event.reason, _seen(world, event), event.source, event.message]
        for event in world.events
        if event.name == pod.name
    ]
    return "\n".join(lines) + ("\n" + _table(rows) if len(rows) > 1 else " <none>\n")


def status_of(pod: Pod) -> str:
    """The value of the STATUS column."""
    return pod.reason or (pod.waiting[0] if pod.waiting else pod.phase)


def age(span: timedelta) -> str:
    """A duration in the format of kubectl: 4m12s, 31h, 12d."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 600:
        return f"{seconds // 60}m{seconds % 60}s" if seconds % 60 else f"{seconds // 60}m"
    if seconds < 3 * 3600:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h" if seconds < 48 * 3600 else f"{seconds // 86400}d"


def _seen(world: World, event: Event) -> str:
    last = age(world.now - event.last)
    return last if event.count == 1 else f"{last} (x{event.count} over {age(world.now - event.first)})"


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return (
        "\n".join(
            "   ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
            for row in rows
        )
        + "\n"
    )


def _listing(items: list[dict[str, Any]]) -> str:
    return json.dumps(
        {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}, indent=4
    )


def _described_state(pod: Pod) -> list[str]:
    lines = []
    if pod.waiting:
        lines += ["    State:          Waiting", f"      Reason:       {pod.waiting[0]}"]
    elif pod.phase == "Running":
        lines += ["    State:          Running", f"      Started:      {pod.created:%a, %d %b %Y %H:%M:%S} +0000"]
    if pod.last_ending:
        lines += [
            "    Last State:     Terminated",
            f"      Reason:       {pod.last_ending.reason}",
            f"      Exit Code:    {pod.last_ending.exit_code}",
            f"      Started:      {pod.last_ending.at - pod.last_ending.lasted:%a, %d %b %Y %H:%M:%S} +0000",
            f"      Finished:     {pod.last_ending.at:%a, %d %b %Y %H:%M:%S} +0000",
        ]
    return lines


# --------------------------------------------------------------------------- objects


def _pod(world: World, pod: Pod) -> dict[str, Any]:
    service = pod.service
    chance = world.chance(f"object/{pod.name}")
    template = pod.name.split("-")[-2]
    labels = {
        "app.kubernetes.io/component": "server",
        "app.kubernetes.io/instance": service.name,
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/name": service.name,
        "app.kubernetes.io/version": pod.image.rpartition(":")[2],
        "pod-template-hash": template,
    }
    resources: dict[str, Any] = {"requests": {"cpu": "250m", "memory": "128Mi"}}
    if pod.memory:
        resources["limits"] = {"memory": pod.memory}
    token_volume = f"kube-api-access-{template[:5]}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {
                "checksum/config": f"{chance.getrandbits(256):064x}",
                "cni.projectcalico.org/containerID": f"{chance.getrandbits(256):064x}",
                "cni.projectcalico.org/podIP": f"{pod.ip}/32",
                "prometheus.io/port": str(service.port),
                "prometheus.io/scrape": "true",
            },
            "creationTimestamp": _stamp(pod.created),
            "generateName": f"{pod.name.rpartition('-')[0]}-",
            "labels": labels,
            "managedFields": _managed_fields(pod, token_volume),
            "name": pod.name,
            "namespace": service.namespace,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "DaemonSet" if service.workload == "DaemonSet" else "ReplicaSet",
                    "name": pod.name.rpartition("-")[0],
                    "uid": _uid(chance.getrandbits(128)),
                }
            ],
            "resourceVersion": str(chance.randint(10**8, 10**9)),
            "uid": _uid(chance.getrandbits(128)),
        },
        "spec": {
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "podAffinityTerm": {
                                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": service.name}},
                                "topologyKey": "kubernetes.io/hostname",
                            },
                            "weight": 100,
                        }
                    ]
                }
            },
            "containers": [
                {
                    "env": [{"name": name, "value": value} for name, value in world.environment[service.key].items()],
                    "image": pod.image,
                    "imagePullPolicy": "IfNotPresent",
                    "livenessProbe": _probe("/healthz", service, 15),
                    "name": service.name,
                    "ports": [{"containerPort": service.port, "name": "http", "protocol": "TCP"}],
                    "readinessProbe": _probe(pod.probe_path, service, 5),
                    "resources": resources,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                        "runAsNonRoot": True,
                        "runAsUser": 1000,
                    },
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "volumeMounts": [
                        {"mountPath": f"/etc/{service.name}", "name": "config", "readOnly": True},
                        {"mountPath": "/tmp", "name": "scratch"},
                        {
                            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                            "name": token_volume,
                            "readOnly": True,
                        },
                    ],
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": pod.node,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {"fsGroup": 1000},
            "serviceAccount": service.name,
            "serviceAccountName": service.name,
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {
                    "effect": "NoExecute",
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "volumes": [
                {"configMap": {"defaultMode": 420, "name": f"{service.name}-config"}, "name": "config"},
                {"emptyDir": {}, "name": "scratch"},
                {
                    "name": token_volume,
                    "projected": {
                        "defaultMode": 420,
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                        ],
                    },
                },
            ],
        },
        "status": _pod_status(world, pod, f"{chance.getrandbits(256):064x}"),
    }


def _pod_status(world: World, pod: Pod, container_id: str) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": pod.phase, "qosClass": "Burstable", "startTime": _stamp(pod.created)}
    if pod.reason:
        return {**status, "message": pod.message, "reason": pod.reason}
    state: dict[str, Any] = {"running": {"startedAt": _stamp(pod.created)}}
    if pod.waiting:
        state = {"waiting": {"message": pod.waiting[1], "reason": pod.waiting[0]}}
    last: dict[str, Any] = {}
    if pod.last_ending:
        ending = pod.last_ending
        last = {
            "terminated": {
                "containerID": f"containerd://{container_id}",
                "exitCode": ending.exit_code,
                "finishedAt": _stamp(ending.at),
                "reason": ending.reason,
                "startedAt": _stamp(ending.at - ending.lasted),
            }
        }
    ready = {"lastProbeTime": None, "lastTransitionTime": _stamp(pod.created), "status": str(pod.is_ready)}
    if not pod.is_ready:
        ready |= {"message": f"containers with unready status: [{pod.service.name}]", "reason": "ContainersNotReady"}
    settled = {"lastProbeTime": None, "lastTransitionTime": _stamp(pod.created), "status": "True"}
    return {
        "conditions": [
            {**settled, "type": "PodReadyToStartContainers"},
            {**settled, "type": "Initialized"},
            {**ready, "type": "Ready"},
            {**ready, "type": "ContainersReady"},
            {**settled, "type": "PodScheduled"},
        ],
        "containerStatuses": [
            {
                "containerID": f"containerd://{container_id}",
                "image": pod.image,
                "imageID": f"{pod.image.rpartition(':')[0]}@sha256:{container_id[::-1]}",
                "lastState": last,
                "name": pod.service.name,
                "ready": pod.is_ready,
                "restartCount": pod.restarts,
                "started": pod.is_ready,
                "state": state,
            }
        ],
        "hostIP": world.node(pod.node).ip,
        "podIP": pod.ip,
        "podIPs": [{"ip": pod.ip}],
        **status,
    }


def _managed_fields(pod: Pod, token_volume: str) -> list[dict[str, Any]]:
    mounts: dict[str, Any] = {
        f'k:{{"mountPath":"{path}"}}': {".": {}, "f:mountPath": {}, "f:name": {}}
        for path in ("/tmp", f"/etc/{pod.service.name}")
    }
    container = {
        ".": {},
        "f:image": {},
        "f:imagePullPolicy": {},
        "f:name": {},
        "f:resources": {".": {}, "f:requests": {}},
        "f:volumeMounts": mounts,
    }
    spec = {
        f'f:containers.k:{{"name":"{pod.service.name}"}}': container,
        "f:dnsPolicy": {},
        "f:restartPolicy": {},
        "f:volumes": {
            f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}} for name in ("config", "scratch", token_volume)
        },
    }
    conditions: dict[str, Any] = {
        f'k:{{"type":"{kind}"}}': {".": {}, "f:lastTransitionTime": {}, "f:status": {}}
        for kind in ("Initialized", "Ready")
    }
    return [
        {
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
            "manager": manager,
            "operation": "Update",
            "time": _stamp(pod.created),
            **({"subresource": "status"} if manager == "kubelet" else {}),
        }
        for manager, fields in (
            (
                "kube-controller-manager",
                {"f:metadata": {"f:labels": {".": {}, "f:pod-template-hash": {}}}, "f:spec": spec},
            ),
            (
                "kubelet",
                {"f:status": {"f:conditions": conditions, "f:containerStatuses": {}, "f:phase": {}, "f:podIP": {}}},
            ),
        )
    ]


def _probe(path: str, service: Service, period: int) -> dict[str, Any]:
    return {
        "failureThreshold": 3,
        "httpGet": {"path": path, "port": service.port, "scheme": "HTTP"},
        "initialDelaySeconds": 5,
        "periodSeconds": period,
        "successThreshold": 1,
        "timeoutSeconds": 1,
    }


_HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "NTPProblem": ("False", "NTPIsUp", "ntp service is up"),
    "KernelDeadlock": ("False", "KernelHasNoDeadlock", "kernel has no deadlock"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


def _node(world: World, node: Node) -> dict[str, Any]:
    chance = world.chance(f"object/{node.name}")
    conditions = []
    for kind, (status, reason, message) in _HEALTHY.items():
        now = node.conditions.get(kind)
        conditions.append(
            {
                "lastHeartbeatTime": _stamp(world.now - timedelta(seconds=chance.randint(5, 50))),
                "lastTransitionTime": _stamp(now.since if now else node.booted),
                "message": now.message if now else message,
                "reason": now.reason if now else reason,
                "status": now.status if now else status,
                "type": kind,
            }
        )
    capacity = {
        "cpu": "16",
        "ephemeral-storage": "104845292Ki",
        "memory": f"{node.memory_gib * 2**20}Ki",
        "pods": "110",
    }
    images = sorted({pod.image for pod in world.pods if pod.node == node.name})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "creationTimestamp": _stamp(node.booted),
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": node.name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.4xlarge",
                "topology.kubernetes.io/zone": chance.choice("abc"),
            },
            "name": node.name,
            "resourceVersion": str(chance.randint(10**8, 10**9)),
            "uid": _uid(chance.getrandbits(128)),
        },
        "spec": {
            "podCIDR": f"10.244.{world.nodes.index(node)}.0/24",
            "providerID": f"cloud:///{chance.getrandbits(64):016x}",
        },
        "status": {
            "addresses": [{"address": node.ip, "type": "InternalIP"}, {"address": node.name, "type": "Hostname"}],
            "allocatable": capacity,
            "capacity": capacity,
            "conditions": conditions,
            "images": [{"names": [image], "sizeBytes": chance.randint(40_000_000, 400_000_000)} for image in images],
            "nodeInfo": {
                "architecture": "amd64",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.41",
                "kubeletVersion": "v1.31.9",
                "osImage": "Flatcar Container Linux",
            },
        },
    }


def _uid(bits: int) -> str:
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
