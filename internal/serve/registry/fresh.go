package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/index"
)

// A checkpoint says nothing about when it was signed: one from before an entry that is
// unwelcome stays good. So the operator's key also cosigns it with the time (C2SP
// tlog-cosignature), again and again while the registry runs.
const (
	// CheckpointMaxAge is how old that time may be. A registry that serves an older one
	// has stopped, or hides what came since.
	CheckpointMaxAge = time.Hour
	// checkpointRenew is how soon the time is signed again.
	checkpointRenew = 10 * time.Minute
)

// servedCheckpoint is what the checkpoint with its time is called in the database.
const servedCheckpoint = "checkpoint"

// dated is a checkpoint with the time added, signed by the operator's key that signed the
// checkpoint itself.
func (r *Registry) dated(checkpoint []byte) ([]byte, error) {
	key, err := loadOperator(r.o.Dir)
	if err != nil {
		return nil, err
	}
	pub, _ := key.Public().Ed25519()
	origin := r.settings.Origin
	if _, err := ledger.VerifyCheckpoint(checkpoint, ledger.Policy{Logs: []ledger.LogKey{{Origin: origin, Key: pub}}}); err != nil {
		return nil, nil // sealed by the key before a rotation; the next one has the time
	}
	text, _, found := strings.Cut(string(checkpoint), "\n\n")
	if !found {
		return nil, refusal.Newf(refusal.CheckpointInvalid, "the ledger's checkpoint is not a signed note")
	}
	signer, err := seal.CosignatureSigner(key, origin, r.o.Now)
	if err != nil {
		return nil, err
	}
	signature, err := signer.Sign([]byte(text + "\n"))
	if err != nil {
		return nil, err
	}
	line := base64.StdEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, signer.KeyHash()), signature...))
	return fmt.Appendf(bytes.Clone(checkpoint), "— %s %s\n", origin, line), nil
}

// A dating is the checkpoint that is served with its time. Its lock is held while the
// database is written, so that an older one never follows a newer.
type dating struct {
	sync.Mutex
	checkpoint []byte // the newest that is in the database
	at         time.Time
}

// applyDated writes a batch together with the time of its checkpoint.
func (r *Registry) applyDated(ctx context.Context, b *index.Batch, checkpoint []byte) error {
	r.dating.Lock()
	defer r.dating.Unlock()
	text, err := r.dated(checkpoint)
	if err != nil {
		return err
	}
	if text != nil {
		b.Served[servedCheckpoint] = text
	}
	if err := r.index.Apply(ctx, b); err != nil {
		return err
	}
	if r.dating.checkpoint = checkpoint; text != nil {
		r.dating.at = r.o.Now()
	}
	return nil
}

// renewCheckpoint signs the time again if it has become old, or now.
func (r *Registry) renewCheckpoint(ctx context.Context, now bool) error {
	r.dating.Lock()
	defer r.dating.Unlock()
	checkpoint := r.dating.checkpoint
	due := now || r.o.Now().Sub(r.dating.at) >= checkpointRenew
	if checkpoint == nil {
		checkpoint, _ = r.log.signed() // nothing was written since it was opened
	}
	if !due {
		return nil
	}
	text, err := r.dated(checkpoint)
	if err != nil || text == nil {
		return err
	}
	b := index.NewBatch()
	b.Served[servedCheckpoint] = text
	r.dating.at = r.o.Now()
	return r.index.Apply(ctx, b)
}

// CheckpointTime is the time that an operator of the ledger signed a checkpoint with;
// zero if none did.
func CheckpointTime(checkpoint []byte, operators []ledger.LogKey) time.Time {
	for _, k := range operators {
		v, err := seal.CosignatureVerifier(seal.CosignatureVKey(k.Key, k.Origin))
		if err != nil {
			continue
		}
		opened, err := note.Open(checkpoint, note.VerifierList(v))
		if err != nil {
			continue
		}
		for _, s := range opened.Sigs {
			if at, err := seal.CosignatureTime(s); err == nil {
				return at
			}
		}
	}
	return time.Time{}
}
