#!/usr/bin/env bash
# Prints the figures of the ledger, each beside the floor that was measured in
# the same run. Takes about a minute; wants a quiet machine and 1 GB of disk in
# TMPDIR, which should be on the disk that is meant, not in memory.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go test ./benchmarks -count=1 -v -run '^TestLedgerFigures$' -figures "$@"
