package bench

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/strictyaml"
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
	// CI pins the file that runs the fence.
	CI *PinnedFile `json:"ci,omitempty"`
}

// A PinnedFile is a file of the workspace and the digest it must have.
type PinnedFile struct {
	File   string         `json:"file"`
	Digest digest.Content `json:"digest"`
}

func (p *Pins) validate() error {
	if p.Version != 1 {
		return badField("version", "found %d, this program knows 1", p.Version)
	}
	seen := nameSet{}
	for i, c := range p.Classes {
		if err := CheckID(c); err != nil {
			return badField(fieldAt("classes", i), "%w", err)
		}
		if other := seen.add(c); other != "" {
			return badField(fieldAt("classes", i), "%q looks like %q, which is listed already", c, other)
		}
	}
	if !slices.IsSorted(p.Classes) {
		return badField("classes", "expected the names in order")
	}
	for name := range p.Images {
		if err := CheckID(name); err != nil {
			return strictyaml.At([]string{"images", name}, err)
		}
	}
	if p.CI != nil && (p.CI.File == "" || path.IsAbs(p.CI.File) || path.Clean(p.CI.File) != p.CI.File || strings.HasPrefix(p.CI.File, "..")) {
		return badField("ci.file", "found %.80q, expected a clean path relative to the workspace", p.CI.File)
	}
	return nil
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
	if p.CI != nil {
		fmt.Fprintf(&b, "ci:\n  file: %q\n  digest: %q\n", p.CI.File, p.CI.Digest)
	}
	return []byte(b.String())
}

// Pin pins a CI file of the workspace, which must call the fence, and an image
// by its digest. An empty argument changes nothing.
func (p *Pins) Pin(root *os.Root, ciFile, image string) error {
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
	}
	return nil
}
