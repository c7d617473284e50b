package agent

import (
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A Carried is a target in a form that travels to another machine: its settings, and
// its files by digest. What it becomes there has the same digest, or is refused.
type Carried struct {
	Name       string                `json:"name"`
	Base       string                `json:"base"`
	Kind       Kind                  `json:"kind"`
	Builtin    *Builtin              `json:"builtin,omitempty"`
	Command    *Command              `json:"command,omitempty"`
	HTTP       *HTTP                 `json:"http,omitempty"`
	Normalise  []evidence.Normaliser `json:"normalise,omitempty"`
	Parameters []CarriedParameter    `json:"parameters,omitempty"`
	HasFiles   bool                  `json:"has_files,omitempty"`
	Files      []CarriedFile         `json:"files,omitempty"`

	Folders     []CarriedFolder `json:"folders,omitempty"`
	Interpreter *Interpreter    `json:"interpreter,omitempty"` // of the venv, if it is one of the machine's
}

// A CarriedFile is a file by digest.
type CarriedFile struct {
	Path   string         `json:"path"`
	Digest digest.Content `json:"digest"`
}

// A CarriedParameter is a parameter of a variant; one with a digest is a file.
type CarriedParameter struct {
	Name   string          `json:"name"`
	Value  any             `json:"value,omitempty"`
	Text   string          `json:"text"`
	Digest *digest.Content `json:"digest,omitempty"`
}

// Carry takes a target apart. Pieces has the bytes of its files, and folders those of
// the folders that it needs, by the digests of their lists.
func (t *Target) Carry() (c Carried, pieces map[digest.Content][]byte, folders map[digest.Content]*FolderSource, err error) {
	if t.HTTP != nil && t.HTTP.Local() {
		return c, nil, nil, refusal.Newf(refusal.Usage, "target %s is at %s, which is another machine for each worker", t.Name, t.HTTP.URL).
			WithHint("give the agent an address that every worker reaches, or run it on this machine")
	}
	c = Carried{Name: t.Name, Base: t.base, Kind: t.Kind, Builtin: t.Builtin, Command: t.Command, HTTP: t.HTTP, Normalise: t.Normalise, HasFiles: t.tree != nil}
	pieces = map[digest.Content][]byte{}
	put := func(data []byte) digest.Content {
		d := digest.ContentOf(data)
		pieces[d] = data
		return d
	}
	for _, p := range t.Parameters {
		if p.file {
			put(p.Data)
		}
		c.Parameters = append(c.Parameters, CarriedParameter{Name: p.Name, Value: p.Value, Text: p.Text, Digest: p.Digest})
	}
	for _, f := range t.Files() {
		c.Files = append(c.Files, CarriedFile{Path: f.Path, Digest: put(f.Data)})
	}
	if c.Folders, folders, err = t.carryFolders(put); err != nil {
		return c, nil, nil, err
	}
	if t.venv != nil {
		if c.Interpreter, err = t.venv.interpreter(); err != nil {
			return c, nil, nil, refusal.Newf(refusal.Usage, "target %s: its venv cannot travel to workers: %w", t.Name, err)
		}
	}
	return c, pieces, folders, nil
}

// Unpack makes the target again, of pieces that read gives, and of folders that unpack
// puts somewhere. It is refused unless its digest is want.
func (c *Carried) Unpack(want digest.Content, read func(digest.Content) ([]byte, error), unpack func(CarriedFolder) (string, error)) (*Target, error) {
	t := &Target{Name: c.Name, base: c.Base, Kind: c.Kind, Builtin: c.Builtin, Command: c.Command, HTTP: c.HTTP, Normalise: c.Normalise}
	for _, p := range c.Parameters {
		param := Parameter{Name: p.Name, Value: p.Value, Text: p.Text, Digest: p.Digest, file: p.Digest != nil}
		if param.file {
			var err error
			if param.Data, err = read(*p.Digest); err != nil {
				return nil, err
			}
		}
		t.Parameters = append(t.Parameters, param)
	}
	if c.HasFiles {
		t.tree = &digest.Tree{}
		for _, f := range c.Files {
			data, err := read(f.Digest)
			if err != nil {
				return nil, err
			}
			t.tree.Files = append(t.tree.Files, digest.File{Path: f.Path, Data: data})
		}
	}
	if t.Builtin == nil && t.Command == nil && t.HTTP == nil {
		return nil, refusal.Newf(refusal.Malformed, "target %.100q has no kind", c.Name)
	}
	if err := t.validate(); err != nil {
		return nil, fmt.Errorf("target %.100q: %w", c.Name, err)
	}
	if err := t.place(c, unpack); err != nil {
		return nil, err
	}
	if err := t.computeDigest(); err != nil {
		return nil, err
	}
	if t.Digest != want {
		return nil, refusal.Newf(refusal.DigestMismatch, "target %.100q is %s, the attempt is registered with %s", c.Name, t.Digest, want)
	}
	return t, nil
}
