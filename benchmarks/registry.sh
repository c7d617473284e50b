#!/usr/bin/env bash
# Prints what a registry answers: dry-run, list, for-artifact and publish, with SQLite
# and PostgreSQL, each beside a bare net/http server that answers the same bytes in the
# same run. The server is a process of its own; the load comes from the same machine.
# Takes about ten minutes, wants a quiet machine and 1 GB of disk in TMPDIR.
#
#   benchmarks/registry.sh [-entries N] [-seconds N] [-connections N]
set -euo pipefail
cd "$(dirname "$0")/.."
exec go test ./benchmarks -count=1 -v -timeout 60m -run '^TestRegistryFigures$' -figures "$@"
