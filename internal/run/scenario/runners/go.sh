# Runs the named Go packages and prints what "go test -json" prints. The compiler,
# downloaded modules and compiled packages come from read-only folders; what is
# compiled here is written to /tmp and thrown away.
export PATH=/toolchain/go/bin:$PATH GOROOT=/toolchain/go GOMODCACHE=/cache/go-mod GOCACHE=/tmp/go-build GOPATH=/tmp/go
export GOPROXY=off GOSUMDB=off GOVCS='*:off' GOENV=off GOWORK=off GOTOOLCHAIN=local GOFLAGS= CGO_ENABLED=0 GOTELEMETRY=off
if [ -d /cache/go-build ]; then
	cp -rs /cache/go-build /tmp/go-build
	# The cache is not tidied while it is used: nothing in it can be removed.
	rm -f /tmp/go-build/trim.txt
	date +%s > /tmp/go-build/trim.txt
fi
exec go test -json -count=1 -vet=off -ldflags='-s -w' "$@"
