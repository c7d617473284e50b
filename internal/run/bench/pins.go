package bench

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/sandbox/image"
)

// Pins is bench/digests.yaml: what the benches of a workspace rest on beyond
// their own folders. It is signed like a manifest.
type Pins struct {
	Version int `json:"version"`
	// Classes lists the signed classes that exist, so that a class cannot
	// disappear without two people agreeing.
	Classes []string `json:"classes"`
	// Images pins the images that rubrics run in, by name.
	Images map[string]digest.Content `json:"images,omitempty"`
	// ImageKinds says how each was made: [BuiltImage], [CompiledImage],
	// [OCIImage] or [HostImage]. The runner of a rubric compares this with what
	// the image says of itself, which its digest covers.
	ImageKinds map[string]string `json:"image_kinds,omitempty"`
	// CI pins the file that runs the fence.
	CI *PinnedFile `json:"ci,omitempty"`
	// Origins are the ledgers whose attempts count. Without any, every ledger's
	// do, also one that was begun anew to forget attempts.
	Origins []PinnedLedger `json:"origins,omitempty"`
	// Witnesses are the keys whose cosignatures decide, and Quorum is how many of
	// them are needed. Without any, those of tally.yaml do, which is unsigned.
	Witnesses []string `json:"witnesses,omitempty"`
	Quorum    *int     `json:"quorum,omitempty"` // absent is 1
	// Anchors says what is expected of the anchors of the ledgers.
	Anchors *AnchorPins `json:"anchors,omitempty"`
}

// AnchorPins is what two people expect of the anchors of a ledger.
type AnchorPins struct {
	// Every is how long at most there may be none: hours or days, as in 24h or 7d,
	// or none, if they come with the work. Without it they are due every day as soon
	// as one was published for its own sake.
	Every string `json:"every,omitempty"`
	// Remotes are the addresses to which the repository is pushed. An anchor that
	// git has from one of them was seen by another party than the operator.
	Remotes []string `json:"remotes,omitempty"`
}

// Check refuses what a pin of anchors cannot say.
func (a *AnchorPins) Check() error {
	if err := a.validate(); err != nil {
		return refusal.Newf(refusal.Usage, "anchors: %w", err).WithHint("give --anchors-every hours or days, as in 24h or 7d, or none; and an address of git with --anchor-remote")
	}
	return nil
}

// Interval is how long at most there may be no anchor; 0 if none is due.
func (a *AnchorPins) Interval() time.Duration {
	if len(a.Every) < 2 {
		return 0
	}
	n, err := strconv.Atoi(a.Every[:len(a.Every)-1])
	switch {
	case err != nil:
		return 0
	case a.Every[len(a.Every)-1] == 'd':
		return time.Duration(n) * 24 * time.Hour
	}
	return time.Duration(n) * time.Hour
}

// A PinnedLedger is a ledger by its name and by how it begins.
type PinnedLedger struct {
	Origin string `json:"origin"`
	// FirstEntry is the content digest of the first entry. Without it a ledger
	// that was begun anew under the same name passes for this one.
	FirstEntry *digest.Content `json:"first_entry,omitempty"`
}

// How an image was made.
const (
	BuiltImage    = string(image.Built)    // of the recipe in this program, which knows its digest
	CompiledImage = string(image.Compiled) // of the same recipe, with another digest; it never counts
	OCIImage      = string(image.OCI)      // built elsewhere
	HostImage     = string(image.Host)     // a snapshot of a machine's own Python; it never counts
)

// A PinnedFile is a file of the workspace and the digest it must have.
type PinnedFile struct {
	File   string         `json:"file"`
	Digest digest.Content `json:"digest"`
}

// WitnessPolicy gives the witnesses that decide and how many of them are needed;
// none if the pins name none.
func (p *Pins) WitnessPolicy() ([]note.Verifier, int, error) {
	var out []note.Verifier
	seen := make(map[string]bool)
	for _, w := range p.Witnesses {
		key, err := seal.WitnessKey(w)
		if err == nil && seen[string(key)] {
			err = errors.New("its key is listed already under another name, and one key is one witness")
		}
		if err != nil {
			return nil, 0, refusal.Newf(refusal.PinMismatch, "%s: witness %.80q: %w", PinsFile, w, err).WithHint("two people have to sign for keys of witnesses, as in witness.example+…")
		}
		seen[string(key)] = true
		v, err := seal.CosignatureVerifier(w)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, v)
	}
	quorum := 1
	if p.Quorum != nil {
		quorum = *p.Quorum
	}
	if quorum > len(out) && len(out) > 0 {
		return nil, 0, refusal.Newf(refusal.PinMismatch, "%s: quorum is %d, there are %d witnesses", PinsFile, quorum, len(out)).WithHint("nothing can meet that; two people have to sign for another number")
	}
	return out, quorum, nil
}

// PinLedger pins a ledger by its name and first entry. One of that name that is
// pinned already stays as it is: if it began otherwise, people have to decide.
func (p *Pins) PinLedger(origin string, first digest.Content) {
	if !slices.ContainsFunc(p.Origins, func(l PinnedLedger) bool { return l.Origin == origin && l.FirstEntry != nil }) {
		p.Origins = slices.DeleteFunc(p.Origins, func(l PinnedLedger) bool { return l.Origin == origin })
		p.Origins = append(p.Origins, PinnedLedger{origin, &first})
	}
}

// Message returns what is signed: the canonical JSON of the pins.
func (p *Pins) Message() ([]byte, error) { return canon.Marshal(p) }

// Format writes bench/digests.yaml.
func (p *Pins) Format() []byte {
	var b strings.Builder
	b.WriteString("# What the benches rest on. Two people sign it with \"tally bench sign\",\n# one of them with the security role.\n")
	fmt.Fprintf(&b, "version: %d\n", p.Version)
	if len(p.Classes) == 0 {
		b.WriteString("classes: []\n")
	} else {
		b.WriteString("classes:\n")
	}
	for _, c := range p.Classes {
		fmt.Fprintf(&b, "  - %q\n", c)
	}
	if len(p.Images) > 0 {
		writeMap(&b, "images", p.Images, func(d digest.Content) string { return fmt.Sprintf("%q", d) })
	}
	if len(p.ImageKinds) > 0 {
		writeMap(&b, "image_kinds", p.ImageKinds, func(kind string) string { return fmt.Sprintf("%q", kind) })
	}
	if p.CI != nil {
		fmt.Fprintf(&b, "ci:\n  file: %q\n  digest: %q\n", p.CI.File, p.CI.Digest)
	}
	p.formatLedgers(&b)
	return []byte(b.String())
}

func (p *Pins) formatLedgers(b *strings.Builder) {
	if len(p.Origins) > 0 {
		b.WriteString("# The ledgers whose attempts count, by name and first entry.\norigins:\n")
	}
	for _, l := range p.Origins {
		fmt.Fprintf(b, "  - origin: %q\n", l.Origin)
		if l.FirstEntry != nil {
			fmt.Fprintf(b, "    first_entry: %q\n", l.FirstEntry)
		}
	}
	if a := p.Anchors; a != nil {
		b.WriteString("# How often an anchor is due, and where the repository is pushed to.\nanchors:\n")
		if a.Every != "" {
			fmt.Fprintf(b, "  every: %q\n", a.Every)
		}
		if len(a.Remotes) > 0 {
			b.WriteString("  remotes:\n")
		}
		for _, url := range a.Remotes {
			fmt.Fprintf(b, "    - %q\n", url)
		}
	}
	if len(p.Witnesses) == 0 {
		return
	}
	b.WriteString("witnesses:\n")
	for _, w := range p.Witnesses {
		fmt.Fprintf(b, "  - %q\n", w)
	}
	if p.Quorum != nil {
		fmt.Fprintf(b, "quorum: %d\n", *p.Quorum)
	}
}

// Pin pins a CI file of the workspace, which must call the fence, and an image
// by its digest, with how it was made if that is known. An empty argument changes
// nothing.
func (p *Pins) Pin(root *os.Root, ciFile, image, kind string) error {
	if ciFile != "" {
		data, err := readPlain(root, ciFile, maxCIBytes)
		if err != nil {
			return err
		}
		if err := CheckCalls(ciFile, data); err != nil {
			return err
		}
		p.CI = &PinnedFile{ciFile, digest.ContentOf(data)}
	}
	if image != "" {
		d, err := digest.ParseContent(image)
		if err != nil {
			return err
		}
		if p.Images == nil {
			p.Images = map[string]digest.Content{}
		}
		p.Images[PinnedImage] = d
		delete(p.ImageKinds, PinnedImage)
		if kind != "" {
			p.ImageKinds = map[string]string{PinnedImage: kind}
		}
	}
	return nil
}
