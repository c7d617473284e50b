// Package bundle packs, parses and verifies RVF witness bundles: one file for
// each task that says what was asked, planned, done, changed and tested, with
// totals in its header and a signature over all of it.
//
// A [Bundle] is the content; [Bundle.Pack] makes the file. [Parse] reads a file
// and checks that it agrees with itself, [Verify] that a signer whom the caller
// named signed it, and [CheckOutcome] that its test log supports its outcome.
// The bytes are those of the format's first implementation (RVF), which
// reads what is packed here and whose bundles verify here. docs/formats/bundle.md
// states the format.
//
// What a caller may rely on:
//
//   - A file that [Parse] accepts has one reading and one spelling: sizes, counts,
//     flags, totals and sections agree, and encoding it again gives the same bytes.
//   - [Verify] has no default: it accepts only what the caller's [Trust] asks for,
//     and all of it. An unsigned bundle never passes.
//   - No input makes it panic, and memory is bounded by [MaxBytes].
//
// Where it stops: an HMAC proves nothing to a reader without the key, and every
// holder of the key can forge one; that is what the Ed25519 section is for. A
// signature says who vouches for the bundle, not that the bundle is true. The
// 8-byte hashes of the format are carried and never trusted.
//
// The package does no I/O.
package bundle

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"tallystick/internal/record/refusal"
)

// MaxBytes is the size of the largest bundle that is packed or parsed. The
// format has no limit of its own.
const MaxBytes = 64 << 20

// The wire format. All integers are little-endian.
const (
	Magic   = 0x52575657 // the bytes 57 56 57 52
	Version = 1

	headerSize        = 64
	sectionHeaderSize = 6 // tag u16, length u32
	hmacSize          = 32
)

// The flags of the header: one for the HMAC, one for each section of the
// original format. The sections that were added here have none, because older
// readers would not know them.
const (
	FlagSigned        = 0x01
	FlagHasSpec       = 0x02
	FlagHasPlan       = 0x04
	FlagHasTrace      = 0x08
	FlagHasDiff       = 0x10
	FlagHasTestLog    = 0x20
	FlagHasPostmortem = 0x40
)

// A Tag says what a section holds.
type Tag uint16

// The sections of the original format, and from TagEd25519 on those added here.
const (
	TagSpec       Tag = 0x0001
	TagPlan       Tag = 0x0002
	TagTrace      Tag = 0x0003
	TagDiff       Tag = 0x0004
	TagTestLog    Tag = 0x0005
	TagPostmortem Tag = 0x0006

	TagEd25519    Tag = 0x0100
	TagReceipt    Tag = 0x0101
	TagFullHashes Tag = 0x0102
	TagObserved   Tag = 0x0103
)

// knownTags lists the sections in the only order in which they may stand.
var knownTags = []struct {
	tag  Tag
	name string
	flag uint16
}{
	{TagSpec, "SPEC", FlagHasSpec},
	{TagPlan, "PLAN", FlagHasPlan},
	{TagTrace, "TRACE", FlagHasTrace},
	{TagDiff, "DIFF", FlagHasDiff},
	{TagTestLog, "TEST_LOG", FlagHasTestLog},
	{TagPostmortem, "POSTMORTEM", FlagHasPostmortem},
	{TagFullHashes, "FULL_HASHES", 0},
	{TagObserved, "OBSERVED", 0},
	{TagEd25519, "ED25519", 0},
	{TagReceipt, "RECEIPT", 0},
}

// rank is the place of a known section among the others, from 1; 0 for others.
func (t Tag) rank() int {
	for i, k := range knownTags {
		if k.tag == t {
			return i + 1
		}
	}
	return 0
}

func (t Tag) flag() uint16 {
	if i := t.rank(); i > 0 {
		return knownTags[i-1].flag
	}
	return 0
}

// String is the name of the section, or UNKNOWN.
func (t Tag) String() string {
	if i := t.rank(); i > 0 {
		return knownTags[i-1].name
	}
	return "UNKNOWN"
}

// An Outcome says how a task ended.
type Outcome uint8

// The outcomes.
const (
	Solved  Outcome = 0
	Failed  Outcome = 1
	Skipped Outcome = 2
	Errored Outcome = 3
)

var outcomeNames = []string{"solved", "failed", "skipped", "errored"}

// String is the outcome's name in lower case.
func (o Outcome) String() string { return name(outcomeNames, uint8(o)) }

// A Mode says how much the agent was allowed to do by itself.
type Mode uint8

// The governance modes.
const (
	Restricted Mode = 0
	Approved   Mode = 1
	Autonomous Mode = 2
)

var modeNames = []string{"restricted", "approved", "autonomous"}

// String is the mode's name in lower case.
func (m Mode) String() string { return name(modeNames, uint8(m)) }

// A PolicyCheck is what the policy said to one tool call.
type PolicyCheck uint8

// The answers of a policy.
const (
	Allowed   PolicyCheck = 0
	Denied    PolicyCheck = 1
	Confirmed PolicyCheck = 2
)

var checkNames = []string{"allowed", "denied", "confirmed"}

// String is the answer in lower case.
func (c PolicyCheck) String() string { return name(checkNames, uint8(c)) }

func name(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown (%d)", i)
}

// ParseOutcome reads the name of an outcome. "error" is how RVF spells
// errored.
func ParseOutcome(s string) (Outcome, error) {
	if s == "error" {
		return Errored, nil
	}
	i, err := parseName("outcome", outcomeNames, s)
	return Outcome(i), err
}

// ParseMode reads the name of a governance mode.
func ParseMode(s string) (Mode, error) {
	i, err := parseName("governance_mode", modeNames, s)
	return Mode(i), err
}

// ParsePolicyCheck reads the answer of a policy.
func ParsePolicyCheck(s string) (PolicyCheck, error) {
	i, err := parseName("policy_check", checkNames, s)
	return PolicyCheck(i), err
}

func parseName(what string, names []string, s string) (uint8, error) {
	for i, n := range names {
		if n == s {
			return uint8(i), nil
		}
	}
	return 0, refusal.Newf(refusal.Malformed, "%s is %q", what, s).WithHint("it is one of %q", names)
}

// A UUID names a task.
type UUID [16]byte

// String is the UUID with its dashes.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// ParseUUID reads 32 hexadecimal digits, with the four dashes or without.
func ParseUUID(s string) (UUID, error) {
	digits := s
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		digits = s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	}
	var u UUID
	if n, err := hex.Decode(u[:], []byte(digits[:min(len(digits), 32)])); err != nil || n != len(u) || len(digits) != 32 {
		return UUID{}, refusal.Newf(refusal.Malformed, "%q is not a UUID", s).WithHint("a UUID has 32 hexadecimal digits, as in 00112233-4455-6677-8899-aabbccddeeff")
	}
	return u, nil
}

// A Header is the first 64 bytes of a bundle without the magic.
type Header struct {
	Version          uint16
	Flags            uint16
	TaskID           UUID
	PolicyHash       ShortHash
	CreatedNS        uint64 // since 1970, UTC
	Outcome          Outcome
	Mode             Mode
	ToolCalls        uint16
	CostMicrodollars uint32
	LatencyMS        uint32
	Tokens           uint32
	Retries          uint16
	Sections         uint16
	Size             uint32 // of the whole bundle, HMAC included
}

// append writes the header in its 64 bytes.
func (h Header) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, Magic)
	b = le.AppendUint16(b, h.Version)
	b = le.AppendUint16(b, h.Flags)
	b = append(b, h.TaskID[:]...)
	b = append(b, h.PolicyHash[:]...)
	b = le.AppendUint64(b, h.CreatedNS)
	b = append(b, byte(h.Outcome), byte(h.Mode))
	b = le.AppendUint16(b, h.ToolCalls)
	b = le.AppendUint32(b, h.CostMicrodollars)
	b = le.AppendUint32(b, h.LatencyMS)
	b = le.AppendUint32(b, h.Tokens)
	b = le.AppendUint16(b, h.Retries)
	b = le.AppendUint16(b, h.Sections)
	return le.AppendUint32(b, h.Size)
}

// readHeader takes the fields from 64 bytes, whatever they say.
func readHeader(b *[headerSize]byte) Header {
	le := binary.LittleEndian
	return Header{
		Version:          le.Uint16(b[0x04:]),
		Flags:            le.Uint16(b[0x06:]),
		TaskID:           UUID(b[0x08:0x18]),
		PolicyHash:       ShortHash(b[0x18:0x20]),
		CreatedNS:        le.Uint64(b[0x20:]),
		Outcome:          Outcome(b[0x28]),
		Mode:             Mode(b[0x29]),
		ToolCalls:        le.Uint16(b[0x2a:]),
		CostMicrodollars: le.Uint32(b[0x2c:]),
		LatencyMS:        le.Uint32(b[0x30:]),
		Tokens:           le.Uint32(b[0x34:]),
		Retries:          le.Uint16(b[0x38:]),
		Sections:         le.Uint16(b[0x3a:]),
		Size:             le.Uint32(b[0x3c:]),
	}
}

// invalid is the refusal of a bundle that contradicts itself.
func invalid(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.BundleInvalid, "bundle: "+format, args...).
		WithHint("it was cut or changed, or was written by a program that does not keep to docs/formats/bundle.md")
}
