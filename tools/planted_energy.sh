#!/bin/sh
# Plants arithmetic into the copy kernel, which costs more energy than time, and compares both with HEAD.
#   sh tools/planted_energy.sh [PYTEST OPTIONS]
# The copy waits for memory, and twelve products and sums an element are mostly done meanwhile. The result stays the same.
# It takes a minute on an H100. It ends with an error unless the run fails and calls more energy, and needs a clean
# checkout, which it leaves as it was.
set -e
file=kernels/copy/naive.cu
git diff --quiet -- "$file" || { echo "$file has changes: commit them, or put it back" >&2; exit 1; }
said=$(mktemp)
trap 'git checkout -q -- "$file"; rm -f "$said"' EXIT
trap 'exit 130' INT TERM
sed -i 's/^ *b\[i\] = a\[i\];$/    { scalar_t v = a[i], w = v;\n#pragma unroll\n      for (int k = 0; k < 12; k++) w = w * scalar_t(1.0000001) + scalar_t(1e-30);\n      b[i] = w == scalar_t(1e30) ? w : v; }/' "$file"
git diff --quiet -- "$file" && { echo "the line to change was not found in $file" >&2; exit 1; }
status=0
python3 -m pytest bench --against HEAD --energy --fail-on energy -q -k "copy-naive-256 and float32" "$@" > "$said" 2>&1 ||
    status=$?
grep -E "energy|: slower|: unsure" "$said" || cat "$said"
grep -q ": more energy: " "$said" || { echo "no kernel takes more energy" >&2; exit 1; }
[ "$status" -eq 1 ] || { echo "the run ended with status $status, not 1" >&2; exit 1; }
