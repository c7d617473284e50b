package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// maxCheckpointBytes bounds a checkpoint: three lines and some signatures.
const maxCheckpointBytes = 64 << 10

// maxTreeSize bounds the size that a checkpoint may claim. Package tlog does not
// come to an end for sizes above 1<<62, and JSON has no such numbers.
const maxTreeSize = 1<<53 - 1

// A TreeHead states how long a ledger is and what its root is. It is the text
// of a C2SP checkpoint, without signatures and so without proof.
type TreeHead struct {
	Origin string
	Size   int64
	Root   tlog.Hash
}

// Text is the text that checkpoint signatures cover.
func (t TreeHead) Text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", t.Origin, t.Size, base64.StdEncoding.EncodeToString(t.Root[:]))
}

// ParseTreeHead reads exactly what [TreeHead.Text] writes. Checkpoints with
// extension lines are another log's. What it returns is a claim: no signature
// has been checked.
func ParseTreeHead(text string) (TreeHead, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return TreeHead{}, fmt.Errorf("expected three lines: origin, size, root")
	}
	if err := evidence.CheckOrigin(lines[0]); err != nil {
		return TreeHead{}, err
	}
	t := TreeHead{Origin: lines[0]}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || size > maxTreeSize || strconv.FormatInt(size, 10) != lines[1] {
		return TreeHead{}, fmt.Errorf("%q is not a tree size", lines[1])
	}
	t.Size = size
	root, err := decodeBase64(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return TreeHead{}, fmt.Errorf("%q is not a root hash", lines[2])
	}
	copy(t.Root[:], root)
	return t, nil
}

// A Checkpoint is a tree head with a verified signature of the log, and the
// verified cosignatures that came with it. Only [VerifyCheckpoint] makes one.
type Checkpoint struct {
	TreeHead
	Note         []byte   // the signed note, as given
	Cosignatures []string // names of the trusted witnesses that cosigned
}

// A LogKey is a key that may sign the checkpoints of one ledger.
type LogKey struct {
	Origin string
	Key    ed25519.PublicKey
}

// A Policy says whose checkpoints are believed: a signature by one of Logs,
// and cosignatures by at least Quorum of Witnesses.
type Policy struct {
	Logs      []LogKey
	Witnesses []note.Verifier
	Quorum    int
	// Signers, if set, gives who was trusted after so many entries of a ledger, nil
	// if that is not known. Without it signatures of people on an anchor are not
	// read, and say so.
	Signers func(origin string, size int64) *seal.Signers
}

// VerifyCheckpoint checks a signed note against a policy. Signatures by keys
// that the policy does not name are ignored, as signed notes ask; a bad
// signature by a key that it does name is refused.
func VerifyCheckpoint(signed []byte, p Policy) (*Checkpoint, error) {
	if len(p.Logs) == 0 {
		return nil, refusal.Newf(refusal.Usage, "verifying a checkpoint needs the key of the log").
			WithHint("name who is trusted; there is no default")
	}
	verifiers := append([]note.Verifier{}, p.Witnesses...)
	var logs []note.Verifier
	for _, l := range p.Logs {
		v, err := seal.NoteVerifier(l.Key, l.Origin)
		if err != nil {
			return nil, err
		}
		logs = append(logs, v)
	}
	verifiers = append(verifiers, logs...)
	if len(signed) > maxCheckpointBytes {
		return nil, refusal.Newf(refusal.TooLarge, "checkpoint has %d bytes, at most %d are read", len(signed), maxCheckpointBytes)
	}
	n, err := note.Open(signed, note.VerifierList(verifiers...))
	if err != nil {
		return nil, refusal.Newf(refusal.CheckpointInvalid, "checkpoint: %w", err).
			WithHint("it is not signed by the key that you trust, or its text was changed")
	}
	head, err := ParseTreeHead(n.Text)
	if err != nil {
		return nil, refusal.Newf(refusal.CheckpointInvalid, "checkpoint: %w", err)
	}
	if err := checkSignatureLines(signed); err != nil {
		return nil, refusal.Newf(refusal.CheckpointInvalid, "checkpoint: %w", err)
	}
	c := &Checkpoint{TreeHead: head, Note: bytes.Clone(signed)}
	byLog := false
	for _, s := range n.Sigs {
		switch {
		case has(logs, s):
			if s.Name != head.Origin {
				return nil, refusal.Newf(refusal.CheckpointInvalid, "checkpoint of %s is signed by %s", head.Origin, s.Name)
			}
			byLog = true
		case has(p.Witnesses, s):
			c.Cosignatures = append(c.Cosignatures, s.Name)
		}
	}
	if !byLog {
		return nil, refusal.Newf(refusal.CheckpointInvalid, "checkpoint of %s: no signature by a trusted log key", head.Origin).
			WithHint("only witnesses signed it")
	}
	if len(c.Cosignatures) < p.Quorum {
		return nil, refusal.Newf(refusal.WitnessQuorumMissing, "checkpoint of %s at size %d: cosigned by %d of the trusted witnesses, needs %d",
			head.Origin, head.Size, len(c.Cosignatures), p.Quorum).
			WithHint("publish the anchor again when the witnesses can be reached")
	}
	return c, nil
}

func has(verifiers []note.Verifier, s note.Signature) bool {
	for _, v := range verifiers {
		if v.Name() == s.Name && v.KeyHash() == s.Hash {
			return true
		}
	}
	return false
}

// checkSignatureLines refuses what [note.Open] lets through and what would
// make two files one checkpoint: base64 with stray bits, and a key that signs
// twice.
func checkSignatureLines(signed []byte) error {
	block := signed[bytes.LastIndex(signed, []byte("\n\n"))+2:]
	seen := make(map[string]bool)
	for line := range strings.Lines(string(block)) {
		name, encoded, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "— "), "\n"), " ")
		sig, err := decodeBase64(encoded)
		if err != nil || len(sig) < 5 {
			return fmt.Errorf("the signature by %s is not strict base64", name)
		}
		key := name + string(sig[:4])
		if seen[key] {
			return fmt.Errorf("two signatures by the same key of %s", name)
		}
		seen[key] = true
	}
	return nil
}

// AssembleCheckpoint builds the signed note of a tree head out of a bare note
// signature, which is what a seal stores.
func AssembleCheckpoint(head TreeHead, signature []byte) []byte {
	return fmt.Appendf(nil, "%s\n— %s %s\n", head.Text(), head.Origin, base64.StdEncoding.EncodeToString(signature))
}

// SignedWith finds the key that signed a checkpoint, as a verifier is given it.
// Right after a change of operators that is the former one's.
func SignedWith(checkpoint []byte, keys []LogKey) string {
	for _, k := range keys {
		if _, err := VerifyCheckpoint(checkpoint, Policy{Logs: []LogKey{k}}); err == nil {
			return seal.VKey(k.Key, k.Origin)
		}
	}
	return ""
}
