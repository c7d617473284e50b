package cassette

import (
	"bytes"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/wire"
)

// Whatever parses is written again with the same lines, and the file that we
// would write for it parses to the same.
func FuzzParse(f *testing.F) {
	lines := mustLines(f, mustCassette(f, smallRecorder(f)))
	for _, s := range []string{lines, fenced(f, formatPage(f), "```json", 0), lines[:strings.IndexByte(lines, '\n')+1]} {
		f.Add([]byte(s), false)
		f.Add(compress(f, s), true)
	}
	limits := Limits{MaxExpandedBytes: 1 << 20, MaxLineBytes: 1 << 16, MaxInteractions: 100}
	f.Fuzz(func(t *testing.T, data []byte, compressed bool) {
		lines := data
		if compressed {
			var err error
			if lines, err = expand(data, limits); err != nil {
				return
			}
		}
		c, err := ParseLines(lines, limits)
		if err != nil {
			return
		}
		again := mustLines(t, c)
		if again != string(lines) {
			t.Fatalf("got\n%s\nwant\n%s", again, lines)
		}
		file := mustMarshal(t, c)
		back, err := Parse(file, limits)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(mustMarshal(t, back), file) {
			t.Fatal("the file is not the same when written again")
		}
		for i := range c.Interactions {
			if m := c.Interactions[i].Model; m != nil {
				for _, stream := range []bool{false, true} {
					_, _ = m.Reply(wire.Delivery{Stream: stream, IncludeUsage: true}) // must not panic
				}
			}
		}
	})
}

// A canonical request is canonical JSON, stays as it is, and does not depend
// on how the request was spelled.
func FuzzModelRequest(f *testing.F) {
	for _, p := range pairs {
		f.Add(string(p.api), []byte(p.a))
		f.Add(string(p.api), []byte(p.b))
	}
	for _, secret := range planted {
		f.Add(string(wire.OpenAIChat), []byte(`{"messages":[{"content":`+string(canon.AppendString(nil, "a "+secret+" b"))+`}]}`))
	}
	f.Fuzz(func(t *testing.T, api string, body []byte) {
		r, err := ModelRequest(wire.API(api), body, nil)
		if err != nil {
			return
		}
		requireStable(t, wire.API(api), string(body))
		canonical, err := canon.Canonicalize(body)
		if err != nil {
			t.Fatal(err)
		}
		if again := mustModel(t, wire.API(api), string(canonical)); again.Key != r.Key {
			t.Fatalf("spelling counts: %q", body)
		}
	})
}

// What was redacted stays as it is, and joined pieces lose what the whole
// text loses.
func FuzzRedact(f *testing.F) {
	for _, secret := range planted {
		f.Add("a "+secret+" b", 5)
	}
	f.Add(`password=abc123def {"token": "x"} https://a:b@c Bearer abcdefgh1234`, 3)
	f.Add("key "+literal, 7)
	redactor, err := NewRedactor(literal)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string, cut int) {
		once, _ := redactor.Text(s)
		twice, n := redactor.Text(once)
		if twice != once || n != 0 {
			t.Fatalf("%q\n%q\n%q", s, once, twice)
		}
		if redactor.holdsLiteral([]byte(once)) {
			t.Fatalf("a literal is left in %q", once)
		}
		if cut = min(max(cut, 0), len(s)); cut > 0 {
			pieces := replaceSpans([]string{s[:cut], s[cut:]}, redactor.find(s, true))
			if strings.Join(pieces, "") != once {
				t.Fatalf("in pieces %q, whole %q", pieces, once)
			}
		}
	})
}

// Whatever is streamed can be redacted, and the events are still cut at their
// blank lines.
func FuzzRedactStream(f *testing.F) {
	f.Add("data: {\"a\":\"Bearer abcdefgh1234\"}\n\n")
	for _, secret := range planted {
		f.Add("event: x\r\ndata: {\"type\":\"t\",\"delta\":" + string(canon.AppendString(nil, secret)) + "}\r\n\r\n: c\n\n")
	}
	f.Fuzz(func(t *testing.T, stream string) {
		clean, _, err := (*Redactor)(nil).stream(wire.SplitEvents(stream))
		if err != nil {
			t.Fatal(err)
		}
		again, n, err := (*Redactor)(nil).stream(clean)
		if err != nil || n != 0 || strings.Join(again, "") != strings.Join(clean, "") {
			t.Fatalf("%q is redacted to %q, then to %q (%d, %v)", stream, clean, again, n, err)
		}
	})
}
