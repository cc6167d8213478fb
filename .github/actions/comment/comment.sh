#!/usr/bin/env bash
# Calls `warpwatch comment` with what the event says. ENGINE: the folder of warpwatch, whose code alone runs here.
set -euo pipefail

python -m venv "$RUNNER_TEMP/comment"
"$RUNNER_TEMP/comment/bin/python" -m pip install --only-binary :all: numpy ml_dtypes msgspec argcomplete
mkdir -p "$RUNNER_TEMP/warpwatch-results"
PYTHONPATH=$ENGINE "$RUNNER_TEMP/comment/bin/python" -P -m warpwatch comment "$RUNNER_TEMP/warpwatch-results" \
  --title "$TITLE" --head "$HEAD" --sha "$SHA" --conclusion "$CONCLUSION" \
  --run-url "$RUN_URL" --site-url "${SITE_URL:-$RUN_URL#artifacts}"
