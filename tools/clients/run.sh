#!/usr/bin/env bash
# Drives the gateway with the official SDKs of OpenAI, Azure, Anthropic, Google,
# AWS and MCP for TypeScript and Python, as npm and PyPI have them, in replay and
# live against a server of ours, and with the MCP inspector. Needs node, npm, python3 and the two registries, and takes a minute;
# everything goes to a temporary folder, or to the folder given, which is kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -gt 0 ]; then
	mkdir -p "$1"
	dir=$(cd "$1" && pwd)
else
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
fi
cp "$here"/package.json "$here"/agent.mjs "$here"/modern.mjs "$here"/agent.py "$here"/apis.mjs "$here"/apis.py "$dir"/
(cd "$dir" && npm install --no-audit --no-fund --loglevel=error)
if [ ! -x "$dir/python/bin/python" ]; then
	python3 -m venv "$dir/python"
fi
"$dir/python/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
echo "node $(node --version), $("$dir/python/bin/python" --version)"
(cd "$dir" && npm ls --depth=0 | sed 1d)
"$dir/python/bin/pip" freeze --disable-pip-version-check | grep -Ei '^(openai|anthropic|boto3|google-genai|mcp)=='
cd "$here/../.."
TALLY_CLIENTS="$dir" go test ./internal/run/gateway -count=1 -v -timeout 1200s -run '^(TestOfficialClients|TestEveryAPIByItsSDK)$'
