// Package structure holds the tests of the repository itself: which package may
// import which, who may write to disk, what a command may not do by itself, how
// large a package may be, what every package must say about itself, that the
// import graph in ARCHITECTURE.md is that of the code, and that the README's
// commands work.
//
// The tests read the files themselves. A test that asked the go tool would be
// answered from the test cache after the code changed, and pass falsely; files
// that a test opens are part of the cache key.
package structure
