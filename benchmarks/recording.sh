#!/usr/bin/env bash
# Prints what recording for a submission costs: the same replayed attempt (165 cases
# in the shape of GAIA, three tools, a page of 8 KB each) with and without it, in
# turns, and the ratio of processor times of each pair. Processor time and not time
# on the clock, so that other programs on the machine disturb it less.
#
#   benchmarks/recording.sh [PAIRS] [ATTEMPTS_A_RUN]
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-9} attempts=${2:-6}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -vet=off -o "$work/harness.test" ./internal/harness
cd internal/harness

# The processor time, user and system, of a run of the benchmark in one way.
cpu() {
    local TIMEFORMAT='%U %S'
    { time "$work/harness.test" -test.run '^$' -test.bench "^BenchmarkRecording\$/^$1\$" -test.benchtime "${attempts}x" >/dev/null; } 2>&1 | awk '{print $1 + $2}'
}

cpu plain >/dev/null # the first run warms files up
for i in $(seq "$pairs"); do
    if ((i % 2)); then plain=$(cpu plain) recorded=$(cpu recorded); else recorded=$(cpu recorded) plain=$(cpu plain); fi
    awk -v i="$i" -v p="$plain" -v r="$recorded" 'BEGIN{printf "%d: plain %.2f s, recorded %.2f s, ratio %.4f\n", i, p, r, r/p}'
done | tee "$work/pairs"
# The median and the quartiles: a single pair says little on a machine that others use.
sed 's/.* //' "$work/pairs" | sort -n | awk '{x[NR] = $1}
	function at(q,  h, l) { h = 1 + (NR - 1) * q; l = int(h); return x[l] + (h - l) * (x[l < NR ? l + 1 : l] - x[l]) }
	END { printf "recording takes %+.1f %% of the processor time (median of %d pairs; quartiles %+.1f %% and %+.1f %%; least %+.1f %%, most %+.1f %%)\n", 100*(at(.5)-1), NR, 100*(at(.25)-1), 100*(at(.75)-1), 100*(x[1]-1), 100*(x[NR]-1) }'
