#!/bin/sh
# Runs the examples on a GPU: checks them on it and on the software device, times them, and compares each kernel with
# a copy that has a planted slowdown of about 2 %. Prints short tables; needs warpwatch and the repository on PYTHONPATH.
set -e
repository=$(pwd)
folder=$(mktemp -d)
commit() { git init -q . && git add -A && git -c user.name=tester -c user.email=tester@example.org commit -qm first; }
pytest() { python3 -m pytest -p warpwatch.plugin -p no:cacheprovider -q "$@"; }

cp -r examples/cuda "$folder/cuda" && cd "$folder/cuda" && commit
echo "== examples/cuda on the GPU" && pytest tests -n 8 --tb=short --device gpu 2>&1 | tail -6
echo "== examples/cuda on the software device" && pytest tests -n 12 --tb=short --device software 2>&1 | tail -6
echo "== times" && pytest bench --device gpu --benchmark-columns=median,stddev 2>&1 | grep -v "^FAILED" | tail -40
python3 - <<'EOF'
from pathlib import Path
from tests.examples.faults import SLOWDOWNS
for edit in SLOWDOWNS:
    text = Path(edit.file).read_text()
    if edit.old in text:
        Path(edit.file).write_text(text.replace(edit.old, edit.new))
EOF
echo "== planted slowdowns of about 2 %" && pytest bench --device gpu --against HEAD 2>&1 | grep -v "^bench_kernel" | grep -v "^FAILED" | tail -40
cp -r "$repository/examples/calls" "$folder/calls" && cd "$folder/calls" && commit
echo "== examples/calls on the GPU" && pytest tests bench --tb=short --device gpu --benchmark-columns=median,stddev 2>&1 | tail -40
echo "// nothing" >> README.md
echo "== calls against the last commit" && pytest bench --device gpu --against HEAD 2>&1 | grep -v "^bench_kernel" | tail -30
