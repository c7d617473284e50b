# Every target only calls go, or one script in .ci.
.PHONY: build test bench docs tidy ci
build:
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...
test:
	.ci/setup
	go test ./...
bench:
	go test -run '^$$' -bench . -benchmem ./...
docs:
	go test ./internal/cli -run 'Docs$$' -update
	go test ./internal/evidence -run RecordsPage -update
	go test ./internal/trajectory -run SchemaFile -update
tidy:
	go mod tidy && cd tools && go mod tidy
ci:
	.ci/run
