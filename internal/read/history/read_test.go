package history

import "tallystick/internal/testing/historytest"

// read verifies the ledger and reads its history.
func read(b *historytest.Book, o Options) *History {
	b.Helper()
	h, err := NewReader(o).Read(b.Verify)
	if err != nil {
		b.Fatal(err)
	}
	return h
}
