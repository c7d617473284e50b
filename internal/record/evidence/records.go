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

// SignersChanged records the next version of the signers file. The signatures
// are over the file's bytes, by two people of the version before it.
type SignersChanged struct {
	Version    int      `json:"version"`
	Signers    string   `json:"signers"`
	Signatures []string `json:"signatures"`
}

// Kind is signers.changed.
func (*SignersChanged) Kind() Kind { return SignersChangedKind }

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

// AnchorPublished records that the tree head of Size was published, and which
// witnesses cosigned it.
type AnchorPublished struct {
	Date      string    `json:"date"`
	Size      int64     `json:"size"`
	Root      string    `json:"root"`
	Head      digest.ID `json:"head"`
	Witnesses []string  `json:"witnesses"`

	// Alone says that it was published for its own sake, as a nightly job does, and
	// not because an attempt began or ended.
	Alone bool `json:"alone,omitempty"`
	// Git says that the workspace was in a git repository then.
	Git bool `json:"git,omitempty"`
}

// Kind is anchor.published.
func (*AnchorPublished) Kind() Kind { return AnchorPublishedKind }

// Severity says how bad an event is.
type Severity string

// The severities.
const (
	Block Severity = "block"
	Warn  Severity = "warn"
	Info  Severity = "info"
)

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

// Note is any JSON object, for tools and benchmarks.
type Note map[string]canon.RawMessage

// Kind is note.
func (*Note) Kind() Kind { return NoteKind }

// CheckOrigin checks the name of a ledger: a host name and a path, as in
// example.com/evals, in characters that need no escaping in a signed note, a
// URL or JSON.
func CheckOrigin(origin string) error {
	if origin == "" || len(origin) > 200 {
		return fmt.Errorf("the origin has %d characters, expected 1 to 200", len(origin))
	}
	for _, c := range []byte(origin) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '-', c == '_', c == '/':
		default:
			return fmt.Errorf("the origin %q has the character %q, expected a-z 0-9 . - _ /", origin, c)
		}
	}
	for element := range strings.SplitSeq(origin, "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("the origin %q has the element %q between slashes, expected a host name and a path", origin, element)
		}
	}
	return nil
}
