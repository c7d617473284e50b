package cosign

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// A watched log is one log and what the witness remembers of it.
type watched struct {
	origin    string
	keys      []ledger.LogKey
	verifiers []note.Verifier // of keys
	signer    note.Signer     // the witness's, dated by stamp
	path      string

	// mu makes checking a checkpoint and remembering it one step. Were they
	// two, a request for size N that was checked before one for N+K and
	// written after it would take the memory back by K.
	mu    sync.Mutex
	known ledger.TreeHead
	note  []byte    // the file, nil if there is none
	stamp time.Time // of the last cosignature
}

// emptyTree is what a witness knows of a log that it never cosigned. The root
// of no leaves is the hash of nothing (RFC 6962, section 2.1).
func emptyTree(origin string) ledger.TreeHead {
	return ledger.TreeHead{Origin: origin, Root: tlog.Hash(sha256.Sum256(nil))}
}

// originID names an origin in a file name.
func originID(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(sum[:])
}

// load reads what was cosigned last. It believes the file only for the
// witness's own cosignature in it, so that it holds also after the log has
// changed its key.
func (l *watched) load(fsys store.FS, own note.Verifier) error {
	l.known = emptyTree(l.origin)
	if _, err := fsys.Stat(l.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	data, err := store.ReadFile(fsys, l.path, maxBodyBytes)
	if err != nil {
		return err
	}
	head, stamp, err := verifyOwn(data, own)
	if err == nil && head.Origin != l.origin {
		err = fmt.Errorf("it is of %s", head.Origin)
	}
	if err != nil {
		return refusal.Newf(refusal.MemoryDamaged, "%s does not say what %s last cosigned of %s: %w", l.path, own.Name(), l.origin, err).
			WithHint("restore the file; without it the witness would cosign whatever history it is shown next. Another witness needs a state folder of its own")
	}
	l.known, l.note, l.stamp = head, data, stamp
	return nil
}

// verifyOwn reads a checkpoint that the witness cosigned.
func verifyOwn(data []byte, own note.Verifier) (ledger.TreeHead, time.Time, error) {
	n, err := note.Open(data, note.VerifierList(own))
	if err != nil {
		return ledger.TreeHead{}, time.Time{}, err
	}
	signed, err := parseSignedHead(data)
	if err != nil {
		return ledger.TreeHead{}, time.Time{}, err
	}
	stamp, err := seal.CosignatureTime(n.Sigs[0])
	return signed.TreeHead, stamp, err
}

// clockTolerance is how far the clock may be behind the last cosignature:
// clocks are set by small steps all the time.
const clockTolerance = time.Minute

// cosign signs a checkpoint that was found consistent and remembers it. The
// caller holds mu. The signature leaves this function only when it is on disk.
func (l *watched) cosign(fsys store.FS, signed signedHead, now time.Time) (signature, error) {
	// A cosignature says that as of its time no longer tree was seen, so an
	// earlier time on a longer tree would make the one before it a lie.
	stamp := now
	if behind := l.stamp.Sub(now); behind > clockTolerance {
		return signature{}, refusal.Newf(refusal.Failed, "the clock says %s, the last cosignature of %s is of %s",
			now.UTC().Format(time.RFC3339), l.origin, l.stamp.UTC().Format(time.RFC3339)).
			WithHint("set the clock; nothing is cosigned until it has passed that time")
	} else if behind > 0 {
		stamp = l.stamp
	}
	before := l.stamp
	l.stamp = stamp
	raw, err := l.signer.Sign([]byte(signed.Text()))
	if err != nil {
		l.stamp = before
		return signature{}, err
	}
	line := signature{l.signer.Name(), l.signer.KeyHash(), raw}
	kept := signed.only(l.verifiers)
	kept.signatures = append(kept.signatures, line)
	file := kept.marshal()
	if string(file) == string(l.note) {
		return line, nil // the same tree in the same second
	}
	// Crash before this returns: no client has the cosignature. After: the file
	// has it, and a client that asks again is told the new size.
	if err := store.WriteFile(fsys, l.path, file, 0o600); err != nil {
		l.stamp = before
		return signature{}, err
	}
	l.known, l.note = signed.TreeHead, file
	return line, nil
}

func (l *watched) fileName(dir string) string {
	return filepath.Join(dir, "logs", originID(l.origin)+".checkpoint")
}
