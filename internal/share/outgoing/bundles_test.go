package outgoing

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// A disk that refuses ends the packing with its error, and no caller waits for ever.
func TestBundleWriterTellsWhatCouldNotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := newBundleWriter()
	for i := range 3 * bundleWriters {
		folder := dir
		if i == 7 {
			folder = filepath.Join(dir, "file") // no folder at all
		}
		w.write(store.Named{Name: filepath.Join(folder, fmt.Sprint(i)), Data: []byte("bundle")})
	}
	if err := w.close(); !refusal.Is(err, refusal.AlreadyExists) {
		t.Errorf("got %v", err)
	}

	w = newBundleWriter()
	w.write(store.Named{Name: filepath.Join(dir, "last"), Data: []byte("bundle")})
	if err := w.close(); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "last")); string(data) != "bundle" {
		t.Errorf("%q, %v", data, err)
	}
}
