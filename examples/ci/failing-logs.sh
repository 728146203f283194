#!/usr/bin/env bash
# Writes a Markdown comment about what failed: failing-logs.sh LOG... > comment.md
set -euo pipefail

# A fence that no log contains by accident; secrets are masked, and the budget is what a reviewer reads.
fence='````````'
echo "### What failed"
echo
echo "${fence}text"
tersely condense "$@" --budget "${BUDGET:-1200}" --focus "${FOCUS:-errors, failures, exceptions and their causes}" 2> sizes.txt
echo "$fence"
echo
echo "<sub>$(tail -n 1 sizes.txt). The whole logs are in the artifacts of this run.</sub>"
