package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// Every start of tally pays for the initialisation of every package it links,
// and so does every sandbox, which starts tally again inside. Time depends on
// the machine, so these bound what causes it. They are what was measured plus
// about half: a heavy driver linked by accident goes past them, a new command
// does not. Raise one only for a package that earns it, and say which.
const (
	maxInitPackages = 60
	maxInitAllocs   = 1_500
	maxInitBytes    = 200_000
)

var initLine = regexp.MustCompile(`(?m)^init (\S+) @[0-9.]+ ms, [0-9.]+ ms clock, (\d+) bytes, (\d+) allocs$`)

func TestInitialisationStaysSmall(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "tally")
	// The test binary would also initialise what the tests import.
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("building tally: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("tally version: %v\n%s", err, stderr.Bytes())
	}

	packages, totalBytes, totalAllocs := 0, 0, 0
	for _, m := range initLine.FindAllStringSubmatch(stderr.String(), -1) {
		size, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		allocs, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		packages++
		totalBytes += size
		totalAllocs += allocs
	}
	t.Logf("%d packages, %d allocations, %d bytes", packages, totalAllocs, totalBytes)
	if packages == 0 {
		t.Fatalf("no trace of initialisation in:\n%s", stderr.Bytes())
	}
	if packages > maxInitPackages || totalAllocs > maxInitAllocs || totalBytes > maxInitBytes {
		t.Errorf("initialisation: %d packages (bound %d), %d allocations (bound %d), %d bytes (bound %d):\n%s",
			packages, maxInitPackages, totalAllocs, maxInitAllocs, totalBytes, maxInitBytes, stderr.Bytes())
	}
}
