package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// MaxReceiptBytes is the size that a receipt with its entry inside does not
// exceed. The entry of a longer one lies beside it.
const MaxReceiptBytes = 4096

// maxReceiptRead bounds what is read as a receipt.
const maxReceiptRead = 64 << 10

const receiptHeader = "c2sp.org/tlog-proof@v1"

// A Receipt proves that one entry is in a ledger: a C2SP tlog-proof file. It
// proves nothing until [VerifyReceipt] has checked it.
type Receipt struct {
	Index      int64
	Prev       digest.ID
	Content    digest.Content
	Entry      []byte // canonical bytes, or nil if they lie beside the receipt
	Proof      tlog.RecordProof
	Checkpoint []byte
}

// Head is that of the ledger with the entry as its last one.
func (r *Receipt) Head() digest.ID { return nextHead(r.Prev, r.Content) }

// NewReceipt makes the receipt of an entry. The entry goes inside if the whole
// stays within [MaxReceiptBytes].
func NewReceipt(p Position, entry []byte, proof tlog.RecordProof, checkpoint []byte) *Receipt {
	r := &Receipt{Index: p.Index, Prev: p.Prev, Content: p.Content, Entry: entry, Proof: proof, Checkpoint: checkpoint}
	if data, err := r.Marshal(); err != nil || len(data) > MaxReceiptBytes {
		r.Entry = nil
	}
	return r
}

// Marshal writes the receipt in its one spelling.
func (r *Receipt) Marshal() ([]byte, error) {
	extra := r.appendExtra(nil)
	if err := canon.Validate(extra); err != nil {
		return nil, fmt.Errorf("receipt: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nextra %s\nindex %d\n", receiptHeader, base64.StdEncoding.EncodeToString(extra), r.Index)
	for _, h := range r.Proof {
		fmt.Fprintf(&b, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	b.WriteByte('\n')
	b.Write(r.Checkpoint)
	return b.Bytes(), nil
}

// The extra is what a verifier needs besides the proof to compute the leaf. It
// is not authenticated by itself; a wrong one gives a wrong leaf. Its canonical
// JSON is spelled out, as that of entries and leaves is:
//
//	{"content":"blake3:…","entry":{…},"prev":"sha256:…"}
const (
	extraContent = `{"content":"`
	extraEntry   = `","entry":`
	extraPrev    = `,"prev":"`
	extraEnd     = `"}`
)

func (r *Receipt) appendExtra(dst []byte) []byte {
	dst = append(dst, extraContent...)
	dst = append(dst, r.Content.String()...)
	if r.Entry != nil {
		dst = append(dst, extraEntry...)
		dst = append(dst, r.Entry...)
	} else {
		dst = append(dst, '"')
	}
	dst = append(dst, extraPrev...)
	dst = append(dst, r.Prev.String()...)
	return append(dst, extraEnd...)
}

// digestText is the length of a digest with its prefix, blake3: or sha256:.
const digestText = 7 + 2*digest.Size

// parseExtra reads exactly what appendExtra writes of one canonical entry or
// none.
func (r *Receipt) parseExtra(extra []byte) error {
	if err := canon.Validate(extra); err != nil {
		return err
	}
	contentEnd := len(extraContent) + digestText
	prevStart := len(extra) - len(extraEnd) - digestText
	entryEnd := prevStart - len(extraPrev)
	if entryEnd <= contentEnd || string(extra[:len(extraContent)]) != extraContent ||
		string(extra[entryEnd:prevStart]) != extraPrev || string(extra[prevStart+digestText:]) != extraEnd {
		return errors.New("expected content, entry and prev, and no other member")
	}
	var err error
	if r.Content, err = digest.ParseContent(string(extra[len(extraContent):contentEnd])); err != nil {
		return err
	}
	if r.Prev, err = digest.ParseID(string(extra[prevStart : prevStart+digestText])); err != nil {
		return err
	}
	between := extra[contentEnd:entryEnd]
	if string(between) == `"` {
		return nil
	}
	entry, ok := bytes.CutPrefix(between, []byte(extraEntry))
	if !ok || canon.Validate(entry) != nil { // which is not a single value if more members stand behind it
		return errors.New("expected content, entry and prev, and no other member")
	}
	r.Entry = entry
	return nil
}

// IsReceipt reports whether data begins as a receipt does.
func IsReceipt(data []byte) bool { return bytes.HasPrefix(data, []byte(receiptHeader+"\n")) }

// ParseReceipt reads a receipt and refuses every spelling but the one that
// [Receipt.Marshal] writes. It verifies nothing.
func ParseReceipt(data []byte) (*Receipt, error) {
	if len(data) > maxReceiptRead {
		return nil, refusal.Newf(refusal.TooLarge, "receipt has %d bytes, at most %d are read", len(data), maxReceiptRead)
	}
	r, err := parseReceipt(data)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "receipt: %w", err).WithHint("the file was cut or changed, or is not a receipt")
	}
	return r, nil
}

func parseReceipt(data []byte) (*Receipt, error) {
	head, checkpoint, ok := bytes.Cut(data, []byte("\n\n"))
	if !ok {
		return nil, fmt.Errorf("no empty line before the checkpoint")
	}
	lines := bytes.Split(head, []byte{'\n'})
	if len(lines) < 3 || string(lines[0]) != receiptHeader {
		return nil, fmt.Errorf("expected %q, then extra, index and the proof", receiptHeader)
	}
	r := &Receipt{Checkpoint: bytes.Clone(checkpoint)}
	encoded, ok := bytes.CutPrefix(lines[1], []byte("extra "))
	if !ok {
		return nil, fmt.Errorf("line 2: expected extra")
	}
	extra, err := decodeBase64(string(encoded))
	if err != nil {
		return nil, fmt.Errorf("line 2: %w", err)
	}
	if err := r.parseExtra(extra); err != nil {
		return nil, fmt.Errorf("line 2: %w", err)
	}
	number, ok := bytes.CutPrefix(lines[2], []byte("index "))
	if !ok {
		return nil, fmt.Errorf("line 3: expected index")
	}
	if r.Index, err = strconv.ParseInt(string(number), 10, 64); err != nil || r.Index < 0 || strconv.FormatInt(r.Index, 10) != string(number) {
		return nil, fmt.Errorf("line 3: %q is not an index", number)
	}
	r.Proof = make(tlog.RecordProof, len(lines)-3)
	for i, l := range lines[3:] {
		if err := decodeHash(&r.Proof[i], l); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+4, err)
		}
	}
	return r, nil
}

// decodeHash decodes the base64 of a hash. That there are exactly so many bytes
// also shows that no line break was skipped.
func decodeHash(h *tlog.Hash, text []byte) error {
	var buf [tlog.HashSize + 1]byte
	if len(text) != base64.StdEncoding.EncodedLen(tlog.HashSize) {
		return errors.New("not a hash")
	}
	if n, err := strictBase64.Decode(buf[:], text); err != nil || n != tlog.HashSize {
		return errors.New("not a hash")
	}
	copy(h[:], buf[:])
	return nil
}

// A Proved is an entry that a receipt has been verified for.
type Proved struct {
	Checkpoint *Checkpoint
	Position
	Raw   []byte
	Entry evidence.Entry
	Body  evidence.Body
}

// VerifyReceipt checks that the receipt's entry is in the ledger whose
// checkpoint the policy believes. The entry is given when the receipt does not
// carry it.
func VerifyReceipt(data, entry []byte, p Policy) (*Proved, error) {
	r, err := ParseReceipt(data)
	if err != nil {
		return nil, err
	}
	checkpoint, err := VerifyCheckpoint(r.Checkpoint, p)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Entry == nil && entry == nil:
		return nil, refusal.Newf(refusal.Usage, "the receipt does not carry its entry").
			WithHint("give the entry that was saved beside it")
	case r.Entry == nil:
		r.Entry = entry
	case entry != nil && !bytes.Equal(entry, r.Entry):
		return nil, refusal.Newf(refusal.ReceiptInvalid, "receipt of entry %d: the entry given is not the one inside", r.Index)
	}
	pos := Position{Index: r.Index, Content: digest.ContentOf(r.Entry), Prev: r.Prev}
	if pos.Content != r.Content {
		return nil, refusal.Newf(refusal.ReceiptInvalid, "receipt of entry %d: the entry is %s, the receipt says %s", r.Index, pos.Content, r.Content).
			WithHint("the entry was changed after the receipt was made")
	}
	pos.Head = r.Head()
	pos.Leaf = tlog.RecordHash(AppendLeaf(nil, checkpoint.Origin, pos.Index, pos.Prev, pos.Content))
	if pos.Index >= checkpoint.Size {
		return nil, refusal.Newf(refusal.ReceiptInvalid, "receipt of entry %d: the checkpoint covers %d entries", r.Index, checkpoint.Size)
	}
	if err := tlog.CheckRecord(r.Proof, checkpoint.Size, checkpoint.Root, pos.Index, pos.Leaf); err != nil {
		return nil, refusal.Newf(refusal.ReceiptInvalid, "receipt of entry %d: the proof does not lead to the signed root", r.Index).
			WithHint("the entry, its index or the proof was changed, or it was made for another ledger")
	}
	e, body, err := evidence.DecodeEntry(r.Entry)
	if err != nil {
		if refusal.Is(err, refusal.NewerFormat) {
			return nil, fmt.Errorf("receipt of entry %d: %w", r.Index, err)
		}
		return nil, refusal.Newf(refusal.EntryInvalid, "receipt of entry %d: %w", r.Index, err)
	}
	if err := checkOpening(pos, checkpoint.Origin, body); err != nil {
		return nil, refusal.Newf(refusal.EntryInvalid, "receipt of entry %d: %w", r.Index, err).
			WithHint("no ledger that verifies has such an entry; do not trust its signer")
	}
	return &Proved{Checkpoint: checkpoint, Position: pos, Raw: r.Entry, Entry: e, Body: body}, nil
}

// checkOpening refuses what no ledger has: one that is opened after its first
// entry, begins with something else or after something, or is opened under
// another name.
func checkOpening(pos Position, origin string, body evidence.Body) error {
	opened, ok := body.(*evidence.Opened)
	switch {
	case ok != (pos.Index == 0):
		return errors.New("the first entry of a ledger, and no other, is ledger.opened")
	case pos.Index == 0 && !pos.Prev.IsZero():
		return fmt.Errorf("the first entry follows %s, expected zeros", pos.Prev)
	case ok && opened.Origin != origin:
		return fmt.Errorf("it opens the ledger %s, the checkpoint is of %s", opened.Origin, origin)
	}
	return nil
}
