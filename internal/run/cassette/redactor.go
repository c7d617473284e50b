package cassette

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// minLiteralBytes keeps a literal secret from being a common word.
const minLiteralBytes = 8

// A Redactor replaces secrets by markers such as [redacted:aws-key]. A nil
// *Redactor finds secrets by their shape and by the name of their field; one
// made by [NewRedactor] also finds literal secrets, however they are encoded.
//
// It is deterministic, and what it has redacted once it leaves alone.
type Redactor struct {
	secrets  []string
	near     []literalForm
	literals *literalIndex // of every spelling of every secret
	folded   *literalIndex // of those that are looked for in folded text
	shortest int           // bytes of a text in which one of these could stand
}

// NewRedactor returns a redactor that also removes the given secrets, such as
// the key of the provider: plain, turned round, JSON-escaped, and as base64 (any
// alignment, both alphabets), base32, hexadecimal and URL-encoded, once or
// twice over; and in any spelling that a [fold] undoes. A secret of fewer than 8 bytes is refused: its bytes occur in
// text that is not a secret.
func NewRedactor(secrets ...string) (*Redactor, error) {
	var r *Redactor
	return r.With(secrets...)
}

// With returns a redactor that removes these secrets besides.
func (r *Redactor) With(secrets ...string) (*Redactor, error) {
	more := &Redactor{}
	if r != nil {
		more.secrets = slices.Clone(r.secrets)
	}
	for i, s := range secrets {
		if slices.Contains(more.secrets, s) {
			continue
		}
		if len(s) < minLiteralBytes || !utf8.ValidString(s) || strings.HasPrefix(s, marker) {
			return nil, refusal.Newf(refusal.Malformed, "secret %d cannot be looked for: it has %d bytes, expected at least %d of UTF-8 text", i+1, len(s), minLiteralBytes).
				WithHint("give the whole secret, without white space around it")
		}
		more.secrets = append(more.secrets, s)
	}
	var forms, folded []literalForm
	for _, s := range more.secrets {
		kind := kindOf(s)
		its := withKind(kind, literalForms(s))
		near := withKind(kind, nearForms(s))
		if core := coreOf(s); core != "" {
			inner := withKind(kind, append([]literalForm{{text: core, inside: true}}, encoded(core)...))
			its, near = append(its, inner...), append(near, inner[0])
			folded = append(folded, inner...)
		}
		forms = append(forms, its...)
		more.near = append(more.near, near...)
		folded = append(folded, near...)
	}
	more.literals = newLiteralIndex(forms)
	more.foldForms(folded)
	return more, nil
}

func (r *Redactor) foldForms(forms []literalForm) {
	var long []literalForm
	for _, form := range forms {
		if form = foldForm(form); len(form.text) >= minFoldedBytes {
			long = append(long, form)
		}
	}
	for i, form := range long {
		if i == 0 || len(form.text) < r.shortest {
			r.shortest = len(form.text)
		}
	}
	if len(long) > 0 {
		r.folded = newLiteralIndex(long)
	}
}

// kindOf is what a marker says of a literal secret: the kind that its shape tells,
// so that it does not matter for the key of a request whether the secret was known.
func kindOf(secret string) string {
	if found := findShapes(secret, false); len(found) == 1 && found[0].start == 0 && found[0].end == len(secret) {
		return found[0].kind
	}
	return "literal"
}

func withKind(kind string, forms []literalForm) []literalForm {
	for i := range forms {
		forms[i].kind = kind
	}
	return forms
}

// Knows reports whether a literal secret is among those that are taken out.
func (r *Redactor) Knows(secret string) bool { return r != nil && slices.Contains(r.secrets, secret) }

// Text returns s without its secrets, and how many there were.
func (r *Redactor) Text(s string) (string, int) {
	found := r.find(s, true)
	if len(found) == 0 {
		return s, 0
	}
	return replaceSpans([]string{s}, found)[0], len(found)
}

// A span is a secret's place in a text.
type span struct {
	start, end int
	kind       string
}

// find returns the secrets of s in order, without overlaps. Names says whether
// the names of fields in the text count.
func (r *Redactor) find(s string, names bool) []span {
	found := findShapes(s, names)
	if r != nil {
		found = append(found, r.findLiterals(s)...)
	}
	return merge(found)
}

// merge puts spans in order and joins those that overlap.
func merge(found []span) []span {
	if len(found) < 2 {
		return found
	}
	slices.SortFunc(found, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.kind, b.kind))
	})
	merged := found[:1]
	for _, next := range found[1:] {
		last := &merged[len(merged)-1]
		if next.start >= last.end {
			merged = append(merged, next)
		} else {
			last.end = max(last.end, next.end)
		}
	}
	return merged
}

// replaceSpans puts markers in place of the secrets of a text that is given in
// pieces. A marker stands in the piece in which its secret begins.
func replaceSpans(pieces []string, found []span) []string {
	out := make([]string, len(pieces))
	offset := 0
	for i, piece := range pieces {
		end := offset + len(piece)
		var b strings.Builder
		pos := offset
		for _, f := range found {
			if f.end <= pos || f.start >= end {
				continue
			}
			if f.start >= pos {
				b.WriteString(piece[pos-offset : f.start-offset])
				b.WriteString(marker + f.kind + "]")
			}
			pos = min(f.end, end)
		}
		b.WriteString(piece[pos-offset:])
		out[i] = b.String()
		offset = end
	}
	return out
}

// tree redacts a JSON value in place: every string, every name, and whatever
// stands in a field whose name says that it is secret. Renamed tells that
// names have changed, and with them the order of members.
func (r *Redactor) tree(n *wire.Node) (count int64, renamed bool) {
	switch n.Kind {
	case '"':
		text, found := r.Text(n.Text)
		n.Text = text
		return int64(found), false
	case '[':
		for i := range n.List {
			c, again := r.tree(&n.List[i])
			count, renamed = count+c, renamed || again
		}
	case '{':
		for i := range n.List {
			m := &n.List[i]
			if isSecretName(m.Name) && !isLogprob(n) {
				count += redactField(m, m.Name)
			}
			c, again := r.tree(m)
			count, renamed = count+c, renamed || again
			if text, found := r.Text(m.Name); found > 0 {
				m.Name = uniqueName(n, text)
				count, renamed = count+int64(found), true
			}
		}
	}
	return count, renamed
}

// isLogprob tells the tokens that a model produced, listed with their
// probabilities, from the tokens that open a door.
func isLogprob(n *wire.Node) bool { return n.Get("logprob") != nil }

// redactField replaces the whole value of a field with a telling name.
func redactField(value *wire.Node, name string) int64 {
	switch value.Kind {
	case '"':
		if value.Text == "" || isMarked(value.Text) {
			return 0
		}
	case '0':
		if !isPasswordName(name) {
			return 0
		}
	case '[':
		var count int64
		for i := range value.List {
			if value.List[i].Kind != '[' {
				count += redactField(&value.List[i], name)
			}
		}
		return count
	default:
		return 0
	}
	value.Kind, value.Text = '"', marker+"field]"
	return 1
}

// uniqueName keeps two secrets that were names of one object from becoming
// the same name.
func uniqueName(owner *wire.Node, name string) string {
	unique := name
	for i := 2; owner.Get(unique) != nil; i++ {
		unique = name + "#" + strconv.Itoa(i)
	}
	return unique
}

// document redacts a JSON text and returns it in canonical spelling.
func (r *Redactor) document(data []byte) ([]byte, int64, error) {
	n, err := wire.ParseNode(data)
	if err != nil {
		return nil, 0, err
	}
	count, _ := r.tree(&n)
	text, err := n.Canonical()
	return text, count, err
}

// stream redacts the events of a stream. A secret that was streamed in pieces
// stands in no single event, so the pieces of each text are joined first. An
// event without a secret keeps its bytes; one with a secret is spelled anew.
func (r *Redactor) stream(chunks []string) ([]string, int64, error) {
	chunks = slices.Clone(chunks)
	events, _ := wire.JSONEvents(chunks)
	changed := make([]bool, len(events))
	var count int64
	for i := range events {
		c, _ := r.tree(&events[i].Data)
		count, changed[i] = count+c, c > 0
	}
	for _, pieces := range wire.GrowingTexts(events) {
		count += r.joined(pieces, changed)
	}
	for i, e := range events {
		if !changed[i] {
			continue
		}
		text, err := e.Data.Canonical()
		if err != nil {
			return nil, 0, err
		}
		chunks[e.Chunk] = wire.WithData(chunks[e.Chunk], string(text))
	}
	// Last, the bytes as they are: comments, data that is not JSON, and
	// secrets that a line break was put into. Names of fields do not count
	// here; where there are fields they have been looked at.
	if found := r.find(strings.Join(chunks, ""), false); len(found) > 0 {
		count += int64(len(found))
		chunks = wire.SplitEvents(strings.Join(replaceSpans(chunks, found), ""))
	}
	return chunks, count, nil
}

// joined redacts a text that is streamed in pieces.
func (r *Redactor) joined(pieces []wire.TextPiece, changed []bool) int64 {
	if len(pieces) < 2 {
		return 0
	}
	texts := make([]string, len(pieces))
	for i, p := range pieces {
		texts[i] = p.Leaf.Text
	}
	found := r.find(strings.Join(texts, ""), true)
	if len(found) == 0 {
		return 0
	}
	for i, text := range replaceSpans(texts, found) {
		if text != texts[i] {
			pieces[i].Leaf.Text = text
			changed[pieces[i].Event] = true
		}
	}
	return int64(len(found))
}

// holdsLiteral reports whether a literal secret stands in text after all. It
// is the last look before anything is kept.
func (r *Redactor) holdsLiteral(text []byte) bool {
	if r == nil {
		return false
	}
	s, holds := string(text), false
	r.literals.find(s, func(int, literalForm) (int, bool) {
		holds = true
		return 0, false
	})
	if !holds {
		r.findFolded(s, func(span) bool { holds = true; return false })
	}
	return holds
}

// findLiterals are the places of literal secrets, in any spelling.
func (r *Redactor) findLiterals(s string) (found []span) {
	r.literals.find(s, func(at int, form literalForm) (int, bool) {
		f := form.widened(s, span{at, at + len(form.text), form.kind})
		found = append(found, f)
		return f.end, true
	})
	r.findFolded(s, func(f span) bool { found = append(found, f); return true })
	return found
}

// Outgoing takes literal secrets out of what goes on to a model or a tool, and
// leaves the bytes of everything else as they are. Text that is not JSON is taken
// as it is. A secret that is laid out over texts that stand side by side cannot be
// replaced without making another document of it, and is refused; one whose pieces
// have other text between them is not known as one.
func (r *Redactor) Outgoing(data []byte) ([]byte, error) {
	if !r.holdsLiteral(data) {
		return data, nil
	}
	n, err := wire.ParseNode(data)
	if err != nil {
		return []byte(r.TakeOut(string(data))), nil
	}
	r.literalTree(&n)
	clean := n.AppendJSON(nil)
	if r.holdsLiteral(clean) {
		return nil, refusal.Newf(refusal.Malformed, "the request spells out a key of this case in pieces").
			WithHint("send requests without the key of the case in their text; it belongs in the header")
	}
	return clean, nil
}

// TakeOut is a text without literal secrets. Others stay.
func (r *Redactor) TakeOut(s string) string {
	if r == nil {
		return s
	}
	found := merge(r.findLiterals(s))
	if len(found) == 0 {
		return s
	}
	return replaceSpans([]string{s}, found)[0]
}

func (r *Redactor) literalTree(n *wire.Node) {
	if n.Kind == '"' || n.Kind == '0' {
		if text := r.TakeOut(n.Text); text != n.Text {
			n.Kind, n.Text = '"', text
		}
	}
	for i := range n.List {
		m := &n.List[i]
		r.literalTree(m)
		if n.Kind == '{' {
			if name := r.TakeOut(m.Name); name != m.Name {
				m.Name = uniqueName(n, name)
			}
		}
	}
}
