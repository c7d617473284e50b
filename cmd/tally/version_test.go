package main

import _ "unsafe" // for go:linkname

// programVersion is what the linker tells a release. The Go tool stamps no commit
// into a test, and what a program of unknown source records does not count for
// promotion, so the scripts run a program with a version. A script that wants
// one without sets TALLY_TEST_NO_VERSION, which only this test knows.
//
//go:linkname programVersion tallystick/internal/cli.version
var programVersion string
