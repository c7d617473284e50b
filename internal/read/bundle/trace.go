package bundle

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// ShortHash is the first 8 bytes of a SHA-256, as the format keeps them. Too
// short to be trusted: see [FullHashes].
type ShortHash [8]byte

// A Hash is a whole SHA-256.
type Hash [32]byte

// Short is what the format keeps of the hash.
func (h Hash) Short() ShortHash { return ShortHash(h[:8]) }

// A ToolCall is one entry of the trace.
type ToolCall struct {
	Action           string // the tool's name
	Check            PolicyCheck
	ArgsHash         ShortHash
	ResultHash       ShortHash
	LatencyMS        uint32
	CostMicrodollars uint32
	Tokens           uint32
}

// toolCallSize is the size of an entry without its action.
const toolCallSize = 32

// appendToolCall writes one entry. The action has at most 65535 bytes.
func appendToolCall(b []byte, c ToolCall) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(len(c.Action)))
	b = append(b, byte(c.Check), 0)
	b = append(b, c.ArgsHash[:]...)
	b = append(b, c.ResultHash[:]...)
	b = le.AppendUint32(b, c.LatencyMS)
	b = le.AppendUint32(b, c.CostMicrodollars)
	b = le.AppendUint32(b, c.Tokens)
	return append(b, c.Action...)
}

// parseTrace reads a trace to its last byte. An entry that does not parse is a
// refusal and not the end: a reader that stops there shows less than was signed.
func parseTrace(value []byte) ([]ToolCall, error) {
	if len(value) == 0 {
		return nil, invalid("TRACE is there and empty; a bundle without tool calls must not have it")
	}
	le := binary.LittleEndian
	// One string for all actions, one slice of the least size an entry can
	// have, so that a hostile length asks for no memory.
	text := string(value)
	calls := make([]ToolCall, 0, min(len(value)/toolCallSize, math.MaxUint16))
	for at := 0; at < len(value); {
		n := len(calls)
		if n == math.MaxUint16 {
			return nil, invalid("TRACE has more than %d entries, which the header cannot count", math.MaxUint16)
		}
		e := value[at:]
		if len(e) < toolCallSize {
			return nil, invalid("TRACE ends in %d bytes after entry %d, an entry has at least %d", len(e), n, toolCallSize)
		}
		end := toolCallSize + int(le.Uint16(e))
		if len(e) < end {
			return nil, invalid("TRACE entry %d has %d bytes, %d are left", n, end, len(e))
		}
		c := ToolCall{
			Action:           text[at+toolCallSize : at+end],
			Check:            PolicyCheck(e[2]),
			ArgsHash:         ShortHash(e[4:12]),
			ResultHash:       ShortHash(e[12:20]),
			LatencyMS:        le.Uint32(e[20:]),
			CostMicrodollars: le.Uint32(e[24:]),
			Tokens:           le.Uint32(e[28:]),
		}
		switch {
		case c.Check > Confirmed:
			return nil, invalid("TRACE entry %d: policy_check is %d, expected 0 to 2", n, c.Check)
		case e[3] != 0:
			return nil, invalid("TRACE entry %d: the padding byte is %#02x, expected 0", n, e[3])
		case !utf8.ValidString(c.Action):
			return nil, invalid("TRACE entry %d: the action is not UTF-8", n)
		}
		calls = append(calls, c)
		at += end
	}
	return calls, nil
}

// totals are the sums over a trace that the header states.
type totals struct{ cost, latency, tokens uint32 }

// sum adds up a trace. A sum that does not fit stays at its largest value, as
// the format says.
func sum(calls []ToolCall) totals {
	var t totals
	for _, c := range calls {
		t.cost = saturate(t.cost, c.CostMicrodollars)
		t.latency = saturate(t.latency, c.LatencyMS)
		t.tokens = saturate(t.tokens, c.Tokens)
	}
	return t
}

func saturate(a, b uint32) uint32 {
	return uint32(min(uint64(a)+uint64(b), math.MaxUint32))
}

// FullHashes are the hashes of which the header and the trace keep 8 bytes.
type FullHashes struct {
	Policy Hash
	Calls  []CallHashes // one for each entry of the trace
}

// CallHashes are the whole hashes of one tool call.
type CallHashes struct{ Args, Result Hash }

func (f *FullHashes) append(b []byte) []byte {
	b = append(b, f.Policy[:]...)
	for _, c := range f.Calls {
		b = append(b, c.Args[:]...)
		b = append(b, c.Result[:]...)
	}
	return b
}

// parseFullHashes reads the section and compares each hash with the 8 bytes
// that the header and the trace have of it.
func parseFullHashes(value []byte, policy ShortHash, calls []ToolCall) (*FullHashes, error) {
	if want := 32 + 64*len(calls); len(value) != want {
		return nil, invalid("FULL_HASHES has %d bytes, the policy and %d tool calls need %d", len(value), len(calls), want)
	}
	f := &FullHashes{Policy: Hash(value[:32])}
	if f.Policy.Short() != policy {
		return nil, invalid("FULL_HASHES: the policy's hash begins with %x, the header says %x", f.Policy.Short(), policy)
	}
	if len(calls) > 0 {
		f.Calls = make([]CallHashes, len(calls))
	}
	for i, c := range calls {
		at := value[32+64*i:]
		h := CallHashes{Args: Hash(at[:32]), Result: Hash(at[32:64])}
		if h.Args.Short() != c.ArgsHash || h.Result.Short() != c.ResultHash {
			return nil, invalid("FULL_HASHES: entry %d does not begin with the hashes of the trace", i)
		}
		f.Calls[i] = h
	}
	return f, nil
}
