#!/bin/sh
# Times how long `pytest bench --against HEAD` takes to answer on the GPU here: the table in docs/baselines.md.
#   sh tools/answers.sh [TIMES]
# Each edit of warptiled.cu is compared once with compiling, then TIMES times (2, unless given) with everything compiled.
# Prints the seconds and the verdicts of each; whole outputs go to the folder $OUT, if it is set. It needs a clean
# checkout, which it leaves as it was.
set -e
out=${OUT:-$(mktemp -d)}
times=${1:-2}
file=kernels/matmul/warptiled.cu
one=matmul-warptiled-128x64-2048x2048x2048-float32

answer() {
    name=$1
    shift
    begin=$(date +%s.%N)
    python3 -m pytest bench --against HEAD -q "$@" > "$out/$name.txt" 2>&1 || true
    end=$(date +%s.%N)
    verdicts=$(grep -E "^[0-9,]+ (slower|faster|same|unsure|identical)" "$out/$name.txt" || tail -1 "$out/$name.txt")
    processes=$(grep -E "^[^ ]+: (slower|faster|unsure): " "$out/$name.txt" | grep -oE "[0-9]+ processes" | sort | uniq -c | tr -s ' \n' ' ')
    echo "$name: $(echo "$end $begin" | awk '{printf "%.1f", $1 - $2}') s; $verdicts;$processes"
}
edited() { # name, sed's command
    git checkout -q -- "$file"
    sed -i "$2" "$file"
    git diff --quiet -- "$file" && { echo "the edit '$1' changes nothing" >&2; exit 1; }
    answer "$1-first" -k warptiled
    for number in $(seq "$times"); do answer "$1-$number" -k warptiled; done
}

git diff --quiet -- "$file" || { echo "$file has changes: commit them, or put it back" >&2; exit 1; }
trap 'git checkout -q -- "$file"' EXIT
trap 'exit 130' INT TERM
nvidia-smi --query-gpu=name,uuid --format=csv,noheader
[ -z "$PYTHONDONTWRITEBYTECODE" ] || echo "PYTHONDONTWRITEBYTECODE is set: each process compiles its modules anew" >&2
for number in $(seq "$times"); do answer "nothing-$number"; done
edited barrier '/__syncthreads();/s/$/ __syncthreads();/'
for number in $(seq "$times"); do answer "one-$number" -k "$one"; done
edited unrolled 's/#pragma unroll 1$/#pragma unroll 2/'
