package evidence

import (
	"errors"
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
)

// Bounds of what is kept of the programs that decide a score. What is over them
// is listed by its digest and not kept.
const (
	MaxSourceBytes  = 1 << 20  // of a file
	MaxSourcesBytes = 16 << 20 // of all
	MaxSources      = 4000     // files that are listed
)

// Sources lists the programs that decide a score: the files of the target and of
// the rubric as they were when the attempt was registered. It is a piece of the
// attempt's evidence, and so are the files that were kept.
type Sources struct {
	Files   []Source `json:"files"`             // by path
	Missing []string `json:"missing,omitempty"` // what decides it and cannot be listed, and why
	Version string   `json:"v"`                 // [format.Version]
}

// A Source is one file.
type Source struct {
	Bytes  int64          `json:"bytes"`
	Digest digest.Content `json:"digest"`
	Kept   bool           `json:"kept,omitempty"`
	Path   string         `json:"path"` // below rubric/, target/ or parameters/
}

// Add lists a file, and reports whether it is within the bounds, so that the
// caller keeps it. Files are added in the order of their paths.
func (s *Sources) Add(path string, data []byte) (keep bool) {
	if len(s.Files) == MaxSources {
		if len(s.Missing) == 0 || s.Missing[len(s.Missing)-1] != tooManySources {
			s.Missing = append(s.Missing, tooManySources)
		}
		return false
	}
	kept := int64(0)
	for _, f := range s.Files {
		if f.Kept {
			kept += f.Bytes
		}
	}
	keep = len(data) <= MaxSourceBytes && kept+int64(len(data)) <= MaxSourcesBytes
	s.Files = append(s.Files, Source{Bytes: int64(len(data)), Digest: digest.ContentOf(data), Kept: keep, Path: path})
	return keep
}

const tooManySources = "the target and the rubric have more files than are listed"

// Validate checks the shape.
func (s *Sources) Validate() error {
	if err := format.CheckVersion("the list of sources", s.Version); err != nil {
		return err
	}
	if len(s.Files) > MaxSources {
		return fmt.Errorf("%d files, expected at most %d", len(s.Files), MaxSources)
	}
	last := ""
	for _, f := range s.Files {
		if f.Path <= last || f.Bytes < 0 || f.Digest.IsZero() {
			return fmt.Errorf("file %q of %d bytes is out of order, or has no digest", f.Path, f.Bytes)
		}
		last = f.Path
	}
	for _, m := range s.Missing {
		if m == "" {
			return errors.New("missing: a reason is empty")
		}
	}
	return nil
}
