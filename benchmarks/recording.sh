#!/usr/bin/env bash
# Prints what recording for a submission costs: the same replayed attempt (165 cases
# in the shape of GAIA, three tools, a page of 8 KB each) without and with it, in
# alternating pairs of one process, each attempt with a ledger of its own. The ratio
# of each pair, in processor time (user and system) and in time on the clock: median
# and quartiles in per cent, and the least with by the least without it, which other
# programs on the machine disturb least.
#
#   benchmarks/recording.sh [PAIRS] [PROCESSORS]
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -vet=off -o "$work/harness.test" ./internal/run/harness
cd internal/run/harness
GOMAXPROCS=${2:-$(nproc)} "$work/harness.test" -test.run '^$' -test.bench '^BenchmarkRecording$' -test.benchtime "${1:-31}x"
