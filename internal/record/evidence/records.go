package evidence

import (
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// Opened is the first record of every ledger. It pins version 1 of the
// signers file, so everything later follows from it.
type Opened struct {
	Origin  string `json:"origin"`
	Signers string `json:"signers"` // the whole file, version 1
}

// Kind is ledger.opened.
func (*Opened) Kind() Kind { return LedgerOpened }

// Validate checks that both fields are there.
func (o *Opened) Validate() error {
	return firstError(CheckOrigin(o.Origin), required("signers", o.Signers))
}

// SignersChanged records the next version of the signers file. The signatures
// are over the file's bytes, by two people of the version before it.
type SignersChanged struct {
	Version    int      `json:"version"`
	Signers    string   `json:"signers"`
	Signatures []string `json:"signatures"`
}

// Kind is signers.changed.
func (*SignersChanged) Kind() Kind { return SignersChangedKind }

// Validate checks the shape; [seal.Extend] verifies the signatures.
func (s *SignersChanged) Validate() error {
	if s.Version < 2 {
		return fmt.Errorf("version is %d, the first change makes version 2", s.Version)
	}
	if len(s.Signatures) < 2 {
		return fmt.Errorf("%d signatures, needs two", len(s.Signatures))
	}
	return required("signers", s.Signers)
}

// KeyPublished records a public key or key document that others rely on, so
// that what it signed stays verifiable after it is retired.
type KeyPublished struct {
	Purpose  string           `json:"purpose"`
	Key      string           `json:"key"`
	Document canon.RawMessage `json:"document,omitempty"`
	Retired  bool             `json:"retired,omitempty"`
}

// Kind is key.published.
func (*KeyPublished) Kind() Kind { return KeyPublishedKind }

// Validate checks that purpose and key are there.
func (k *KeyPublished) Validate() error {
	return firstError(required("purpose", k.Purpose), required("key", k.Key))
}

// AnchorPublished records that the tree head of Size was published, and which
// witnesses cosigned it.
type AnchorPublished struct {
	Date      string    `json:"date"`
	Size      int64     `json:"size"`
	Root      string    `json:"root"`
	Head      digest.ID `json:"head"`
	Witnesses []string  `json:"witnesses"`
}

// Kind is anchor.published.
func (*AnchorPublished) Kind() Kind { return AnchorPublishedKind }

// Validate checks that something was published.
func (a *AnchorPublished) Validate() error {
	if a.Size < 1 {
		return fmt.Errorf("size is %d, an anchor covers at least one entry", a.Size)
	}
	return firstError(required("date", a.Date), required("root", a.Root))
}

// Severity says how bad an event is.
type Severity string

// The severities.
const (
	Block Severity = "block"
	Warn  Severity = "warn"
	Info  Severity = "info"
)

func (s Severity) validate() error {
	switch s {
	case Block, Warn, Info:
		return nil
	}
	return fmt.Errorf("severity is %q, expected block, warn or info", string(s))
}

// IntegrityEvent records that something about the evidence itself was not as
// it should be.
type IntegrityEvent struct {
	Boundary string           `json:"boundary,omitempty"` // TB-1 to TB-8
	Data     canon.RawMessage `json:"data,omitempty"`
	Detail   string           `json:"detail"`
	Name     string           `json:"name"`
	Severity Severity         `json:"severity"`
}

// Kind is integrity.event.
func (*IntegrityEvent) Kind() Kind { return IntegrityEventKind }

// Validate checks name, severity and boundary.
func (e *IntegrityEvent) Validate() error {
	if b := e.Boundary; b != "" && (len(b) != 4 || b[:3] != "TB-" || b[3] < '1' || b[3] > '8') {
		return fmt.Errorf("boundary is %q, expected TB-1 to TB-8", b)
	}
	return firstError(required("name", e.Name), e.Severity.validate(), required("detail", e.Detail))
}

// Note is any JSON object, for tools and benchmarks.
type Note map[string]canon.RawMessage

// Kind is note.
func (*Note) Kind() Kind { return NoteKind }

// Validate accepts every object.
func (n *Note) Validate() error { return nil }

// CheckOrigin checks the name of a ledger: a host name and a path, as in
// example.com/evals, in characters that need no escaping in a signed note, a
// URL or JSON.
func CheckOrigin(origin string) error {
	if origin == "" || len(origin) > 200 {
		return fmt.Errorf("origin has %d characters, expected 1 to 200", len(origin))
	}
	for _, c := range []byte(origin) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '-', c == '_', c == '/':
		default:
			return fmt.Errorf("origin %q has the character %q, expected a-z 0-9 . - _ /", origin, c)
		}
	}
	for element := range strings.SplitSeq(origin, "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("origin %q has the element %q between slashes, expected a host name and a path", origin, element)
		}
	}
	return nil
}

func required(field, value string) error {
	if value == "" {
		return fmt.Errorf("%s is empty", field)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
