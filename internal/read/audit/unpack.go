package audit

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"tallystick/internal/record/jsonvalue"
)

// Bounds of what is taken out of files of an agent, for all of them together: an
// archive that expands beyond them is a gap.
const (
	maxExpanded = 64 << 20
	maxMembers  = 10_000
	maxDecoded  = 4 // compressions and encodings around each other
	// minEncoded is the shortest run of letters that may encode a file, and
	// maxOpaque the longest that may decode to nothing known without being a gap.
	minEncoded = 64
	maxOpaque  = 1024
)

// An unpacker takes apart what one file holds.
type unpacker struct {
	ctx context.Context
	c   *carrier
	f   *carriedFile
}

// layers are what was taken off before: archives are opened one deep.
type layers struct{ archives, decoded int }

// gap says that something could not be read, and why.
func (u *unpacker) gap(name, why string) { u.f.unread[name] = why }

// open looks through some bytes: a file, a member of an archive, what a text encodes.
func (u *unpacker) open(name string, data []byte, l layers) {
	if len(data) == 0 || u.ctx.Err() != nil {
		return
	}
	u.c.known(u.f, name, data)
	form := formOf(name, data)
	if form.why != "" {
		u.gap(name, form.why)
	}
	switch {
	case form.expand != nil:
		u.expand(name, data, form, l)
	case form.text != nil:
		u.c.search(u.f, form.text, false)
		u.encoded(name, form.text, l)
	default:
		u.c.search(u.f, data, true)
	}
}

// expand opens an archive or what is compressed. Whatever it is, its bytes are
// looked through too: a program may have an archive at its end.
func (u *unpacker) expand(name string, data []byte, form fileForm, l layers) {
	u.c.search(u.f, data, true)
	switch {
	case form.archive && l.archives > 0:
		u.gap(name, "is an archive inside an archive, which is not opened")
		return
	case l.decoded >= maxDecoded:
		u.gap(name, "is compressed or encoded too often to be opened")
		return
	case form.archive:
		l.archives++
	}
	l.decoded++
	err := form.expand(data, func(member string, src io.Reader) error {
		inside := name
		if member != "" {
			inside = name + ": " + jsonvalue.Clip(member, 256)
			u.c.search(u.f, []byte(member), false)
		}
		whole, err := u.take(src)
		if errors.Is(err, errTooMuch) {
			return err
		}
		if err != nil {
			u.gap(inside, "cannot be read: "+err.Error())
		}
		u.open(inside, whole, l)
		return u.ctx.Err()
	})
	if err != nil && u.ctx.Err() == nil {
		u.gap(name, "cannot be opened whole: "+err.Error())
	}
}

var errTooMuch = fmt.Errorf("the files of the agent expand to more than %d bytes", maxExpanded)

// take reads a member, within what all of them together may have.
func (u *unpacker) take(src io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(src, u.c.room+1))
	if int64(len(data)) > u.c.room {
		return nil, errTooMuch
	}
	u.c.room -= int64(len(data))
	return data, err
}

// A fileForm is how a file is read.
type fileForm struct {
	text    []byte // as UTF-8, nil if it is not a text
	why     string // why it cannot be read, or not all of it
	archive bool
	expand  func(data []byte, visit func(member string, src io.Reader) error) error
}

// unreadForms are beginnings of files that hold what cannot be seen from here.
var unreadForms = []struct{ begins, what string }{
	{"\xfd7zXZ\x00", "is compressed with xz, which is not opened"},
	{"\x28\xb5\x2f\xfd", "is compressed with zstd, which is not opened"},
	{"\x04\x22\x4d\x18", "is compressed with lz4, which is not opened"},
	{"7z\xbc\xaf\x27\x1c", "is a 7z archive, which is not opened"},
	{"Rar!", "is a RAR archive, which is not opened"},
	{"Salted__", "is encrypted"},
	{"age-encryption.org/", "is encrypted"},
	{"-----BEGIN PGP MESSAGE", "is encrypted"},
	{"PAR1", "is Parquet, whose columns may be compressed"},
}

// readableForms are beginnings of binary files that hold texts as they are.
var readableForms = []string{"SQLite format 3\x00", "\x93NUMPY"}

// compiled are extensions of files that a compiler made; binaries are their beginnings.
var compiled = []string{".class", ".dll", ".dylib", ".exe", ".pyc", ".pyd", ".so", ".wasm", ".o", ".a"}

// formOf says how a file is read, by what is in it.
func formOf(name string, data []byte) fileForm {
	for _, u := range unreadForms {
		if bytes.HasPrefix(data, []byte(u.begins)) {
			return fileForm{why: u.what}
		}
	}
	text := textOf(data)
	switch {
	case isZip(data):
		return fileForm{archive: true, expand: expandZip}
	case len(data) > 262 && string(data[257:262]) == "ustar":
		return fileForm{archive: true, expand: expandTar}
	case text != nil:
		return fileForm{text: text}
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return fileForm{expand: single(func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) })}
	case bytes.HasPrefix(data, []byte("BZh")):
		return fileForm{expand: single(func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil })}
	case isZlib(data):
		return fileForm{expand: single(func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) })}
	case slices.Contains(compiled, strings.ToLower(path.Ext(name))) || isCompiled(data):
		return fileForm{why: "is compiled, and only its texts were looked through"}
	case isPickle(data) || slices.ContainsFunc(readableForms, func(begins string) bool { return bytes.HasPrefix(data, []byte(begins)) }):
		return fileForm{}
	}
	return fileForm{why: "is binary data of a form that is not read here; only the texts in it were looked through"}
}

func isCompiled(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\x00asm")) || slices.ContainsFunc(binaries, func(magic string) bool { return bytes.HasPrefix(data, []byte(magic)) })
}

// isPickle tells a pickle of protocols 2 to 5; those before are text.
func isPickle(data []byte) bool {
	return len(data) > 3 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5 && data[len(data)-1] == '.'
}

func isZlib(data []byte) bool {
	return len(data) > 6 && data[0] == 0x78 && (int(data[0])<<8|int(data[1]))%31 == 0
}

// isZip looks for the end of an archive, which may have a program before it.
func isZip(data []byte) bool {
	return bytes.HasPrefix(data, []byte("PK\x03\x04")) || bytes.Contains(data[max(0, len(data)-1<<16-22):], []byte("PK\x05\x06"))
}

func expandZip(data []byte, visit func(string, io.Reader) error) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return err
	}
	if len(z.File) > maxMembers {
		return fmt.Errorf("it has %d members, at most %d are opened", len(z.File), maxMembers)
	}
	var problem error
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		if f.Flags&1 != 0 {
			problem = errors.New("a member is encrypted")
			continue
		}
		r, err := f.Open()
		if err != nil {
			problem = err
			continue
		}
		err = visit(f.Name, r)
		r.Close()
		if err != nil {
			return err
		}
	}
	return problem
}

func expandTar(data []byte, visit func(string, io.Reader) error) error {
	t := tar.NewReader(bytes.NewReader(data))
	for range maxMembers {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return err
		case h.Typeflag != tar.TypeReg:
			continue
		}
		if err := visit(h.Name, t); err != nil {
			return err
		}
	}
	return fmt.Errorf("it has more than %d members", maxMembers)
}

// single is what is compressed as one piece.
func single(open func(io.Reader) (io.Reader, error)) func([]byte, func(string, io.Reader) error) error {
	return func(data []byte, visit func(string, io.Reader) error) error {
		r, err := open(bytes.NewReader(data))
		if err != nil {
			return err
		}
		return visit("", r)
	}
}

// textOf is a text as UTF-8, nil if the bytes are not a text. UTF-16 is told by its
// mark, or by every other byte of what would be ASCII.
func textOf(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(data) >= 4 && len(data)%2 == 0 {
		big, little := bytes.HasPrefix(data, []byte("\xfe\xff")), bytes.HasPrefix(data, []byte("\xff\xfe"))
		zeros := [2]int{}
		for i := 0; i < min(len(data), 512); i++ {
			if data[i] == 0 {
				zeros[i%2]++
			}
		}
		half := min(len(data), 512) / 2
		big = big || zeros[0] > half*3/4 && zeros[1] == 0
		little = little || zeros[1] > half*3/4 && zeros[0] == 0
		if big || little {
			return fromUTF16(data, big)
		}
	}
	if isPlainText(data) {
		return data
	}
	return nil
}

func fromUTF16(data []byte, big bool) []byte {
	units := make([]uint16, 0, len(data)/2)
	for i := 0; i+1 < len(data); i += 2 {
		if big {
			units = append(units, uint16(data[i])<<8|uint16(data[i+1]))
		} else {
			units = append(units, uint16(data[i+1])<<8|uint16(data[i]))
		}
	}
	return []byte(string(utf16.Decode(units)))
}

// isPlainText reports whether bytes are meant to be read: hardly a byte that is no
// letter. Texts of one byte a letter, as ISO 8859-1, have no control characters.
func isPlainText(data []byte) bool {
	controls, odd := 0, 0
	for i := 0; i < len(data); {
		c := data[i]
		if c < utf8.RuneSelf {
			if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1b || c == 0x7f {
				controls++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			odd++
		}
		i += size
	}
	return (controls+odd)*50 <= len(data) || controls == 0 && odd*4 <= len(data)
}

// encoded opens what a text encodes: runs of base64, base32 or hexadecimal, also
// where a program has them in several strings, one after the other.
func (u *unpacker) encoded(name string, text []byte, l layers) {
	if l.decoded >= maxDecoded {
		return
	}
	eachRun(text, func(run []byte) {
		for _, d := range decoders {
			data := d.decode(run)
			if data == nil {
				continue
			}
			form := formOf("", data)
			if form.text == nil && form.expand == nil && form.why != "" {
				if len(run) >= maxOpaque {
					u.gap(name, "holds "+d.name+" of data that is not read here")
				}
				continue
			}
			l := l
			l.decoded++
			u.open(name+": in "+d.name, data, l)
			return
		}
	})
}

var decoders = []struct {
	name   string
	decode func(run []byte) []byte
}{
	{"hexadecimal", func(run []byte) []byte { return decoded(hex.DecodeString(string(run))) }},
	{"base32", func(run []byte) []byte {
		return decoded(base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(string(run))))
	}},
	{"base64", func(run []byte) []byte {
		s := strings.NewReplacer("-", "+", "_", "/").Replace(string(run))
		if len(s)%4 == 1 {
			s = s[:len(s)-1]
		}
		return decoded(base64.RawStdEncoding.DecodeString(s))
	}},
}

func decoded(data []byte, err error) []byte {
	if err != nil {
		return nil
	}
	return data
}

// isEncodedByte is one of the letters of base64, in the alphabets of files and URLs.
func isEncodedByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
}

// eachRun finds long runs of such letters. What stands between the strings of a
// program, over the end of a line, does not end a run.
func eachRun(text []byte, visit func(run []byte)) {
	for i := 0; i < len(text); {
		end := encodedEnd(text, i)
		run := text[i:end:end]
		for len(run) >= minEncoded/4 {
			next := nextString(text, end)
			if next < 0 {
				break
			}
			end = encodedEnd(text, next)
			run = append(run, text[next:end]...)
		}
		if len(run) >= minEncoded {
			visit(run)
		}
		i = end + 1
	}
}

func encodedEnd(text []byte, i int) int {
	for i < len(text) && isEncodedByte(text[i]) {
		i++
	}
	return i
}

// nextString is where a run goes on in another line, -1 if it does not: behind
// quotation marks, a plus sign, a backslash, brackets, the letter of a Python string.
func nextString(text []byte, i int) int {
	line := false
	for ; i < len(text); i++ {
		c, after := text[i], byte(0)
		if i+1 < len(text) {
			after = text[i+1]
		}
		switch {
		case c == '\n':
			line = true
		case c == '\\' && after == 'n':
			line = true
			i++
		case strings.IndexByte(" \t\r\"'`()\\", c) >= 0:
		case c == '+' && !isEncodedByte(after), c == 'b' && (after == '"' || after == '\''):
		case line && isEncodedByte(c):
			return i
		default:
			return -1
		}
	}
	return -1
}
