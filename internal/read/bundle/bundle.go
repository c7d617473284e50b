package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"

	"tallystick/internal/record/refusal"
)

// A Section is one piece of a bundle.
type Section struct {
	Tag   Tag
	Value []byte
}

// A Bundle is what a witness says of one task. What the header counts and sums
// up is not in it: that follows from the rest.
type Bundle struct {
	TaskID     UUID
	PolicyHash ShortHash
	CreatedNS  uint64
	Outcome    Outcome
	Mode       Mode
	Retries    uint16

	// The texts. A nil one is not in the bundle, an empty one is.
	Spec, Plan, Diff, TestLog, Postmortem []byte

	Trace []ToolCall
	Full  *FullHashes // or nil

	Observed *Observed // or nil

	// Other holds sections that this package does not know. They are kept and
	// signed, and mean nothing here.
	Other []Section
}

// EvidenceComplete reports whether specification, diff and test log are there,
// even if empty.
func (b *Bundle) EvidenceComplete() bool {
	return b.Spec != nil && b.Diff != nil && b.TestLog != nil
}

// Seals are what [Bundle.Pack] puts on a bundle besides its content.
type Seals struct {
	// HMACKey, if not nil, signs the bundle for those who share it.
	HMACKey []byte
	// Key, if not nil, signs it for everybody.
	Key ed25519.PrivateKey
	// Receipt, if not nil, is a ledger receipt of the task's case.scored entry,
	// with the entry inside.
	Receipt []byte
}

// minHMACKey is the least length of a key to sign with. The format takes any;
// a shorter one can be guessed.
const minHMACKey = 16

// Pack writes the bundle. What it returns passes [Parse]; a bundle that would
// not is refused. A task that was not solved needs a postmortem.
func (b *Bundle) Pack(s Seals) ([]byte, error) {
	if b.Outcome != Solved && b.Postmortem == nil {
		return nil, refusal.Newf(refusal.Malformed, "packing: the outcome is %s and there is no postmortem", b.Outcome).
			WithHint("say what went wrong; only a solved task goes without")
	}
	if s.HMACKey != nil && len(s.HMACKey) < minHMACKey {
		return nil, refusal.Newf(refusal.Malformed, "packing: the HMAC key has %d bytes, at least %d are needed", len(s.HMACKey), minHMACKey).
			WithHint("make one with: openssl rand -hex 32")
	}
	if err := b.fits(); err != nil {
		return nil, err
	}
	sections := b.sections()
	if s.Key != nil {
		// The place of the signature, so that size and count are final before
		// anything is signed.
		sections = append(sections, Section{TagEd25519, make([]byte, ed25519Size)})
	}
	if s.Receipt != nil {
		sections = append(sections, Section{TagReceipt, s.Receipt})
	}
	data, err := assemble(b, sections, s.HMACKey != nil)
	if err != nil {
		return nil, err
	}
	if s.Key != nil {
		signEd25519(data, sections, s.Key)
	}
	if s.HMACKey != nil {
		data = append(data, hmacOf(s.HMACKey, data)...)
	}
	if _, err := Parse(data); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "packing: %v", err).WithHint("a strict reader would refuse this bundle")
	}
	return data, nil
}

// fits refuses what the format's counters would cut off without a word.
func (b *Bundle) fits() error {
	if len(b.Trace) > math.MaxUint16 {
		return refusal.Newf(refusal.TooLarge, "packing: %d tool calls, a bundle counts at most %d", len(b.Trace), math.MaxUint16)
	}
	for i, c := range b.Trace {
		if len(c.Action) > math.MaxUint16 {
			return refusal.Newf(refusal.TooLarge, "packing: tool call %d: the action has %d bytes, at most %d fit", i, len(c.Action), math.MaxUint16)
		}
	}
	return nil
}

// sections writes the content in the order of the format.
func (b *Bundle) sections() []Section {
	var out []Section
	add := func(tag Tag, value []byte) {
		if value != nil {
			out = append(out, Section{tag, value})
		}
	}
	add(TagSpec, b.Spec)
	add(TagPlan, b.Plan)
	add(TagTrace, appendTrace(b.Trace))
	add(TagDiff, b.Diff)
	add(TagTestLog, b.TestLog)
	add(TagPostmortem, b.Postmortem)
	out = append(out, b.Other...)
	if b.Full != nil {
		add(TagFullHashes, b.Full.append(nil))
	}
	if b.Observed != nil {
		add(TagObserved, b.Observed.append(nil))
	}
	return out
}

// appendTrace writes all entries, or nil when there are none.
func appendTrace(calls []ToolCall) []byte {
	var out []byte
	for _, c := range calls {
		out = appendToolCall(out, c)
	}
	return out
}

// assemble writes header and sections, with the header that follows from the
// sections. The HMAC is counted and not written.
func assemble(b *Bundle, sections []Section, signed bool) ([]byte, error) {
	size := headerSize
	flags := uint16(0)
	for _, s := range sections {
		size += sectionHeaderSize + len(s.Value)
		flags |= s.Tag.flag()
	}
	if signed {
		size += hmacSize
		flags |= FlagSigned
	}
	if size > MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "packing: the bundle has %d bytes, at most %d are written", size, MaxBytes)
	}
	if len(sections) > math.MaxUint16 {
		return nil, refusal.Newf(refusal.TooLarge, "packing: %d sections, a bundle counts at most %d", len(sections), math.MaxUint16)
	}
	t := b.totals()
	data := Header{
		Version: Version, Flags: flags, TaskID: b.TaskID, PolicyHash: b.PolicyHash, CreatedNS: b.CreatedNS,
		Outcome: b.Outcome, Mode: b.Mode, ToolCalls: uint16(len(b.Trace)),
		CostMicrodollars: t.cost, LatencyMS: t.latency, Tokens: t.tokens,
		Retries: b.Retries, Sections: uint16(len(sections)), Size: uint32(size),
	}.append(make([]byte, 0, size))
	for _, s := range sections {
		data = binary.LittleEndian.AppendUint16(data, uint16(s.Tag))
		data = binary.LittleEndian.AppendUint32(data, uint32(len(s.Value)))
		data = append(data, s.Value...)
	}
	return data, nil
}

// hmacOf is the HMAC-SHA256 (RFC 2104) of header and sections.
func hmacOf(key, payload []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(payload)
	return mac.Sum(nil)
}

// The Ed25519 section: public key, signature.
const ed25519Size = ed25519.PublicKeySize + ed25519.SignatureSize

// ed25519Domain keeps a signature over a bundle from being one over anything
// else that the same key signs.
const ed25519Domain = "tallystick-bundle-v1\x00"

// ed25519Message is what the Ed25519 signature covers: the whole of header and
// sections but the signature's own section, whose tag and length are fixed and
// whose existence the header's count and size tell. own is where that section
// begins in the payload.
//
// The hash is signed and not the payload, which Ed25519 would hash with
// SHA-512 at half the speed; the domain stands outside the hash, so that no
// message of another protocol can be one of these.
func ed25519Message(payload []byte, own int) []byte {
	h := sha256.New()
	h.Write(payload[:own])
	h.Write(payload[own+sectionHeaderSize+ed25519Size:])
	return h.Sum([]byte(ed25519Domain))
}

// signEd25519 fills the signature's section in a payload that is otherwise
// final.
func signEd25519(payload []byte, sections []Section, key ed25519.PrivateKey) {
	own := headerSize
	for _, s := range sections {
		if s.Tag == TagEd25519 {
			break
		}
		own += sectionHeaderSize + len(s.Value)
	}
	value := payload[own+sectionHeaderSize:]
	copy(value, key.Public().(ed25519.PublicKey))
	copy(value[ed25519.PublicKeySize:], ed25519.Sign(key, ed25519Message(payload, own)))
}

// Marshal writes a parsed bundle again. Header, trace and hashes are made anew
// from the content, so the result equals the bytes that were parsed only if
// these had the one accepted spelling.
func (p *Parsed) Marshal() ([]byte, error) {
	values := make(map[Tag][]byte, len(p.Sections))
	for _, s := range p.Bundle.sections() {
		values[s.Tag] = s.Value
	}
	if p.Signature != nil {
		values[TagEd25519] = append(bytes.Clone(p.Signer), p.Signature...)
	}
	if p.Receipt != nil {
		values[TagReceipt] = p.Receipt
	}
	sections := make([]Section, len(p.Sections))
	for i, s := range p.Sections {
		sections[i] = Section{s.Tag, values[s.Tag]}
	}
	data, err := assemble(&p.Bundle, sections, p.HMAC != nil)
	if err != nil {
		return nil, err
	}
	return append(data, p.HMAC...), nil
}
