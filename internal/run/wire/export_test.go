package wire

import "testing"

// AddMadeUp adds a made-up API to the table for one test, as a file and a row
// of its own would. It is the proof that nothing else is needed.
func AddMadeUp(t testing.TB) {
	t.Helper()
	before := table
	table = append(table[:len(table):len(table)], &madeUpRow)
	t.Cleanup(func() { table = before })
}
