#!/usr/bin/env bash
# Makes an environment with the one package that `warpwatch comment` needs, by its hash. No token is here.
# ENGINE: the folder of warpwatch. RUNNER_TEMP: where the environment goes.
set -euo pipefail

python -m venv "$RUNNER_TEMP/comment"
"$RUNNER_TEMP/comment/bin/python" -m pip install --no-deps --only-binary :all: --require-hashes \
  -r "$ENGINE/.github/actions/comment/requirements.txt"
