#!/usr/bin/env bash
# Makes an environment with warpwatch, of the version of this action, and with what the repository asks for.
# ENGINE: the folder of warpwatch. PACKAGES: names for pip, with spaces between. RUNNER_TEMP: where the environment goes.
set -euo pipefail

python=$(command -v python || command -v python3)
"$python" -m venv "$RUNNER_TEMP/warpwatch"

# PyCUDA is built here, against CUDA's headers and the driver's stub. A machine with a GPU has them; a free runner takes
# them from Debian.
if ! command -v nvcc > /dev/null && [ ! -x /usr/local/cuda/bin/nvcc ] && ! command -v nvidia-smi > /dev/null; then
  sudo apt-get update
  sudo apt-get install --yes --no-install-recommends nvidia-cuda-toolkit
  export LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/stubs
fi
read -ra packages <<< "${PACKAGES:-}"
"$RUNNER_TEMP/warpwatch/bin/python" -m pip install "${ENGINE}[report,disassembly]" "${packages[@]}"
