// Package testing is the door to what only tests need: fakes, fixtures, servers to
// try against, and checks of the tree itself.
//
// No program links anything of it; structure says so when one does.
package testing
