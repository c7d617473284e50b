package bundle

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/refusal"
)

// A Parsed is a bundle that agrees with itself. Its signatures are unchecked:
// it may say anything. Its bytes are those that were given to [Parse]; a caller who
// changes them afterwards changes the bundle.
type Parsed struct {
	Bundle
	Header   Header
	Sections []Section // all, in the order of the file

	// The seals, nil where the bundle has none. They are claims.
	HMAC      []byte
	Signer    ed25519.PublicKey
	Signature []byte
	Receipt   []byte

	missing   cost.Cost // what the record in the receipt says of it; its amount is the header's
	payload   []byte    // header and sections
	ed25519At int       // where the Ed25519 section begins in it
}

// Cost is the cost in the header, and beside it what the record in the receipt says is not
// in it: the header has room for an amount, and none for what is unknown.
func (p *Parsed) Cost() cost.Cost {
	return cost.Cost{MicroUSD: int64(p.Header.CostMicrodollars), Unpriced: p.missing.Unpriced, Untold: p.missing.Untold}
}

// IsBundle reports whether data begins as a bundle does.
func IsBundle(data []byte) bool {
	return len(data) >= 4 && binary.LittleEndian.Uint32(data) == Magic
}

// Parse reads a bundle from first byte to last and refuses it if anything in it
// disagrees with anything else. It is lenient in one thing only: a section with
// an unknown tag is kept and not understood. It verifies nothing.
func Parse(data []byte) (*Parsed, error) {
	if !IsBundle(data) {
		return nil, refusal.Newf(refusal.Malformed, "bundle: it begins with %x, expected 57565752", data[:min(len(data), 4)]).
			WithHint("this is not a bundle")
	}
	if len(data) > MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "bundle: it has %d bytes, at most %d are read", len(data), MaxBytes)
	}
	p := &Parsed{}
	if err := p.parseHeader(data); err != nil {
		return nil, err
	}
	p.payload = data
	if p.Header.Flags&FlagSigned != 0 {
		if len(data) < headerSize+hmacSize {
			return nil, invalid("the flags say signed, and %d bytes have no room for header and signature", len(data))
		}
		p.payload, p.HMAC = data[:len(data)-hmacSize], data[len(data)-hmacSize:]
	}
	if err := p.parseSections(); err != nil {
		return nil, err
	}
	if err := p.parseContent(); err != nil {
		return nil, err
	}
	if err := p.checkHeader(); err != nil {
		return nil, err
	}
	if p.Receipt != nil {
		record, err := readReceipt(p.Receipt, &p.Bundle)
		if err != nil {
			return nil, err
		}
		p.missing = record.Cost()
	}
	return p, nil
}

func (p *Parsed) parseHeader(data []byte) error {
	if len(data) < headerSize {
		return invalid("it has %d bytes, the header alone has %d", len(data), headerSize)
	}
	h := readHeader((*[headerSize]byte)(data))
	switch {
	case h.Version != Version:
		return invalid("version is %d, this program knows %d", h.Version, Version)
	case int64(h.Size) > int64(len(data)):
		return invalid("the header says %d bytes, there are %d", h.Size, len(data))
	case int64(h.Size) < int64(len(data)):
		return invalid("the header says %d bytes, and %d more follow", h.Size, int64(len(data))-int64(h.Size))
	case h.Outcome > Errored:
		return invalid("outcome is %d, expected 0 to 3", h.Outcome)
	case h.Mode > Autonomous:
		return invalid("governance_mode is %d, expected 0 to 2", h.Mode)
	}
	p.Header = h
	p.TaskID, p.PolicyHash, p.CreatedNS = h.TaskID, h.PolicyHash, h.CreatedNS
	p.Outcome, p.Mode, p.Retries = h.Outcome, h.Mode, h.Retries
	return nil
}

// parseSections walks the sections to the end of the payload. Known ones stand
// in the order of knownTags, unknown ones before the Ed25519 signature and the
// receipt, none twice.
func (p *Parsed) parseSections() error {
	seen := make(map[Tag]bool)
	last := 0
	for at := headerSize; at < len(p.payload); {
		rest := p.payload[at:]
		if len(rest) < sectionHeaderSize {
			return invalid("%d bytes are left at offset %d, a section has at least %d", len(rest), at, sectionHeaderSize)
		}
		tag, length := Tag(binary.LittleEndian.Uint16(rest)), int64(binary.LittleEndian.Uint32(rest[2:]))
		if length > int64(len(rest)-sectionHeaderSize) {
			return invalid("section %#04x (%s) at offset %d has %d bytes, %d are left", uint16(tag), tag, at, length, len(rest)-sectionHeaderSize)
		}
		switch rank := tag.rank(); {
		case seen[tag]:
			return invalid("section %#04x (%s) is there twice", uint16(tag), tag)
		case rank == 0 && last >= TagEd25519.rank():
			return invalid("section %#04x stands after the signature", uint16(tag))
		case rank != 0 && rank < last:
			return invalid("section %s stands after %s", tag, knownTags[last-1].name)
		case rank != 0:
			last = rank
		}
		// The count bounds the work that a hostile file can ask for.
		if len(p.Sections) == int(p.Header.Sections) {
			return invalid("the header counts %d sections, and there are more", p.Header.Sections)
		}
		seen[tag] = true
		if tag == TagEd25519 {
			p.ed25519At = at
		}
		end := sectionHeaderSize + int(length)
		// The capacity ends with the value: appending to one section must not
		// write into the next.
		p.Sections = append(p.Sections, Section{tag, rest[sectionHeaderSize:end:end]})
		at += end
	}
	if len(p.Sections) != int(p.Header.Sections) {
		return invalid("the header counts %d sections, there are %d", p.Header.Sections, len(p.Sections))
	}
	return nil
}

// parseContent reads the sections.
func (p *Parsed) parseContent() error {
	var err error
	for _, s := range p.Sections {
		switch s.Tag {
		case TagSpec:
			p.Spec = s.Value
		case TagPlan:
			p.Plan = s.Value
		case TagTrace:
			p.Trace, err = parseTrace(s.Value)
		case TagDiff:
			p.Diff = s.Value
		case TagTestLog:
			p.TestLog = s.Value
		case TagPostmortem:
			p.Postmortem = s.Value
		case TagFullHashes: // stands after the trace
			p.Full, err = parseFullHashes(s.Value, p.PolicyHash, p.Trace)
		case TagObserved: // stands after the trace
			p.Observed, err = parseObserved(s.Value, p.Trace)
		case TagEd25519:
			if len(s.Value) != ed25519Size {
				return invalid("ED25519 has %d bytes, a key and a signature have %d", len(s.Value), ed25519Size)
			}
			p.Signer, p.Signature = ed25519.PublicKey(bytes.Clone(s.Value[:ed25519.PublicKeySize])), s.Value[ed25519.PublicKeySize:]
		case TagReceipt:
			p.Receipt = s.Value
		default:
			p.Other = append(p.Other, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkHeader compares what the header states with what the sections say. No
// trace is a trace of no calls.
func (p *Parsed) checkHeader() error {
	flags := p.Header.Flags & FlagSigned
	for _, s := range p.Sections {
		flags |= s.Tag.flag()
	}
	t := p.totals()
	switch h := p.Header; {
	case h.Outcome != Solved && p.Postmortem == nil:
		return invalid("outcome is %s, and there is no POSTMORTEM", h.Outcome)
	case h.Flags != flags:
		return invalid("flags are %#04x, the sections say %#04x", h.Flags, flags)
	case int(h.ToolCalls) != len(p.Trace):
		return invalid("tool_call_count is %d, the trace has %d", h.ToolCalls, len(p.Trace))
	case h.CostMicrodollars != t.cost:
		return invalid("total_cost_microdollars is %d, the trace adds up to %d", h.CostMicrodollars, t.cost)
	case h.LatencyMS != t.latency:
		return invalid("total_latency_ms is %d, the trace adds up to %d", h.LatencyMS, t.latency)
	case h.Tokens != t.tokens:
		return invalid("total_tokens is %d, the trace adds up to %d", h.Tokens, t.tokens)
	}
	return nil
}
