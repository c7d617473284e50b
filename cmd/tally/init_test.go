package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every start of tally pays for the initialisation of every package it links,
// and so does every sandbox, which starts tally again inside. Time depends on
// the machine, so these bound what causes it: how many packages have something
// to initialise, and what they allocate. gVisor is counted apart, or its size
// would hide a heavy driver that was linked by accident.
//
// So is CEL, with the protocol buffers that it brings: conditions of policies
// and expressions of graders are written in it.
//
// The bounds are what was measured with the sandbox, the signatures, YAML and
// Starlark linked, plus about half. Raise one only for a package that earns it,
// and say which.
var initBounds = map[string]initCost{
	"gVisor": {packages: 270, allocs: 14_500, bytes: 1_800_000}, // measured 182, 9,767 and 1,212,384
	// go-containerregistry ("sandbox image pull": names and tokens of registries, with the
	// digests of go-digest) earned the last raise: 1,254 allocations in 0.3 ms.
	"everything else": {packages: 250, allocs: 4_200, bytes: 580_000}, // measured 4,126 allocations and 564,360 bytes
}

type initCost struct{ packages, allocs, bytes int }

var initLine = regexp.MustCompile(`(?m)^init (\S+) @[0-9.]+ ms, [0-9.]+ ms clock, (\d+) bytes, (\d+) allocs$`)

func TestInitialisationStaysSmall(t *testing.T) {
	// The test binary would also initialise what the tests import.
	binary, err := staticTally()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("tally version: %v\n%s", err, trace.Bytes())
	}

	costs := map[string]initCost{}
	for _, m := range initLine.FindAllStringSubmatch(trace.String(), -1) {
		owner := "everything else"
		switch {
		case strings.HasPrefix(m[1], "gvisor.dev/"):
			owner = "gVisor"
		case strings.HasPrefix(m[1], "cel.dev/"), strings.HasPrefix(m[1], "google.golang.org/"), strings.HasPrefix(m[1], "github.com/antlr4-go/"):
			owner = "CEL"
		}
		c := costs[owner]
		c.packages++
		c.bytes += number(t, m[2])
		c.allocs += number(t, m[3])
		costs[owner] = c
	}
	if costs["everything else"].packages == 0 {
		t.Fatalf("no trace of initialisation in:\n%s", trace.Bytes())
	}
	for owner, bound := range initBounds {
		c := costs[owner]
		t.Logf("%s: %d packages, %d allocations, %d bytes", owner, c.packages, c.allocs, c.bytes)
		if c.packages > bound.packages || c.allocs > bound.allocs || c.bytes > bound.bytes {
			t.Errorf("initialisation of %s: %+v, bound %+v:\n%s", owner, c, bound, trace.Bytes())
		}
	}
}

func number(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
