package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// Verify verifies every receipt in a report and the evidence that they name, and that
// the file is the page that is made of them.
func Verify(file []byte, p ledger.Policy) (*Verified, error) {
	d, err := parse(file)
	if refusal.Is(err, refusal.NewerFormat) {
		return nil, err
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "report: %w", err).WithHint("the file was cut or changed; ask for it again")
	}
	v := &Verified{Data: d}
	proved, err := d.verifyEntries(v, p)
	if err != nil {
		return nil, err
	}
	if err := d.verifyCases(proved); err != nil {
		return nil, invalid("%w", err)
	}
	all, err := d.take()
	if err != nil {
		return nil, invalid("%w", err)
	}
	v.Registered, v.Records = all.registered.body.(*evidence.AttemptRegistered), len(all.records)
	v.Of, v.Signed = all.newest.body.(*evidence.AttemptRegistered).Number, signed(v.Registered, d.Key)
	if all.finished != nil {
		v.Finished = all.finished.body.(*evidence.AttemptFinished)
	}
	return v, d.compare(file)
}

func invalid(format string, args ...any) error {
	return refusal.Newf(refusal.ReceiptInvalid, "report: "+format, args...).WithHint("the file was changed after it was written; ask for it again")
}

// parse finds the data in a page.
func parse(file []byte) (*Data, error) {
	_, after, ok := bytes.Cut(file, []byte(dataBegin))
	data, _, end := bytes.Cut(after, []byte(dataEnd))
	if !ok || !end {
		return nil, fmt.Errorf("it carries no data")
	}
	d := &Data{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, cmp.Or(format.Newer("the report", data, "format", Format), err)
	}
	if newer := format.NewerName("the report", d.Format, Format); newer != nil {
		return nil, newer
	}
	if d.Format != Format || len(d.Entries) == 0 {
		return nil, fmt.Errorf("its format is %q, expected %q with entries", d.Format, Format)
	}
	return d, nil
}

// verifyEntries verifies the receipts. All have one checkpoint, so that they speak of
// one state of one ledger, and the key that the page names is one that was given.
func (d *Data) verifyEntries(v *Verified, p ledger.Policy) (map[int64]*ledger.Proved, error) {
	origin, key, err := seal.ParseLogKey(d.Key)
	if err != nil {
		return nil, invalid("its key: %w", err)
	}
	given := false
	for _, l := range p.Logs {
		given = given || l.Origin == origin && l.Key.Equal(key)
	}
	if !given {
		return nil, refusal.Newf(refusal.SignerUnknown, "report: it names the key %s, which is not one that was given", d.Key).
			WithHint("give the ledger's key with --key, from a person you trust and not from the report")
	}
	proved := make(map[int64]*ledger.Proved, len(d.Entries))
	var checkpoint []byte
	for _, e := range d.Entries {
		one, err := ledger.VerifyReceipt([]byte(e.Receipt), []byte(e.Entry), p)
		if err != nil {
			return nil, fmt.Errorf("report: entry %d: %w", e.Index, err)
		}
		r, err := ledger.ParseReceipt([]byte(e.Receipt))
		if err != nil {
			return nil, err
		}
		if checkpoint == nil {
			checkpoint, v.Checkpoint = r.Checkpoint, one.Checkpoint
		}
		if one.Index != e.Index || !bytes.Equal(r.Checkpoint, checkpoint) {
			return nil, invalid("entry %d: its receipt is of entry %d, or of another state of the ledger", e.Index, one.Index)
		}
		proved[e.Index] = one
	}
	return proved, nil
}

// verifyCases verifies the evidence: a record names its index, which names the rest.
func (d *Data) verifyCases(proved map[int64]*ledger.Proved) error {
	for _, c := range d.Cases {
		p := proved[c.Entry]
		if p == nil {
			return fmt.Errorf("evidence of entry %d, which is not here", c.Entry)
		}
		record, ok := p.Body.(*evidence.CaseScored)
		if !ok {
			return fmt.Errorf("evidence of entry %d, which is not a record of a case", c.Entry)
		}
		if err := c.verify(record); err != nil {
			return fmt.Errorf("case %s: %w", record.CaseID, err)
		}
	}
	return nil
}

func (c *Evidence) verify(record *evidence.CaseScored) error {
	if c.Without != "" {
		if withoutWords[c.Without] == "" || c.Index+c.Trajectory+c.Grading != "" {
			return fmt.Errorf("it is without evidence for no known reason, or has some")
		}
		return nil
	}
	if len(record.EvidenceDigests) == 0 || digest.ContentOf([]byte(c.Index)) != record.EvidenceDigests[0] {
		return fmt.Errorf("the index is not the one that the record names")
	}
	files := &evidence.CaseFiles{}
	if err := canon.UnmarshalCanonical([]byte(c.Index), files); err != nil {
		return err
	}
	if digest.ContentOf([]byte(c.Trajectory)) != files.Trajectory.Digest {
		return fmt.Errorf("the transcript is not the one that the record names")
	}
	if c.Grading != "" && (files.Grading == nil || digest.ContentOf([]byte(c.Grading)) != *files.Grading) {
		return fmt.Errorf("the scoring is not the one that the record names")
	}
	return nil
}

// compare makes the page again.
func (d *Data) compare(file []byte) error {
	if d.Renderer != Renderer() {
		return refusal.Newf(refusal.Unrecognised, "report: its receipts verify, but the page was laid out by another release (%s, this one is %s), so what it shows cannot be compared", d.Renderer, Renderer()).
			WithHint("verify it with the release that made it, or export the attempt again")
	}
	page, err := Render(d)
	if err != nil {
		return invalid("%w", err)
	}
	if bytes.Equal(page, file) {
		return nil
	}
	at := 0
	for at < len(page) && at < len(file) && page[at] == file[at] {
		at++
	}
	return invalid("the page is not the one that its data gives: from byte %d on it has %q, expected %q", at, around(file, at), around(page, at))
}

// around is a little of a text from a place on.
func around(text []byte, at int) string {
	return string(text[min(at, len(text)):min(at+60, len(text))])
}
