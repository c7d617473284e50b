package sight

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of decoding, so that a text that decodes into another without end costs
// a bounded amount of work.
const (
	MaxUnwrap = 3 // decodings one after the other
	// MinBase64 is the shortest run of base64 that is decoded: 18 bytes. Ordinary
	// words are shorter, and what is shorter is found by pieces of the answer's own
	// encoding.
	MinBase64 = 24
)

// Unwrap calls visit with text as it is, and with each text that it hides: HTML
// entities, percent-encoding and backslash escapes resolved, tags left out, and
// every run of hexadecimal digits or base64, over several lines too, decoded.
// Encodings inside each other are resolved three deep. A text is valid until visit
// returns.
func Unwrap(text []byte, visit func(text []byte)) {
	unwrap(layer{text: text}, MaxUnwrap, func(l layer) { visit(l.text) })
}

// A layer is a text, and where each byte of it comes from.
type layer struct {
	text   []byte
	traced bool
	at     []int32 // nil, of a traced one, for the text itself
}

// origin is where a byte of the layer begins in the text that was unwrapped.
func (l *layer) origin(i int) int {
	if l.at == nil {
		return i
	}
	return int(l.at[i])
}

// room is an empty layer for what a layer hides, which is seldom longer.
func (l *layer) room() layer {
	return layer{text: make([]byte, 0, len(l.text)), traced: l.traced}
}

// keep appends a part of another layer as it is.
func (l *layer) keep(from *layer, i, j int) {
	l.text = append(l.text, from.text[i:j]...)
	for ; l.traced && i < j; i++ {
		l.at = append(l.at, int32(from.origin(i)))
	}
}

// put appends what stands for the byte i of another layer.
func (l *layer) put(from *layer, i int, text string) {
	l.text = append(l.text, text...)
	for range len(text) {
		if l.traced {
			l.at = append(l.at, int32(from.origin(i)))
		}
	}
}

func unwrap(l layer, depth int, visit func(layer)) {
	visit(l)
	if depth == 0 {
		return
	}
	if plainer, ok := unescape(l); ok {
		unwrap(plainer, depth-1, visit)
	}
	long, digits := layer{traced: l.traced}, layer{traced: l.traced}
	eachRun(l.text, func(lines []span) {
		if out, ok := decodeBase64(&l, lines); ok {
			long.keep(&out, 0, len(out.text))
			long.put(&out, len(out.text)-1, "\n")
		}
	}, func(run span) { digits.unhex(&l, run) })
	for _, plainer := range []layer{long, digits} {
		if len(plainer.text) > 0 {
			unwrap(plainer, depth-1, visit)
		}
	}
	if plainer, ok := untag(&l); ok {
		unwrap(plainer, depth-1, visit)
	}
}

// unescape resolves entities, percent-encoding and backslash escapes; false if the
// text has none.
func unescape(l layer) (layer, bool) {
	changed := false
	for _, resolve := range [...]func(*layer) (layer, bool){unentity, unpercent, unbackslash} {
		if plainer, ok := resolve(&l); ok {
			l, changed = plainer, true
		}
	}
	return l, changed
}

// Bounds of a tag and of a run of hexadecimal digits.
const (
	maxTag = 256
	MinHex = 8 // bytes that it stands for
)

// untag leaves out tags, as in "Par<b>is</b>". Between words they are parts of the
// text, which is looked through with them besides.
func untag(l *layer) (out layer, changed bool) {
	text := l.text
	done := 0
	for i := bytes.IndexByte(text, '<'); i >= 0; i = indexFrom(text, '<', i+1) {
		end := tagEnd(text, i)
		if i < done || end == 0 {
			continue
		}
		if !changed {
			out, changed = l.room(), true
		}
		out.keep(l, done, i)
		done = end
	}
	if changed {
		out.keep(l, done, len(text))
	}
	return out, changed
}

// tagEnd is where a tag or comment ends that begins at a place, 0 if none does.
func tagEnd(text []byte, i int) int {
	if i+2 >= len(text) || text[i+1] != '/' && text[i+1] != '!' && !IsWordByte(lowerASCII[text[i+1]]) {
		return 0
	}
	if n := bytes.IndexByte(text[i:min(len(text), i+maxTag)], '>'); n > 0 {
		return i + n + 1
	}
	return 0
}

var isHex = func() (t [256]bool) {
	for c := range t {
		t[c] = hexDigit(byte(c)) >= 0
	}
	return t
}()

// unhex appends what a run of hexadecimal digits stands for, if that is text.
func (l *layer) unhex(from *layer, run span) bool {
	raw := make([]byte, (run.to-run.from)/2)
	if n, _ := hex.Decode(raw, from.text[run.from:run.from+2*len(raw)]); n != len(raw) || !isText(raw) {
		return false
	}
	for k, c := range raw {
		l.put(from, run.from+2*k, string([]byte{c}))
	}
	l.put(from, run.to-1, "\n")
	return true
}

// maxEntity is longer than the name of any entity.
const maxEntity = 40

// unentity resolves &amp; &#65; &#x41;.
func unentity(l *layer) (out layer, changed bool) {
	text := l.text
	i := bytes.IndexByte(text, '&')
	if i < 0 || bytes.IndexByte(text[i:], ';') < 0 {
		return out, false
	}
	out = l.room()
	done := 0
	for ; i >= 0; i = indexFrom(text, '&', i+1) {
		end := i + 1
		for end < len(text) && end-i < maxEntity && (text[end] == '#' || base64Digit[text[end]]) {
			end++
		}
		if end < len(text) && text[end] == ';' {
			end++
		}
		name := string(text[i:end])
		if plainer := html.UnescapeString(name); plainer != name {
			out.keep(l, done, i)
			out.put(l, i, plainer)
			done, changed = end, true
		}
	}
	if changed {
		out.keep(l, done, len(text))
	}
	return out, changed
}

// unpercent resolves %41, and + in place of a space: in a text that has the one
// or the other.
func unpercent(l *layer) (out layer, changed bool) {
	text := l.text
	i := bytes.IndexByte(text, '%')
	for ; i >= 0; i = indexFrom(text, '%', i+1) {
		if isPercent(text, i) {
			break
		}
	}
	if i < 0 && !hasFormSpace(text) {
		return out, false
	}
	out = l.room()
	done := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '%' && isPercent(text, i):
			out.keep(l, done, i)
			out.put(l, i, string([]byte{byte(hexDigit(text[i+1])<<4 | hexDigit(text[i+2]))}))
			i += 2
			done = i + 1
		case text[i] == '+':
			out.keep(l, done, i)
			out.put(l, i, " ")
			done = i + 1
		}
	}
	out.keep(l, done, len(text))
	return out, true
}

func isPercent(text []byte, i int) bool {
	return i+2 < len(text) && hexDigit(text[i+1]) >= 0 && hexDigit(text[i+2]) >= 0
}

// hasFormSpace tells a form field: a + between two letters.
func hasFormSpace(text []byte) bool {
	for i := bytes.IndexByte(text, '+'); i >= 0; i = indexFrom(text, '+', i+1) {
		if i > 0 && i+1 < len(text) && IsWordByte(lowerASCII[text[i-1]]) && IsWordByte(lowerASCII[text[i+1]]) {
			return true
		}
	}
	return false
}

func indexFrom(text []byte, c byte, from int) int {
	if from >= len(text) {
		return -1
	}
	if i := bytes.IndexByte(text[from:], c); i >= 0 {
		return from + i
	}
	return -1
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// unbackslash resolves the escapes of strings in JSON and programs: \u0041, \x41,
// \n, \". In a path or a formula that makes another text of it, which is looked
// through besides the text itself.
func unbackslash(l *layer) (out layer, changed bool) {
	text := l.text
	if !hasEscape(text) {
		return out, false
	}
	out = l.room()
	done := 0
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		plainer, size := escaped(text, i)
		if size > 0 {
			out.keep(l, done, i)
			out.put(l, i, plainer)
			done = i + size
		}
		i = indexFrom(text, '\\', i+max(size, 2))
	}
	out.keep(l, done, len(text))
	return out, true
}

// escaped is what the escape at a place stands for, and its size; 0 if it is none.
func escaped(text []byte, i int) (plainer string, size int) {
	switch c := text[i+1]; c {
	case 'n':
		return "\n", 2
	case 'r':
		return "\r", 2
	case 't':
		return "\t", 2
	case 'u', 'x':
		digits := 4
		if c == 'x' {
			digits = 2
		}
		if n, ok := hexAt(text, i+2, digits); ok {
			return string(rune(n)), 2 + digits
		}
	case '"', '\\', '/', '\'':
		return string(c), 2
	}
	return "", 0
}

func hexAt(text []byte, at, digits int) (uint64, bool) {
	if at+digits > len(text) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[at:at+digits]), 16, 32)
	return n, err == nil
}

func hasEscape(text []byte) bool {
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); i = indexFrom(text, '\\', i+2) {
		if _, size := escaped(text, i); size > 0 {
			return true
		}
	}
	return false
}

var base64Digit = func() (t [256]bool) {
	for c := range t {
		t[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
	}
	return t
}()

// A span is a part of a text.
type span struct{ from, to int }

// eachRun visits the runs of base64 in a text, each as the lines that it is written
// on, and those of hexadecimal digits. It looks at every 8th byte: a run of base64 of
// 24 bytes holds 16 without a space at a multiple of 8, one of 16 hexadecimal digits
// holds 8, and text in words has few such places. A run of base64 goes over several
// lines: a line break and the spaces after it do not end one.
func eachRun(text []byte, base64 func(lines []span), hexadecimal func(span)) {
	end, hexEnd := 0, 0 // of the last runs
	var lines []span
	for i := 0; i+8 <= len(text); i += 8 {
		if hasSpace(text[i:]) {
			continue
		}
		if i >= hexEnd && isHex[text[i]] && isHex[text[i+7]] {
			run := runAround(text, i, hexEnd, &isHex)
			hexEnd = run.to
			if run.to-run.from >= 2*MinHex {
				hexadecimal(run)
			}
		}
		if i+16 > len(text) {
			break
		}
		if hasSpace(text[i+8:]) {
			i += 8
			continue
		}
		if i < end || !base64Digit[text[i]] || !base64Digit[text[i+7]] || !base64Digit[text[i+15]] {
			continue
		}
		run := runAround(text, i, end, &base64Digit)
		if run.to-run.from < MinBase64 {
			continue
		}
		lines = append(lines[:0], run)
		for next := nextLine(text, run.to); next > 0; next = nextLine(text, run.to) {
			run = span{next, runEnd(text, next, &base64Digit)}
			lines = append(lines, run)
		}
		base64(lines)
		end = run.to
	}
}

// hasSpace reports whether one of the next 8 bytes is a space.
func hasSpace(text []byte) bool {
	y := binary.LittleEndian.Uint64(text) ^ blanks
	return (y-every)&^y&highs != 0
}

// runAround is the run of digits that holds a place, behind another run's end.
func runAround(text []byte, i, end int, digit *[256]bool) span {
	run := span{i, runEnd(text, i, digit)}
	for run.from > end && digit[text[run.from-1]] {
		run.from--
	}
	return run
}

func runEnd(text []byte, i int, digit *[256]bool) int {
	for i < len(text) && digit[text[i]] {
		i++
	}
	return i
}

// nextLine is where a run goes on after a line break, 0 if it does not. A line of
// base64 that another follows is long, so the next word of a text is not taken
// for one.
func nextLine(text []byte, i int) int {
	j := i
	for j < len(text) && (text[j] == '\r' || text[j] == '\n' || text[j] == ' ' || text[j] == '\t') {
		j++
	}
	if j == i || j == len(text) || bytes.IndexByte(text[i:j], '\n') < 0 || !base64Digit[text[j]] {
		return 0
	}
	if to := runEnd(text, j, &base64Digit); to < len(text) && text[to] != '=' && text[to] != '\n' && text[to] != '\r' && text[to] != '"' {
		return 0
	}
	return j
}

// decodeBase64 decodes a run, in the alphabet of files or of URLs, if what comes
// out is text. Its beginning may be cut or belong to a word before it, so all
// four alignments are tried.
func decodeBase64(l *layer, lines []span) (layer, bool) {
	run := layer{traced: l.traced}
	for _, s := range lines {
		run.keep(l, s.from, s.to)
	}
	for i, c := range run.text {
		switch c {
		case '-':
			run.text[i] = '+'
		case '_':
			run.text[i] = '/'
		}
	}
	for skip := 0; skip < 4 && len(run.text)-skip >= 8; skip++ {
		part := run.text[skip:]
		if len(part)%4 == 1 {
			part = part[:len(part)-1]
		}
		out := make([]byte, base64.RawStdEncoding.DecodedLen(len(part)))
		n, err := base64.RawStdEncoding.Decode(out, part)
		if err != nil || !isText(out[:n]) {
			continue
		}
		decoded := layer{text: out[:n], traced: l.traced}
		for k := 0; l.traced && k < n; k++ {
			decoded.at = append(decoded.at, int32(run.origin(skip+k*4/3)))
		}
		return decoded, n > 0
	}
	return layer{}, false
}

// isText reports whether bytes are meant to be read: UTF-8 with few control
// characters. One character may be cut at the end.
func isText(b []byte) bool {
	control := 0
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size <= 1 && i < len(b)-3 {
			return false
		}
		if r < ' ' && !asciiSpace[byte(r)] || r == 0x7f {
			control++
		}
		i += size
	}
	return control*20 <= len(b)
}

// Bounds of a piece of base64 that is looked for: the shortest has 36 bits.
const (
	minEncoded = 6
	maxEncoded = 8 // more of it says no more, and one table of the matcher has all
)

// encodedPieces are what base64 has of an answer, as it is written, in lower and in
// upper case: by itself, and inside of a text at each of the three places where a
// group of three bytes may begin, without the characters that its neighbours
// decide. In the alphabet of files and that of URLs.
func encodedPieces(answer string) []string {
	var list []string
	add := func(e string) {
		for _, piece := range []string{e, strings.NewReplacer("+", "-", "/", "_").Replace(e)} {
			if len(piece) >= minEncoded && !slices.Contains(list, piece) {
				list = append(list, piece)
			}
		}
	}
	for _, v := range []string{answer, strings.ToLower(answer), strings.ToUpper(answer)} {
		for before := range 3 {
			e := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), v...))
			first, last := (before*8+5)/6, (before+len(v))*8/6
			add(e[first:min(last, first+maxEncoded)])
		}
		if len(v) < minEncoded {
			add(base64.RawStdEncoding.EncodeToString([]byte(v))) // its last character is whole if nothing follows
		}
	}
	return list
}
