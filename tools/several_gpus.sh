#!/bin/sh
# Times runs on one GPU and on all GPUs of this machine, one after the other, everything compiled before:
#   sh tools/several_gpus.sh correctness
#   sh tools/several_gpus.sh against      --against with other machine code of every kernel: -lineinfo is added
# Prints the seconds and the verdicts of each; whole outputs go to the folder $OUT, if it is set. The second takes some
# nine minutes on two H100s, and needs a clean checkout, which it leaves as it was.
set -e
out=${OUT:-$(mktemp -d)}
count=$(nvidia-smi --list-gpus | wc -l)
run() {
    name=$1
    shift
    begin=$(date +%s.%N)
    python3 -m pytest "$@" -q > "$out/$name.txt" 2>&1 || true
    end=$(date +%s.%N)
    echo "$name: $(echo "$end $begin" | awk '{printf "%.1f s", $1 - $2}'), $(tail -1 "$out/$name.txt")"
    grep -E "^[0-9,]+ (slower|faster|same|unsure|identical)|^median change|^controls|^against|worker processes" "$out/$name.txt" || true
}

case $1 in correctness | against) ;; *) echo "say what to time: correctness or against" >&2; exit 2 ;; esac
[ "$count" -gt 1 ] || { echo "there are not several GPUs here" >&2; exit 2; }
nvidia-smi --query-gpu=name,uuid --format=csv,noheader
python3 -m tools.compile_all
case $1 in
correctness)
    run correctness-first correctness -n "$count"
    run correctness-1 correctness
    run "correctness-$count" correctness -n "$count"
    run "correctness-$((2 * count))" correctness -n "$((2 * count))"
    ;;
against)
    git diff --quiet -- warpwatch || { echo "warpwatch/ has changes: commit them, or put them back" >&2; exit 1; }
    trap 'git checkout -q -- warpwatch/devices/compile/compiler.py' EXIT
    trap 'exit 130' INT TERM
    sed -i 's/^NVCC_FLAGS = (/NVCC_FLAGS = ("-lineinfo", /' warpwatch/devices/compile/compiler.py
    git diff --quiet -- warpwatch && { echo "no flag was added" >&2; exit 1; }
    python3 -m tools.compile_all
    run "against-$count" bench --against HEAD -n "$count"
    run against-1 bench --against HEAD
    ;;
esac
