#!/usr/bin/env bash
# Prints how fast the audit reads trajectories, in megabytes for each second of one
# processor, which does not depend on who else uses the machine, and as a ratio to
# two floors of the same run: SHA-256 of the same bytes, and bytes.Contains of one
# text. "Prefilter" is the scan that every text goes through: folded, looked through
# for anything encoded, and for every question and answer of 500 tasks. "Full" is the
# file in and the report out. COUNT=n repeats.
set -euo pipefail
cd "$(dirname "$0")/.."
go test ./internal/read/audit -vet=off -run '^$' -bench 'Floor|Contains|Prefilter|Full' -benchtime "${TIME:-2s}" -count "${COUNT:-1}" "$@" |
	awk '/^Benchmark/ {
		name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name)
		for (i = 2; i < NF; i++) if ($(i+1) == "MB/cpu-s") { sum[name] += $i; n[name]++ }
	}
	END {
		split("Floor Contains Prefilter Full", order, " ")
		for (k = 1; k <= 4; k++) {
			x = order[k]; v = sum[x] / n[x]
			printf "%-10s %7.0f MB/s on one processor, %7.0f on two, %5.2f x SHA-256, %5.2f x bytes.Contains\n", x, v, 2 * v, v / (sum["Floor"] / n["Floor"]), v / (sum["Contains"] / n["Contains"])
		}
	}'
