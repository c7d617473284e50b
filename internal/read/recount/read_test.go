package recount

import (
	"tallystick/internal/read/history"
	"tallystick/internal/testing/historytest"
)

// read verifies the ledger and reads its history.
func read(b *historytest.Book, o history.Options) *history.History {
	b.Helper()
	h, err := history.NewReader(o).Read(b.Verify)
	if err != nil {
		b.Fatal(err)
	}
	return h
}
