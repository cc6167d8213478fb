#!/usr/bin/env bash
# Calls `warpwatch ci` with the inputs of the action, and says where the results are.
# A pull request's words are never part of a command: they arrive in the environment.
set -euo pipefail
: "${FOLDER:?}" "${TESTS:?}" "${BENCH:?}" "${DEVICE:?}" "${ARCH:?}"

cd "$FOLDER"
read -ra paths <<< "$TESTS"
echo "results=warpwatch-results" >> "$GITHUB_OUTPUT"
"$RUNNER_TEMP/warpwatch/bin/python" -m warpwatch ci --results warpwatch-results --tests "${paths[@]}" \
  --bench "$BENCH" --against "$AGAINST" --device "$DEVICE" --arch "$ARCH"
