package sequencer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// remains are what lies in and beside the folder of a ledger and tells how long it
// was: its published tiles and their checkpoint, and checkpoints that witnesses
// cosigned. The entries can be read without any of it, so a forger who cuts the
// ledger and overlooks one of these files is found out by that file alone. Anchors
// and memory, which are meant to vouch for a ledger, are the caller's to name.
//
// They are read before the ledger: a writer at work meanwhile cannot make them look
// ahead of it.
func (p Place) remains() ([]ledger.Expectation, error) {
	var expect []ledger.Expectation
	note, err := p.readCheckpoint()
	if err != nil && !refusal.Is(err, refusal.TooLarge) {
		return nil, err
	}
	if note != nil || err != nil {
		head, perr := headOf(note)
		if err = errors.Join(err, perr); err != nil {
			return nil, refusal.Newf(refusal.CheckpointInvalid, "tiles/checkpoint: %w", err).
				WithHint(`it was changed after it was published; if the anchors are there, delete .tally/ledger/tiles, and "tally ledger anchor publish" makes the tiles again`)
		}
		expect = append(expect, signedHead("tiles/checkpoint", note, head))
	}
	var largest ledger.Expectation
	err = p.walkTiles("", func(path string) error {
		if size := ledger.TileReach(path); size > largest.Size {
			largest = ledger.Expectation{Source: "tiles/" + path, SizeOnly: true}
			largest.Size = size
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if largest.Size > 0 {
		expect = append(expect, largest)
	}
	kept, err := LoadCheckpoints(p.FS, p.Checkpoints)
	if err != nil {
		return nil, err
	}
	for _, c := range kept {
		expect = append(expect, signedHead("the checkpoint "+filepath.Base(c.Path), c.Note, c.TreeHead))
	}
	return expect, nil
}

// A KeptCheckpoint is a cosigned checkpoint that was kept beside the ledger: read,
// and not verified yet.
type KeptCheckpoint struct {
	Path string
	Note []byte
	ledger.TreeHead
}

// LoadCheckpoints reads every checkpoint in dir. A missing folder holds none.
func LoadCheckpoints(fsys store.FS, dir string) ([]KeptCheckpoint, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading checkpoints: %w", err)
	}
	var kept []KeptCheckpoint
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".checkpoint") {
			continue
		}
		c := KeptCheckpoint{Path: filepath.Join(dir, e.Name())}
		if c.Note, err = store.ReadFile(fsys, c.Path, 1<<20); err != nil {
			return nil, err
		}
		if c.TreeHead, err = headOf(c.Note); err != nil {
			return nil, refusal.Newf(refusal.CheckpointInvalid, "%s: %w", c.Path, err).
				WithHint("it was changed after it was kept; restore it, or set it aside: attempts then lose the level witnessed")
		}
		kept = append(kept, c)
	}
	return kept, nil
}

// headOf is what a signed note says, without its signatures being looked at.
func headOf(note []byte) (ledger.TreeHead, error) {
	text, _, _ := strings.Cut(string(note), "\n\n")
	return ledger.ParseTreeHead(text + "\n")
}

// signedHead is what a ledger must contain to agree with a checkpoint that one of
// its operators signed.
func signedHead(source string, note []byte, head ledger.TreeHead) ledger.Expectation {
	return ledger.Expectation{TreeHead: head, Source: source, Confirm: func(signers *seal.Signers) error {
		var keys []ledger.LogKey
		for _, e := range signers.Entries() {
			if pub, ok := e.Key.Ed25519(); ok && slices.Contains(e.Roles, seal.Operator) {
				keys = append(keys, ledger.LogKey{Origin: head.Origin, Key: pub})
			}
		}
		_, err := ledger.VerifyCheckpoint(note, ledger.Policy{Logs: keys})
		return err
	}}
}

// maxReceipt bounds a file that may be a receipt, and maxAdvice one that has many.
const (
	maxReceipt = 64 << 10
	maxAdvice  = 64 << 20
)

// Receipts are what the receipts in a workspace say of its ledger: files of any name,
// and those in recommendations. A workspace may hold receipts of other ledgers; they
// say nothing here.
func Receipts(fsys store.FS, dir string) ([]ledger.Expectation, error) {
	found := make(map[string]ledger.Expectation) // by checkpoint: most share one
	add := func(path string, data []byte) {
		r, err := ledger.ParseReceipt(data)
		if err != nil {
			return
		}
		if head, err := headOf(r.Checkpoint); err == nil {
			e := signedHead("the receipt "+path, r.Checkpoint, head)
			e.Stray = true
			if old, seen := found[string(r.Checkpoint)]; !seen || e.Source < old.Source {
				found[string(r.Checkpoint)] = e
			}
		}
	}
	err := walkFiles(fsys, dir, "", func(path string) {
		limit := int64(maxReceipt)
		if strings.HasPrefix(path, adviceDir) {
			limit = maxAdvice
		}
		// What cannot be read, or is longer, is not one that could be told from it.
		data, err := store.ReadFile(fsys, filepath.Join(dir, filepath.FromSlash(path)), limit)
		if err != nil {
			return
		}
		add(path, data)
		var advice struct {
			Receipts map[string]string `json:"receipts"`
		}
		if strings.HasPrefix(path, adviceDir) && json.Unmarshal(data, &advice) == nil {
			for _, receipt := range advice.Receipts {
				add("in "+path, []byte(receipt))
			}
		}
	})
	var expect []ledger.Expectation
	for _, e := range found {
		expect = append(expect, e)
	}
	slices.SortFunc(expect, func(a, b ledger.Expectation) int { return strings.Compare(a.Source, b.Source) })
	return expect, err
}

// adviceDir is where recommendations are kept.
const adviceDir = ".tally/recommendations/"

// walkFiles calls visit with the path of every regular file of a workspace. What git
// keeps, the files of benches, and what the program keeps besides recommendations are
// left out: there are many, and none of them is a receipt.
func walkFiles(fsys store.FS, root, dir string, visit func(path string)) error {
	entries, err := fsys.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && dir != "" {
		return nil
	}
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "looking for receipts: %w", err)
	}
	for _, e := range entries {
		path := strings.TrimPrefix(dir+"/"+e.Name(), "/")
		switch {
		case e.Name() == ".git" || path == "bench" || dir == ".tally" && path+"/" != adviceDir:
		case e.IsDir():
			if err := walkFiles(fsys, root, path, visit); err != nil {
				return err
			}
		case e.Type().IsRegular():
			visit(path)
		}
	}
	return nil
}
