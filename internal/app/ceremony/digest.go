package ceremony

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/sandbox/image"
)

// DigestOptions say which class to compute the digests of.
type DigestOptions struct {
	Class   string
	Message string // file to write what is signed to
	Pins    bool   // with Message: that of the pins in place of the manifest's
	CI      string // file that runs the fence, to pin
	Image   string // digest of the rubric's image, to pin
	// Ledger pins this workspace's ledger by its name and first entry, and
	// Witnesses the witnesses and the quorum of tally.yaml. New pins always name
	// the ledger.
	Ledger, Witnesses bool
	// Every and Remotes say how often anchors are due and where the repository is
	// pushed to; empty changes nothing.
	Every   string
	Remotes []string
}

// pinsMore reports whether something is to be pinned besides the class.
func (o DigestOptions) pinsMore() bool {
	return o.CI != "" || o.Image != "" || o.Ledger || o.Witnesses || o.Every != "" || len(o.Remotes) > 0
}

// A Digested is what came of it.
type Digested struct {
	Bench   digest.ID
	Cases   int
	Lines   int
	Changed []string // files that were written
	Missing []bench.Missing
	From    *RecordedFrom // who answered in the recordings
}

// Digest computes the digests of what is in a class and writes them.
func Digest(c *dossier.Corpus, o DigestOptions) (*Digested, error) {
	if err := bench.CheckID(o.Class); err != nil {
		return nil, refusal.Newf(refusal.Usage, "class: %w", err).WithHint(`list the classes with "tally bench list"`)
	}
	written, err := bench.WriteOut(c.ClassDir(o.Class))
	if err != nil {
		return nil, fmt.Errorf("class %s: %w", o.Class, err)
	}
	d, err := bench.Load(c.Root, o.Class)
	if err != nil {
		return nil, err
	}
	if d.Registration.Trust == bench.Scratch && o.pinsMore() {
		return nil, refusal.Newf(refusal.Usage, "class %s is a scratch class: nothing is pinned for it", o.Class).
			WithHint("give --ci, --image and what else is pinned with a signed class; the pins are for all of them")
	}
	if o.CI != "" {
		if o.CI, err = c.Inside(o.CI); err != nil {
			return nil, err
		}
	}
	if err := keepHistory(c); err != nil {
		return nil, err
	}
	done := &Digested{}
	if done.Changed, err = digestCases(c, d); err != nil {
		return nil, err
	}
	done.Changed = append(written, done.Changed...)
	if d, err = bench.Load(c.Root, o.Class); err != nil {
		return nil, err
	}
	manifest, digests, err := d.ComputeNew()
	if err != nil {
		return nil, err
	}
	more, err := writeDigests(c, d, manifest, digests, o)
	if err != nil {
		return nil, err
	}
	done.Changed = append(done.Changed, more...)
	if more, err = writeSignedJSON(c, o.Class); err != nil {
		return nil, err
	}
	done.Changed = append(done.Changed, more...)
	if o.Message != "" {
		if err := writeMessage(c, manifest, o); err != nil {
			return nil, err
		}
	}
	if done.Bench, err = manifest.Digest(); err != nil {
		return nil, err
	}
	return done, done.look(c, o.Class, len(manifest.Cases))
}

// look reads the class as it is now, and what it still lacks.
func (done *Digested) look(c *dossier.Corpus, class string, cases int) error {
	d, err := bench.Load(c.Root, class)
	if err != nil {
		return err
	}
	done.Cases = cases
	if d.Dataset != nil {
		done.Lines = len(d.Dataset.Lines)
	}
	if done.From, err = recordedFrom(c.Draws, d); err != nil {
		return err
	}
	done.Missing, err = d.Status(c.Root, c.Options)
	return err
}

// writeDigests writes cases/digests.yaml, the manifest and the pins, and names
// those that changed.
func writeDigests(c *dossier.Corpus, d *bench.Draft, manifest *bench.Manifest, digests *bench.CaseDigests, o DigestOptions) ([]string, error) {
	var changed []string
	note := func(name string, wrote bool, err error) error {
		if err == nil && wrote {
			changed = append(changed, name)
		}
		return err
	}
	// A class whose cases are all lines of the dataset needs no case digests:
	// the manifest pins it.
	if len(digests.Cases) > 0 || d.Digests != nil {
		wrote, err := writeSigned(c.ClassDir(d.Class, filepath.FromSlash(bench.DigestsFile)), digests.Format())
		if err := note(bench.DigestsFile, wrote, err); err != nil {
			return nil, err
		}
	}
	wrote, err := writeSigned(c.ClassDir(d.Class, bench.ManifestFile), manifest.Format())
	if err := note(bench.ManifestFile, wrote, err); err != nil {
		return nil, err
	}
	if d.Registration.Trust == bench.Signed {
		wrote, err := pinClass(c, o)
		if err := note(bench.PinsFile, wrote, err); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// writeSignedJSON writes signed.json of a signed class and of the pins again,
// after the YAML has changed, and names those that changed.
func writeSignedJSON(c *dossier.Corpus, class string) ([]string, error) {
	d, err := bench.Load(c.Root, class)
	if err != nil || d.Registration.Trust != bench.Signed {
		return nil, err
	}
	pins, _, err := bench.LoadPins(c.Root)
	if err != nil {
		return nil, err
	}
	var changed []string
	write := func(path, name string, data []byte, err error) error {
		if err != nil {
			return err
		}
		old, readErr := store.ReadFile(store.OS{}, path, maxPinned)
		if readErr == nil && slices.Equal(old, data) {
			return nil
		}
		changed = append(changed, name)
		return store.WriteFile(store.OS{}, path, data, 0o644)
	}
	data, err := d.SignedJSON()
	if err := write(c.ClassDir(class, bench.SignedFile), bench.SignedFile, data, err); err != nil {
		return nil, err
	}
	if pins == nil {
		return changed, nil
	}
	data, err = pins.SignedJSON()
	return changed, write(c.Path(bench.Dir, bench.SignedFile), bench.Dir+"/"+bench.SignedFile, data, err)
}

// digestCases writes the digests into each case.yaml and names the files that
// changed.
func digestCases(c *dossier.Corpus, d *bench.Draft) ([]string, error) {
	changed := []string{}
	cases := slices.Clone(d.Cases)
	for _, id := range d.PendingIDs() {
		draft, err := d.Pending(id)
		if err != nil {
			return nil, err
		}
		cases = append(cases, draft)
	}
	for _, x := range cases {
		x.Made, x.MadeFor = madeHow(c, x.CaseID, x.Cassette, x.CassetteDigest), madeFor(c, x)
		data, err := x.WithDigests()
		if err != nil {
			return nil, fmt.Errorf("class %s: case %s: %w", d.Class, x.CaseID, err)
		}
		if data == nil {
			continue
		}
		name := caseFile(x)
		if err := store.WriteFile(store.OS{}, c.ClassDir(d.Class, name), data, 0o644); err != nil {
			return nil, err
		}
		changed = append(changed, filepath.ToSlash(name))
	}
	return changed, nil
}

// madeHow says how a cassette of a case came to be. Only a recording that the
// ledger has an entry of is recorded, whatever people sign; else it is what its
// own header says at most: written by hand, or recorded once and changed since.
// Pinned is what the case says now.
func madeHow(c *dossier.Corpus, id string, found *bench.Cassette, pinned *digest.Content) bench.CassetteProvenance {
	if found == nil {
		return ""
	}
	if how, ok := c.Recorded[found.Digest]; ok {
		return bench.CassetteProvenance(how)
	}
	made := bench.Edited
	if data, err := found.Data(); err != nil {
		return ""
	} else if tape, err := cassette.Parse(data, cassette.Limits{}); err != nil || tape.Header.Provenance == cassette.Authored {
		made = bench.Authored
	}
	if made == bench.Edited && (pinned == nil || *pinned != found.Digest) {
		c.Note("case %s: no cassette.recorded entry of this ledger names its cassette, %s: it is called edited and does not count as recorded", id, found.Digest)
	}
	return made
}

// madeFor is madeHow for what single targets replay.
func madeFor(c *dossier.Corpus, x *bench.CaseFolder) map[string]bench.CassetteProvenance {
	made := map[string]bench.CassetteProvenance{}
	for target, tape := range x.ByTarget {
		pinned := x.CassetteDigest
		if pin, ok := x.Cassettes[target]; ok {
			pinned = &pin.Digest
		}
		made[target] = madeHow(c, x.CaseID, tape, pinned)
	}
	return made
}

// caseFile is the case.yaml of a case or draft, relative to the class.
func caseFile(c *bench.CaseFolder) string {
	dir := bench.CasesDir
	if c.Pending {
		dir = bench.PendingDir
	}
	return filepath.Join(dir, c.CaseID, bench.CaseFile)
}

// pinClass adds the class, and what the options name, to bench/digests.yaml.
func pinClass(c *dossier.Corpus, o DigestOptions) (changed bool, err error) {
	pins, _, err := bench.LoadPins(c.Root)
	if err != nil {
		return false, err
	}
	if pins == nil {
		pins = &bench.Pins{Version: 1}
		o.Ledger = o.Ledger || c.FirstEntry != (digest.Content{})
	}
	if err := pinLedger(c, pins, o); err != nil {
		return false, err
	}
	if !slices.Contains(pins.Classes, o.Class) {
		pins.Classes = append(pins.Classes, o.Class)
		slices.Sort(pins.Classes)
	}
	if err := pins.Pin(c.Root, o.CI, o.Image, imageKind(c, o.Image)); err != nil {
		return false, err
	}
	if o.CI != "" {
		if data, err := c.Root.ReadFile(o.CI); err == nil && bench.LacksProgram(data) {
			c.Note("%s: the digest of the program is still the zeros of the template, so the job fails: write the digest that SHA256SUMS of the release has, and pin the file again", o.CI)
		}
	}
	return writeSigned(c.Path(filepath.FromSlash(bench.PinsFile)), pins.Format())
}

// pinLedger puts into the pins what the options say about ledger and witnesses.
func pinLedger(c *dossier.Corpus, pins *bench.Pins, o DigestOptions) error {
	if o.Ledger {
		if err := c.PinThisLedger(pins); err != nil {
			return err
		}
	}
	if o.Every != "" || len(o.Remotes) > 0 {
		if pins.Anchors == nil {
			pins.Anchors = &bench.AnchorPins{}
		}
		pins.Anchors.Every = cmp.Or(o.Every, pins.Anchors.Every)
		if len(o.Remotes) > 0 {
			pins.Anchors.Remotes = o.Remotes
		}
		if err := pins.Anchors.Check(); err != nil {
			return err
		}
	}
	if !o.Witnesses {
		return nil
	}
	pins.Witnesses, pins.Quorum = nil, nil
	for _, w := range c.Settings.Witnesses {
		pins.Witnesses = append(pins.Witnesses, w.Key)
	}
	if len(pins.Witnesses) > 0 {
		quorum := max(1, c.Settings.Quorum)
		pins.Quorum = &quorum
	}
	return nil
}

// imageKind asks the image itself how it was made. What is not on this machine
// cannot be asked, and then does not count for promotion.
func imageKind(c *dossier.Corpus, wanted string) string {
	if wanted == "" {
		return ""
	}
	cache, err := image.Cache()
	if err == nil {
		var i *image.Image
		if i, err = image.Find(cache, wanted); err == nil {
			if !i.About.Pinned {
				c.Note("image %s is of the kind %s, which others cannot get by its digest: what is scored in it never counts for promotion", wanted, i.About.Kind)
			}
			return string(i.About.Kind)
		}
	}
	c.Note("image %s is not on this machine, so it is unknown how it was made, and what is scored in it does not count for promotion: %v", wanted, err)
	return ""
}

// writeMessage writes what is signed, for people who sign with ssh-keygen.
func writeMessage(c *dossier.Corpus, manifest *bench.Manifest, o DigestOptions) error {
	message, err := manifest.Message()
	if o.Pins {
		var pins *bench.Pins
		if pins, _, err = bench.LoadPins(c.Root); err == nil && pins == nil {
			err = refusal.Newf(refusal.NotFound, "there is no %s", bench.PinsFile)
		}
		if err == nil {
			message, err = pins.Message()
		}
	}
	if err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, o.Message, message, 0o644)
}
