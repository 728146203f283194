"""Known vulnerabilities of the packages in a requirements file, by pip-audit.

    python -m requirements.vulnerabilities requirements/runtime.txt

Exit code 1 if there are any. Where nothing is known about any package, because the
data cannot be had here, it says so and ends with 0.
"""

import json
import subprocess
import sys


def main(file: str) -> int:
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--format", "json", "-r", file]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(run.stdout)["dependencies"]
    except ValueError:
        print(f"vulnerabilities: not checked; pip-audit ended with: {run.stderr.strip().splitlines()[-1:]}")
        return 0
    unknown = [one["name"] for one in packages if "skip_reason" in one]
    found = [(one, flaw) for one in packages for flaw in one.get("vulns", ())]
    for package, flaw in found:
        fixed = ", ".join(flaw["fix_versions"]) or "no version yet"
        print(f"{package['name']} {package['version']}: {flaw['id']}, fixed in {fixed}")
    if len(unknown) == len(packages):
        print(f"vulnerabilities: not checked; nothing is known here about any of the {len(packages)} packages.")
        return 0
    without = f"; {len(unknown)} could not be checked: {', '.join(unknown)}" if unknown else ""
    print(f"vulnerabilities: {len(found)} in {len(packages) - len(unknown)} packages{without}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
