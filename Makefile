# Every target only calls go, or one script in .ci.
# -trimpath: what is built does not depend on where the checkout lies, so a fresh
# one finds everything in the build cache.
export GOFLAGS += -trimpath
# The tests of the sandbox take longest, so they begin first, and mostly wait, so
# there is a test program more than there are processors. -s -w: no debugger reads the
# test programs, and linking them without tables for a debugger takes half as long.
# .ci/run has vet as a step of its own.
.PHONY: build test bench docs tidy ci conformance release
build:
	CGO_ENABLED=0 go build -o bin/ ./cmd/...
test:
	.ci/setup
	go test -vet=off -ldflags='-s -w' -timeout 40m -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) ./internal/run/sandbox ./...
bench:
	go test -run '^$$' -bench . -benchmem ./...
docs:
	go run ./internal/testing/rules/gen
	go test ./internal/cli -run 'Docs$$' -update
	go test ./internal/record/evidence -run RecordsPage -update
	go test ./internal/run/trajectory -run 'SchemaFile|EventsPage' -update
	go test ./internal/run/bench -run BenchPage -update
	go test ./internal/run/vantage -run VantagePage -update
	go test ./internal/read/step -run StepPage -update
	go test ./internal/read/audit -run AuditPage -update
	go test ./internal/testing/cheats -run TestRates -update
	go test ./internal/read/outline -run GoldenPage -update
	go test ./internal/share/importer -run ImportPage -update
	go test ./internal/share/export -run ExportPage -update
	go test ./internal/run/sandbox -run ClassPages -update
	go test ./internal/share/browser -run Rules -update
	go test ./internal/share/browser -run Digest -update
	go test ./cmd/tally -run SurfacesPage -update
	go test ./internal/testing/structure -run ImportGraph -update
tidy:
	go mod tidy && cd tools && go mod tidy
ci:
	.ci/run
conformance:
	.ci/conformance
release:
	.ci/release
