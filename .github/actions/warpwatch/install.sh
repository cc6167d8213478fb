#!/usr/bin/env bash
# Makes an environment with warpwatch, of the version of this action, and with what the repository asks for.
# ENGINE: the folder of warpwatch. PACKAGES: names for pip, with spaces between. RUNNER_TEMP: where the environment goes.
set -euo pipefail

python=$(command -v python || command -v python3)
"$python" -m venv "$RUNNER_TEMP/warpwatch"
read -ra packages <<< "${PACKAGES:-}"
"$RUNNER_TEMP/warpwatch/bin/python" "$ENGINE/tools/install.py" --engine "${packages[@]}"
