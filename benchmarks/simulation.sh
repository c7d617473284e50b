#!/usr/bin/env bash
# Simulates thirty days with SCALE times 70 attempts a day (10: 21,000 attempts,
# 120,000 entries), then tampers with them in every way of the test. Takes some
# minutes and 1 GB of disk in TMPDIR, and prints what it simulated.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go test ./internal/read/promote -count=1 -v -timeout 60m -run '^TestThirtyDays$' -simulation.scale "${SCALE:-10}" "$@"
