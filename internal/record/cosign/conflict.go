package cosign

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// ConflictSchema names the form of a file that keeps a conflict.
const ConflictSchema = "tallystick-witness-conflict/" + format.Version

// maxKept bounds the files of each kind. One is enough to prove a fork; the
// rest must not fill the disk of the witness. Chosen arbitrarily.
const maxKept = 100

// A Conflict is a signed checkpoint that does not go with what the witness
// cosigned before.
type Conflict struct {
	Known, Offered ledger.TreeHead
	// Proven is set when both have one size and two roots: only the holder of
	// the log's key can make that. Otherwise the proof that came with the
	// offered checkpoint does not verify, and that may be the fault of the
	// sender: checkpoints are public, so a stranger can send one with a wrong
	// proof.
	Proven bool
	Path   string // where both are kept; "" if they could not be
}

// kept is the file of a conflict: both checkpoints as signed.
type kept struct {
	Schema  string        `json:"schema"`
	Proven  bool          `json:"proven"`
	SeenAt  evidence.Time `json:"seen_at"`
	Known   string        `json:"known"`
	Offered string        `json:"offered"`
	Proof   []string      `json:"proof,omitempty"`
}

// Err is the conflict as an error.
func (c Conflict) Err() error {
	if c.Proven {
		return refusal.Newf(refusal.HistoryForked, "%s signed two histories: at size %d root %s was cosigned and root %s is offered",
			c.Offered.Origin, c.Offered.Size, c.Known.Root, c.Offered.Root).
			WithHint("both signed checkpoints are in %s; the second was not cosigned", c.where())
	}
	return refusal.Newf(refusal.HistoryForked, "%s at size %d is signed by the log, and its proof does not show that it extends the size %d that was cosigned",
		c.Offered.Origin, c.Offered.Size, c.Known.Size).
		WithHint("the log may be showing another history, or a client sent its checkpoint with a wrong proof; both are in %s, nothing was cosigned", c.where())
}

// String is the block that a person must not overlook, or one line when
// nothing is proven.
func (c Conflict) String() string {
	if !c.Proven {
		r := refusal.Of(c.Err())
		return fmt.Sprintf("%v; %s", r, r.Hint)
	}
	return fmt.Sprintf(`SECURITY ERROR
The log %s signed two histories.
    cosigned:  size %d, root %s
    offered:   size %d, root %s
The holder of the log's key rewrote entries after this witness had seen them.
The second was not cosigned. Both signed checkpoints were saved to
%s
`, c.Offered.Origin, c.Known.Size, c.Known.Root, c.Offered.Size, c.Offered.Root, c.where())
}

func (c Conflict) where() string {
	if c.Path == "" {
		return "no file: saving them failed"
	}
	return c.Path
}

// conflicts keeps the files. Proven ones have a folder of their own, so that a
// stranger with wrong proofs cannot use up their room.
type conflicts struct {
	fsys store.FS
	dir  string

	mu    sync.Mutex
	count map[string]int // files by folder
}

const (
	forksFolder    = "forks"
	suspectsFolder = "suspects"
)

func openConflicts(fsys store.FS, dir string) (*conflicts, error) {
	c := &conflicts{fsys: fsys, dir: dir, count: make(map[string]int)}
	for _, folder := range []string{forksFolder, suspectsFolder} {
		path := filepath.Join(dir, folder)
		if err := store.MakeDir(fsys, path, 0o700); err != nil {
			return nil, err
		}
		entries, err := fsys.ReadDir(path)
		if err != nil {
			return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", path, err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".json") {
				c.count[folder]++
			}
		}
	}
	return c, nil
}

// keep saves and reports a conflict that was not seen before. The caller holds
// the log's lock.
func (s *Server) keep(l *watched, offered signedHead, proof tlog.TreeProof) {
	if l.known.Size == 0 {
		return // nothing can contradict the empty tree
	}
	c := Conflict{Known: l.known, Offered: offered.TreeHead, Proven: offered.Size == l.known.Size}
	doc := kept{
		Schema: ConflictSchema, Proven: c.Proven, SeenAt: evidence.At(s.cfg.Now()),
		Known: string(l.note), Offered: string(offered.only(l.verifiers).marshal()),
	}
	for _, h := range proof {
		doc.Proof = append(doc.Proof, base64.StdEncoding.EncodeToString(h[:]))
	}
	path, fresh, err := s.forks.save(c, doc)
	if err != nil {
		s.cfg.Errors(err)
	}
	if fresh {
		c.Path = path
		s.cfg.Conflicts(c)
	}
}

// save writes the file of a conflict. It is not fresh if it was there before,
// or if there is no room to remember that it is now.
func (c *conflicts) save(conflict Conflict, doc kept) (path string, fresh bool, err error) {
	folder := suspectsFolder
	if conflict.Proven {
		folder = forksFolder
	}
	text := sha256.Sum256([]byte(conflict.Offered.Text()))
	path = filepath.Join(c.dir, folder, fmt.Sprintf("%s-%d-%s.json",
		originID(conflict.Offered.Origin)[:16], conflict.Offered.Size, hex.EncodeToString(text[:8])))

	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.fsys.Stat(path); err == nil {
		return path, false, nil
	}
	if c.count[folder] >= maxKept {
		return "", false, nil
	}
	data, err := canon.Marshal(doc)
	if err != nil {
		return "", true, err
	}
	if err := store.CreateFile(c.fsys, path, append(data, '\n'), 0o600); err != nil {
		return "", true, err
	}
	c.count[folder]++
	if c.count[folder] == maxKept {
		err = refusal.Newf(refusal.TooLarge, "%s holds %d conflicts and takes no more", filepath.Dir(path), maxKept).
			WithHint("look at them, then move them elsewhere and start the witness again")
	}
	return path, true, err
}
