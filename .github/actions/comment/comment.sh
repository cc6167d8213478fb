#!/usr/bin/env bash
# Calls `warpwatch comment` with what the event says. GITHUB_TOKEN: for this command alone, which runs the code of ENGINE,
# the folder of warpwatch, and msgspec. install.sh has made its environment.
set -euo pipefail

mkdir -p "$RUNNER_TEMP/warpwatch-results"
PYTHONPATH=$ENGINE exec "$RUNNER_TEMP/comment/bin/python" -P -m warpwatch.cli.comment \
  "$RUNNER_TEMP/warpwatch-results" --title "$TITLE" --head "$HEAD" --sha "$SHA" --conclusion "$CONCLUSION" \
  --run-url "$RUN_URL" --site-url "${SITE_URL:-$RUN_URL#artifacts}"
