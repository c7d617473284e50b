package viewer

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// A tag is the beginning of an element as the templates of this package write it:
// every value in double quotes, every text escaped.
type tag struct {
	name  string
	attrs []attribute
}

type attribute struct {
	name, value string
	quoted      bool // it has a value
}

func (t *tag) get(name string) (string, bool) {
	for _, a := range t.attrs {
		if a.name == name {
			return a.value, true
		}
	}
	return "", false
}

// drop takes an attribute away.
func (t *tag) drop(name string) {
	kept := t.attrs[:0]
	for _, a := range t.attrs {
		if a.name != name {
			kept = append(kept, a)
		}
	}
	t.attrs = kept
}

// eachTag copies a page, with every tag as edit leaves it. Elements of which edit says
// that they are to go are left out up to their end. What is not written as our
// templates write is an error: a link that was overlooked would lead nowhere.
func eachTag(page []byte, edit func(*tag) (keep bool)) ([]byte, error) {
	var out bytes.Buffer
	gone := "" // the element that is left out
	for len(page) > 0 {
		at := bytes.IndexByte(page, '<')
		if at < 0 {
			at = len(page)
		}
		if gone == "" {
			out.Write(page[:at])
		}
		if page = page[at:]; len(page) == 0 {
			break
		}
		raw, t, err := readTag(page)
		if err != nil {
			return nil, err
		}
		page = page[len(raw):]
		switch {
		case gone != "":
			if string(raw) == "</"+gone+">" {
				gone = ""
			}
		case t == nil:
			out.Write(raw)
		case edit(t):
			t.write(&out)
		default:
			gone = t.name
		}
	}
	if gone != "" {
		return nil, fmt.Errorf("an element %s without an end", gone)
	}
	return out.Bytes(), nil
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_:"

// readTag reads what begins with "<". The tag is nil for the end of an element and for
// the document's type.
func readTag(page []byte) (raw []byte, t *tag, err error) {
	odd := func() error { return fmt.Errorf("markup that cannot be read: %.60q", page) }
	if len(page) > 1 && (page[1] == '/' || page[1] == '!') {
		end := bytes.IndexByte(page, '>')
		if end < 0 || bytes.HasPrefix(page, []byte("<!--")) {
			return nil, nil, odd()
		}
		return page[:end+1], nil, nil
	}
	rest := page[1:]
	word := func() string {
		n := len(rest) - len(bytes.TrimLeft(rest, nameLetters))
		w := string(rest[:n])
		rest = rest[n:]
		return w
	}
	t = &tag{name: word()}
	if t.name == "" {
		return nil, nil, odd()
	}
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n/")
		if len(rest) == 0 {
			return nil, nil, odd()
		}
		if rest[0] == '>' {
			return page[:len(page)-len(rest)+1], t, nil
		}
		a := attribute{name: word()}
		if a.name == "" {
			return nil, nil, odd()
		}
		if bytes.HasPrefix(rest, []byte("=")) {
			end := -1
			if bytes.HasPrefix(rest, []byte(`="`)) {
				end = bytes.IndexByte(rest[2:], '"')
			}
			if end < 0 {
				return nil, nil, odd()
			}
			a.value, a.quoted = html.UnescapeString(string(rest[2:2+end])), true
			rest = rest[2+end+1:]
		}
		t.attrs = append(t.attrs, a)
	}
}

// hollow are the elements of SVG that the charts close at once.
var hollow = map[string]bool{"rect": true, "line": true, "circle": true, "path": true, "polyline": true, "polygon": true}

func (t *tag) write(out *bytes.Buffer) {
	out.WriteString("<" + t.name)
	for _, a := range t.attrs {
		out.WriteString(" " + a.name)
		if a.quoted {
			out.WriteString(`="` + html.EscapeString(a.value) + `"`)
		}
	}
	if hollow[strings.ToLower(t.name)] {
		out.WriteString("/")
	}
	out.WriteString(">")
}
