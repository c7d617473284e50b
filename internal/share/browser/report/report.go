// Package report makes one page of an attempt that opens from disk and checks itself,
// and verifies such a page.
//
// A page is derived from its data, which stands in it: receipts, entries and the evidence
// that these name. [Render] reads no clock, no workspace and no unsigned words,
// so [Verify] verifies the data, makes the page again and compares every byte. What the
// page does not show it counts.
package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/browser"
)

// Format names the format of the data in a page.
const Format = "tallystick-report/" + format.Version

// layout is raised whenever [Render] makes another page of the same data; the test of
// the golden page says so.
const layout = 3

// Data is what a page is made of.
type Data struct {
	Format   string `json:"format"`
	Renderer string `json:"renderer"` // what made the page: see [Renderer]
	Key      string `json:"key"`      // that sealed the ledger, which proves nothing by standing here
	Attempt  string `json:"attempt"`
	Examples bool   `json:"examples,omitempty"` // the people who signed come with "tally init", as the exporter says
	// Registration is the canonical JSON whose digest the plan names, "" if the bench has
	// changed since. Elsewhere says that the exporter's workspace decides otherwise than
	// the report can compute, which then tells nothing of the gates.
	Registration string     `json:"registration,omitempty"`
	Elsewhere    bool       `json:"gate_elsewhere,omitempty"`
	Entries      []Entry    `json:"entries"`
	Cases        []Evidence `json:"cases"` // the evidence of records, in the order of the page
}

// An Entry is a line of the ledger and its receipt.
type Entry struct {
	Index   int64  `json:"index"`
	Entry   string `json:"entry"`
	Receipt string `json:"receipt"`
}

// Evidence is that of a record, or why it is not here.
type Evidence struct {
	Entry      int64  `json:"entry"`
	Without    string `json:"without,omitempty"`
	Index      string `json:"index,omitempty"`
	Trajectory string `json:"trajectory,omitempty"`
	Grading    string `json:"grading,omitempty"`
}

// Why the evidence of a record is not in a report.
const (
	HeldOut  = "held_out" // it would tell what the case asks
	TooLong  = "size"     // the file would be too large
	NotNamed = "none"     // the record names none
)

var withoutWords = map[string]string{
	HeldOut:  "Scoring and transcript are left out: the case is held out.",
	TooLong:  "Scoring and transcript are left out: the file would be too large.",
	NotNamed: "The record names no evidence.",
}

// Renderer names what makes the page of this release: how it is laid out, what it runs
// and how it looks.
func Renderer() string {
	sum := sha256.Sum256([]byte(browser.ReportScript() + "\x00" + browser.Style()))
	return fmt.Sprintf("%d.%x", layout, sum[:16])
}

// parts are the entries of the data by what they are.
type parts struct {
	registered *part   // of the attempt
	newest     *part   // registration of its class with the largest number
	finished   *part   // nil if the attempt has not finished
	records    []*part // in the order of the data
	beside     []*part // scores that were set beside records
}

type part struct {
	index int64
	raw   json.RawMessage // the body
	body  evidence.Body
	time  evidence.Time
}

// take sorts the entries out and refuses what does not belong to the attempt.
func (d *Data) take() (*parts, error) {
	p := &parts{}
	seen := map[int64]bool{}
	for _, e := range d.Entries {
		entry, body, err := evidence.DecodeEntry([]byte(e.Entry))
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", e.Index, err)
		}
		if seen[e.Index] {
			return nil, fmt.Errorf("entry %d stands twice", e.Index)
		}
		seen[e.Index] = true
		if entry.Manual {
			return nil, fmt.Errorf("entry %d was appended by hand, and counts for nothing", e.Index)
		}
		if err := p.sort(d.Attempt, &part{e.Index, json.RawMessage(entry.Body), body, entry.Time}); err != nil {
			return nil, fmt.Errorf("entry %d: %w", e.Index, err)
		}
	}
	if p.registered == nil {
		return nil, fmt.Errorf("the registration of attempt %s is missing", d.Attempt)
	}
	if p.newest == nil {
		p.newest = p.registered
	}
	if err := p.checkBeside(); err != nil {
		return nil, err
	}
	class := p.registered.body.(*evidence.AttemptRegistered)
	newest := p.newest.body.(*evidence.AttemptRegistered)
	if newest.Class != class.Class || newest.Number < class.Number {
		return nil, fmt.Errorf("entry %d is not a later registration of class %s", p.newest.index, class.Class)
	}
	return p, nil
}

func (p *parts) sort(attempt string, x *part) error {
	var of string
	switch b := x.body.(type) {
	case *evidence.AttemptRegistered:
		switch {
		case b.Attempt == attempt && p.registered == nil:
			p.registered = x
		case b.Attempt != attempt && p.newest == nil:
			p.newest = x
		default:
			return fmt.Errorf("a registration too many")
		}
		return nil
	case *evidence.AttemptFinished:
		if p.finished != nil {
			return fmt.Errorf("the attempt finishes twice")
		}
		p.finished, of = x, b.Attempt
	case *evidence.CaseScored:
		p.records, of = append(p.records, x), b.Attempt
	case *evidence.ScoreCorrected:
		p.beside, of = append(p.beside, x), b.Attempt
	case *evidence.ScoreAmended: // it names its record, and not the attempt
		p.beside = append(p.beside, x)
		return nil
	default:
		return fmt.Errorf("a %s does not belong into a report", x.body.Kind())
	}
	if of != attempt {
		return fmt.Errorf("it is of attempt %s, the report of %s", of, attempt)
	}
	return nil
}

// signed reports whether the key of the ledger signed the registration of a bench that
// is not scratch, which is as much as receipts can tell of an attempt's level.
func signed(r *evidence.AttemptRegistered, vkey string) bool {
	_, key, err := seal.ParseLogKey(vkey)
	message, messageErr := r.Message()
	if err != nil || messageErr != nil || r.Scratch {
		return false
	}
	by, err := seal.VerifySignature([]byte(r.Signature), message, seal.NamespaceAttempt)
	if err != nil {
		return false
	}
	pub, ok := by.Ed25519()
	return ok && pub.Equal(key)
}

// Is reports whether a file looks like a report.
func Is(file []byte) bool {
	return bytes.HasPrefix(file, []byte("<!doctype html>\n")) && bytes.Contains(file, []byte(dataBegin))
}

// A Verified is a report whose page shows what its receipts prove, and nothing else.
// Only [Verify] makes one.
type Verified struct {
	Data       *Data
	Checkpoint *ledger.Checkpoint
	Registered *evidence.AttemptRegistered
	Finished   *evidence.AttemptFinished // nil if it has not finished
	Records    int
	Of         int // the number of the newest attempt of the class
	Signed     bool
}
