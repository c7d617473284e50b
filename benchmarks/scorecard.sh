#!/usr/bin/env bash
# Prints how long the real "tally scorecard" and "tally compare" take over
# generated ledgers, and how much memory they need at most. Takes some minutes,
# most of them for writing the ledgers, and 3 GB of disk in TMPDIR.
# RECORDS=n makes it n records instead of a million.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go test ./benchmarks -count=1 -v -timeout 60m -run '^TestScorecardFigures$' -figures "$@"
