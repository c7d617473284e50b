package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// cassettesDir and cassetteSuffix make the name of a cassette.
const (
	cassettesDir   = "cassettes"
	cassetteSuffix = ".cassette.zst"
)

// keptCassettes is how many bytes of cassettes a class keeps in memory when
// there is a store for the others.
const keptCassettes = 64 << 20

// A TargetCassette pins what one target replays of a case.
type TargetCassette struct {
	Digest     digest.Content     `json:"digest"`
	Provenance CassetteProvenance `json:"provenance"`
}

// CassetteFile is where the cassette of a case or of a line of the dataset
// lies, relative to the workspace. Without a target it is the old place, which
// all targets without a cassette of their own share.
func CassetteFile(class, target, id string) string {
	return path.Join(cassettesDir, class, TargetFolder(target), id+cassetteSuffix)
}

// tapes reads the cassettes of a class.
type tapes struct {
	root  *os.Root
	class string
	blobs *store.Blobs
	kept  int64
}

// load reads one cassette; nil if there is none.
func (t *tapes) load(target, id string) (*Cassette, error) {
	data, err := readPlain(t.root, CassetteFile(t.class, target, id), maxCassetteBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := CassetteOf(data)
	if t.blobs == nil || len(data) <= keptCassette && t.kept+c.Bytes <= keptCassettes {
		t.kept += c.Bytes
		return c, nil
	}
	if _, err := t.blobs.Put(data); err != nil {
		return nil, err
	}
	c.data, c.blobs = nil, t.blobs
	return c, nil
}

// list names what lies in a folder of cassettes; nothing if it is not there.
func (t *tapes) list(target string) ([]string, error) {
	name := path.Join(cassettesDir, t.class, target)
	info, err := t.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "listing the cassettes: %w", err)
	}
	dir, err := t.root.Open(name)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "listing the cassettes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "listing the cassettes: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// loadTargets reads the cassettes that belong to one target each. What belongs
// to no case and no line is not looked at.
func (d *Draft) loadTargets(t *tapes) error {
	cases := map[string]*CaseFolder{}
	for _, c := range d.Cases {
		cases[c.CaseID] = c
	}
	lines := map[string]bool{}
	if d.Dataset != nil {
		for _, l := range d.Dataset.Lines {
			lines[l.ID] = true
		}
	}
	targets, err := t.list("")
	if err != nil {
		return err
	}
	for _, target := range targets {
		if CheckID(target) != nil {
			continue
		}
		files, err := t.list(target)
		if err != nil {
			return err
		}
		for _, name := range files {
			id, ok := strings.CutSuffix(name, cassetteSuffix)
			if !ok || cases[id] == nil && !lines[id] {
				continue
			}
			tape, err := t.load(target, id)
			if err != nil {
				return fmt.Errorf("case %s: %w", id, err)
			}
			d.putTape(cases[id], target, id, tape)
		}
	}
	return nil
}

func (d *Draft) putTape(c *CaseFolder, target, id string, tape *Cassette) {
	switch {
	case tape == nil:
	case c != nil:
		if c.ByTarget == nil {
			c.ByTarget = map[string]*Cassette{}
		}
		c.ByTarget[target] = tape
	default:
		if d.lineTapes == nil {
			d.lineTapes = map[string]map[string]*Cassette{}
		}
		if d.lineTapes[target] == nil {
			d.lineTapes[target] = map[string]*Cassette{}
		}
		d.lineTapes[target][id] = tape
	}
}

// EachCassette visits every cassette of the class: those of cases, shared or of one
// target, and those of lines of the dataset.
func (d *Draft) EachCassette(visit func(caseID string, tape *Cassette) error) error {
	for _, c := range d.Cases {
		tapes := slices.Collect(maps.Values(c.ByTarget))
		if c.Cassette != nil {
			tapes = append(tapes, c.Cassette)
		}
		for _, tape := range tapes {
			if err := visit(c.CaseID, tape); err != nil {
				return err
			}
		}
	}
	for _, tapes := range d.lineTapes {
		for id, tape := range tapes {
			if err := visit(id, tape); err != nil {
				return err
			}
		}
	}
	return nil
}

// lineDigests gives, for each target, one digest of all its cassettes of lines:
// that of the canonical JSON object of their digests by id. A scratch class
// leaves them out unless its manifest has them, so that a recording does not
// make another bench of it.
func (d *Draft) lineDigests() (map[string]digest.Content, error) {
	if d.Registration.Trust == Scratch && (d.Manifest == nil || d.Manifest.DatasetCassettes == nil) {
		return nil, nil
	}
	var all map[string]digest.Content
	for target, tapes := range d.lineTapes {
		byID := map[string]digest.Content{}
		for id, tape := range tapes {
			byID[id] = tape.Digest
		}
		text, err := canon.Marshal(byID)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string]digest.Content{}
		}
		all[target] = digest.ContentOf(text)
	}
	return all, nil
}

const tapeHint = `a cassette changes only by recording it again and signing again ("tally bench digest"); restore the file`

// checkLineTapes compares the cassettes of lines with what the manifest pins.
func checkLineTapes(computed, pinned *Manifest) error {
	for _, target := range slices.Sorted(keysOf(computed.DatasetCassettes)) {
		got := computed.DatasetCassettes[target]
		if want, ok := pinned.DatasetCassettes[target]; !ok || want != got {
			said := "absent"
			if ok {
				said = want.String()
			}
			return refusal.Newf(refusal.CassetteDigestMismatch, "the cassettes of lines of %s for target %s are %s, %s field dataset_cassettes says %s",
				DatasetFile, target, got, ManifestFile, said).WithHint(tapeHint)
		}
	}
	for _, target := range slices.Sorted(keysOf(pinned.DatasetCassettes)) {
		if _, ok := computed.DatasetCassettes[target]; !ok {
			return refusal.Newf(refusal.CassetteDigestMismatch, "%s field dataset_cassettes says %s for target %s, there are no cassettes in %s",
				ManifestFile, pinned.DatasetCassettes[target], target, path.Join(cassettesDir, computed.Class, target)).WithHint(tapeHint)
		}
	}
	return nil
}

// checkTargets compares the cassettes of single targets with the pins of the
// case. A file that cassette_digest names may lie in the folder of a target.
func (c *CaseFolder) checkTargets(scratch bool) error {
	for _, target := range slices.Sorted(keysOf(c.ByTarget)) {
		name, got := CassetteFile(c.class, target, c.CaseID), c.ByTarget[target].Digest
		pin, pinned := c.Cassettes[target]
		switch {
		case pinned && pin.Digest != got:
			return refusal.Newf(refusal.CassetteDigestMismatch, "%s is %s, case.yaml field cassettes.%s says %s", name, got, target, pin.Digest).WithHint(tapeHint)
		case !pinned && !scratch && !c.pins(got):
			return refusal.Newf(refusal.CassetteDigestMismatch, "%s is %s, case.yaml pins no cassette for target %s", name, got, target).WithHint(tapeHint)
		}
	}
	for _, target := range slices.Sorted(keysOf(c.Cassettes)) {
		if c.ByTarget[target] == nil {
			return refusal.Newf(refusal.CassetteDigestMismatch, "case.yaml field cassettes.%s says %s, there is no %s", target, c.Cassettes[target].Digest,
				CassetteFile(c.class, target, c.CaseID)).WithHint(tapeHint)
		}
	}
	return nil
}

// pins reports whether cassette_digest names these bytes.
func (c *CaseFolder) pins(d digest.Content) bool {
	return c.CassetteDigest != nil && *c.CassetteDigest == d
}

// hasPinned reports whether the file that cassette_digest names is there, in
// the old place or in the folder of a target.
func (c *CaseFolder) hasPinned() bool {
	if c.Cassette != nil && c.pins(c.Cassette.Digest) {
		return true
	}
	for _, tape := range c.ByTarget {
		if c.pins(tape.Digest) {
			return true
		}
	}
	return false
}

// pinTargets are the pins of what lies in the folders of targets. A file that
// cassette_digest names needs no other pin.
func (c *CaseFolder) pinTargets() map[string]TargetCassette {
	var pins map[string]TargetCassette
	for target, tape := range c.ByTarget {
		pin, pinned := c.Cassettes[target]
		made := c.MadeFor[target]
		switch {
		case pinned && pin.Digest == tape.Digest:
			if made == Recorded && pin.Provenance == Authored {
				pin.Provenance = Recorded
			}
		case !pinned && c.pins(tape.Digest):
			continue
		case made == "":
			pin = TargetCassette{tape.Digest, Authored} // the least that can be claimed
		default:
			pin = TargetCassette{tape.Digest, made}
		}
		if pins == nil {
			pins = map[string]TargetCassette{}
		}
		pins[target] = pin
	}
	return pins
}

// targetsText is the member of case.yaml that pins them.
func targetsText(pins map[string]TargetCassette) string {
	if len(pins) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("cassettes:")
	for _, target := range slices.Sorted(keysOf(pins)) {
		fmt.Fprintf(&b, "\n  %q: {digest: %q, provenance: %q}", target, pins[target].Digest, pins[target].Provenance)
	}
	return b.String()
}

// CassetteFor is the recording that a target replays, and how it was made: the
// target's own, or the one in the old place; nil if there is neither.
func (c VerifiedCase) CassetteFor(target string) (*Cassette, CassetteProvenance) {
	d, target := c.draft, TargetFolder(target)
	own := d.ByTarget[target]
	pin, pinned := d.Cassettes[target]
	switch {
	case own == nil && d.Cassette == nil:
		return nil, ""
	case own == nil:
		return d.Cassette, d.CassetteProvenance
	case pinned:
		return own, pin.Provenance
	case d.pins(own.Digest):
		return own, d.CassetteProvenance
	}
	return own, c.made.of(own.Digest)
}

// LineCassette is the recording that a target replays of a line of the dataset,
// and how it was made; nil if there is none.
func (v *Verified) LineCassette(target, id string) (*Cassette, CassetteProvenance) {
	tape := v.draft.lineTapes[TargetFolder(target)][id]
	if tape == nil {
		return nil, ""
	}
	return tape, v.made.of(tape.Digest)
}

// madeHow tells how the ledger says that a cassette was made, "" if it does not
// know. It may be nil.
type madeHow func(digest.Content) CassetteProvenance

// of is what may be said about a cassette that no person has called anything:
// only an entry of the ledger makes it recorded.
func (m madeHow) of(d digest.Content) CassetteProvenance {
	if m != nil {
		if made := m(d); made != "" {
			return made
		}
	}
	return Edited
}
