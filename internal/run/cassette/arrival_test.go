package cassette

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

const arrivalKey = "sk-live-0123456789abcdef"

func arrive(t *testing.T, pieces ...string) (passed string, err error) {
	t.Helper()
	r, rerr := NewRedactor(arrivalKey)
	if rerr != nil {
		t.Fatal(rerr)
	}
	a := NewArrival(r)
	var out strings.Builder
	for _, p := range pieces {
		events, err := a.Write([]byte(p))
		for _, e := range events {
			out.WriteString(e)
		}
		if err != nil {
			return out.String(), err
		}
	}
	events, err := a.Close()
	return out.String() + strings.Join(events, ""), err
}

func chatDelta(text string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":` + string(canon.AppendString(nil, text)) + "}}]}\n\n"
}

func TestArrivalPassesEveryByteWhereverTheStreamIsCut(t *testing.T) {
	for _, stream := range []string{
		chatDelta("Hello") + ": ping\n\n" + chatDelta(" wörld") + "data: [DONE]\n\n",
		"event: a\r\ndata: {\"x\":1}\r\n\r\ndata: 2\r\n\r\n",
		"data: 1\r\rdata: 2\r\r",
		"\n\ndata: 1\n\n\n\ndata: broken o",
		"",
	} {
		for size := 1; size <= len(stream); size++ {
			var pieces []string
			for rest := stream; rest != ""; {
				n := min(size, len(rest))
				pieces, rest = append(pieces, rest[:n]), rest[n:]
			}
			if got, err := arrive(t, pieces...); err != nil || got != stream {
				t.Fatalf("in pieces of %d: %q, %v; want %q", size, got, err, stream)
			}
		}
	}
}

func TestArrivalPassesAnEventAsSoonAsItIsWhole(t *testing.T) {
	r, err := NewRedactor(arrivalKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Redactor{nil, r} {
		a := NewArrival(r)
		first := chatDelta("Yes, the keys") // ends in the first letter of the secret
		if got, err := a.Write([]byte(first + "data: {")); err != nil || strings.Join(got, "") != first {
			t.Errorf("got %q, %v, want the first event", got, err)
		}
	}
}

func TestArrivalReplacesASecretInsideOneEvent(t *testing.T) {
	for name, stream := range map[string]string{
		"a text":     chatDelta("key: " + arrivalKey + "."),
		"a comment":  ": " + arrivalKey + "\n\n",
		"no JSON":    "data: " + arrivalKey + "\n\n",
		"base64":     chatDelta(base64.StdEncoding.EncodeToString([]byte("u:" + arrivalKey))),
		"a name":     `data: {"` + arrivalKey + `":1}` + "\n\n",
		"escaped":    `data: {"a":"` + strings.Replace(arrivalKey, "s", `\u0073`, 1) + `"}` + "\n\n",
		"a fragment": "data: " + arrivalKey,
	} {
		got, err := arrive(t, chatDelta("before"), stream)
		if err != nil || strings.Contains(got, arrivalKey) || !strings.Contains(got, "[redacted:openai-key]") || !strings.HasPrefix(got, chatDelta("before")) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if found := leaks(got, arrivalKey); found != nil {
			t.Errorf("%s: %v is left in %q", name, found, got)
		}
	}
}

// The provider spells the key, cut at every place, or letter by letter.
func TestArrivalStopsAStreamThatSpellsASecret(t *testing.T) {
	cuts := [][]string{strings.Split(arrivalKey, "")}
	for i := 1; i < len(arrivalKey); i++ {
		cuts = append(cuts, []string{arrivalKey[:i], arrivalKey[i:]})
	}
	for _, cut := range cuts {
		var pieces []string
		for _, text := range cut {
			// Another text grows in between, as with parallel tool calls.
			pieces = append(pieces, chatDelta(text), `data: {"choices":[{"index":1,"delta":{"content":"x"}}]}`+"\n\n")
		}
		got, err := arrive(t, pieces...)
		if !refusal.Is(err, refusal.Failed) || !strings.Contains(err.Error(), "spells out a key") {
			t.Fatalf("%q: %v", cut, err)
		}
		var text strings.Builder
		for _, e := range wire.SplitEvents(got) {
			if at := slices.IndexFunc(cut, func(piece string) bool { return e == chatDelta(piece) }); at >= 0 {
				text.WriteString(cut[at])
			}
		}
		if text.Len() >= heldPrefix {
			t.Errorf("%q: %q of it was passed on", cut, text.String())
		}
	}
}

func TestArrivalLetsABeginningGoThatWasNoSecret(t *testing.T) {
	stream := chatDelta("an sk-live") + chatDelta("-key begins so") + chatDelta("sk-live-01234")
	if got, err := arrive(t, stream); err != nil || got != stream {
		t.Errorf("got %q, %v", got, err)
	}
}
