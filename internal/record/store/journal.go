package store

import (
	"os"
	"path/filepath"
	"sync"
)

// A Journal is a file of lines that grows while something long is under way.
// Lines reach the file before Append returns and the disk when the system sees
// fit: it survives a crash of the program, not one of the machine. What must
// survive that goes to the ledger and the packs. It may be used from any
// number of goroutines.
type Journal struct {
	name string
	mu   sync.Mutex
	f    *os.File
}

// OpenJournal opens a journal for appending and makes it if need be.
func OpenJournal(name string) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, writeError("making the folder of", name, err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, writeError("opening", name, err)
	}
	return &Journal{name: name, f: f}, nil
}

// Append writes lines, each with its newline, and hands them to the system.
func (j *Journal) Append(lines []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write(lines); err != nil {
		return writeError("writing", j.name, err)
	}
	return nil
}

// Restart empties the journal.
func (j *Journal) Restart() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.f.Truncate(0); err != nil {
		return writeError("emptying", j.name, err)
	}
	return nil
}

// Close syncs and closes the journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.f.Sync()
	if cerr := j.f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return writeError("closing", j.name, err)
	}
	return nil
}
