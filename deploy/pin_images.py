"""Pins the images that the container file and the compose files name by digest: `make pin-images`.

A tag can be moved to another image; a digest cannot. Digests come from the registry, through whichever of docker
buildx, crane and skopeo is installed, so this needs a network; `--check` needs none and lists what has no digest.
Run it again to follow a tag to its newest image.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("Dockerfile", "docker-compose.yml", "deploy/compose.yaml", "examples/alertmanager/compose.yaml")
OWN = "tersely"
"""The image that is built from the container file itself."""

TOOLS: dict[str, tuple[str, ...]] = {
    "docker": ("docker", "buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", "IMAGE"),
    "crane": ("crane", "digest", "IMAGE"),
    "skopeo": ("skopeo", "inspect", "--format", "{{.Digest}}", "docker://IMAGE"),
}
NO_TOOL = (
    "Nothing here can ask a registry: install docker with buildx, crane or skopeo, and run `make pin-images` again."
)

_NAMED = re.compile(
    r"(?m)^(FROM(?:[ \t]+--\S+)*[ \t]+|[ \t]+(?:- )?image:[ \t]+)([\"']?)([^\s\"'@]+)(@sha256:[0-9a-f]{64})?"
)
_STAGE = re.compile(r"(?im)^FROM[ \t].*[ \t]AS[ \t]+(\S+)")


def named(text: str) -> Iterator[re.Match[str]]:
    """Every place that names an image of others; group 3 is its name and tag, group 4 its digest."""
    built = {OWN, "scratch", *_STAGE.findall(text)}
    return (found for found in _NAMED.finditer(text) if found[3] not in built and "$" not in found[3])


def unpinned(root: Path) -> list[str]:
    """`file: image`, for every image without a digest."""
    texts = ((name, root / name) for name in FILES)
    return [
        f"{name}: {found[3]}"
        for name, path in texts
        if path.exists()
        for found in named(path.read_text("utf-8"))
        if not found[4]
    ]


def digest_of(image: str) -> str:
    """
    Raises:
        SystemExit: No tool is installed, or the registry does not answer.
    """
    tool = next((tool for tool in TOOLS if shutil.which(tool)), None)
    if tool is None:
        raise SystemExit(NO_TOOL)
    command = [part.replace("IMAGE", image) for part in TOOLS[tool]]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    digest = asked.stdout.strip()
    if asked.returncode or not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        reason = (asked.stderr.strip() or digest or "no answer").splitlines()[-1]
        raise SystemExit(f"{tool} could not resolve {image}: {reason}. Nothing was changed.")
    return digest


def pin(root: Path) -> list[str]:
    """Write the digest of every image behind its tag; returns `image@digest` for each."""
    texts = {path: path.read_text("utf-8") for path in (root / name for name in FILES) if path.exists()}
    images = sorted({found[3] for text in texts.values() for found in named(text)})
    digests = {image: digest_of(image) for image in images}  # All of them, before a file is changed.
    for path, text in texts.items():
        for found in reversed(list(named(text))):
            text = f"{text[: found.end(3)]}@{digests[found[3]]}{text[found.end() :]}"
        path.write_text(text, "utf-8")
    return [f"{image}@{digest}" for image, digest in digests.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="list the images without a digest, and fail if there are any"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    asked = parser.parse_args()
    if not asked.check:
        print("\n".join(pin(asked.root)))
    if missing := unpinned(asked.root):
        sys.exit(
            "Without a digest:\n" + "\n".join(missing) + "\nRun `make pin-images` where a registry can be reached."
        )


if __name__ == "__main__":
    main()
