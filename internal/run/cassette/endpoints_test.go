package cassette

import (
	"bytes"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/wire"
)

func recordedFrom(t *testing.T, from ...*evidence.Endpoint) *Cassette {
	t.Helper()
	r, err := NewRecorder(RecorderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range from {
		_, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{"model":"asked","messages":[]}`), Status: 200, From: e, RequestID: "req_1",
			Body: []byte(`{"model":"said","choices":[{"message":{"role":"assistant","content":"hi"}}]}`)})
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := r.Cassette()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fake(port int) *evidence.Endpoint {
	return &evidence.Endpoint{Scheme: "http", Host: "127.0.0.1", Port: port, Path: "/v1", Local: true, Address: "127.0.0.1", Leaf: "plain", Chain: "plain"}
}

func TestARecordingNamesWhoAnswered(t *testing.T) {
	c := recordedFrom(t, fake(1), fake(2), fake(1))
	if got := usesText(c.Header.Endpoints); got != "[http://127.0.0.1:1/v1, plain, local, calls itself said, 2 replies; http://127.0.0.1:2/v1, plain, local, calls itself said, 1 reply]" {
		t.Error(got)
	}
	if s := c.Interactions[0].Model.Said; s == nil || *s != (Said{"said", "req_1"}) {
		t.Errorf("the provider's own words: %+v", s)
	}
	file, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(file, Limits{}); err != nil {
		t.Fatal(err)
	}
}

// Whatever is changed in the header or in a line alone, the file is refused.
func TestEndpointsOfTheHeaderFollowFromTheCalls(t *testing.T) {
	lines, err := recordedFrom(t, fake(1), fake(1)).Lines()
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := bytes.Cut(lines, []byte{'\n'})
	change := func(in []byte, old, new string) []byte {
		out := bytes.Replace(in, []byte(old), []byte(new), 1)
		if bytes.Equal(in, out) {
			t.Fatalf("%q is not in %s", old, in)
		}
		return out
	}
	for name, forged := range map[string][]byte{
		"another host in the header":    change(head, `"host":"127.0.0.1"`, `"host":"api.openai.com"`),
		"not local in the header":       change(head, `,"local":true`, ``),
		"another number of replies":     change(head, `"replies":2`, `"replies":1`),
		"another model in the header":   change(head, `"models":["said"]`, `"models":["known"]`),
		"another address in the header": change(head, `"addresses":["127.0.0.1"]`, `"addresses":["8.8.8.8"]`),
		"no endpoints in the header":    head[:0],
	} {
		text := append(append(bytes.Clone(forged), '\n'), rest...)
		if name == "no endpoints in the header" {
			var h Header
			if err := canon.Unmarshal(head, &h); err != nil {
				t.Fatal(err)
			}
			h.Endpoints = nil
			line, err := canon.Marshal(&h)
			if err != nil {
				t.Fatal(err)
			}
			text = append(append(line, '\n'), rest...)
		}
		if _, err := ParseLines(text, Limits{}); err == nil || !strings.Contains(err.Error(), "endpoints") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, forged := range map[string][]byte{
		"another host in a line": change(rest, `"host":"127.0.0.1"`, `"host":"api.openai.com"`),
		"not local in a line":    change(rest, `,"local":true`, ``),
	} {
		if _, err := ParseLines(append(append(bytes.Clone(head), '\n'), forged...), Limits{}); err == nil || !strings.Contains(err.Error(), "endpoints") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseLines(change(lines, `"provenance":"recorded"`, `"provenance":"authored"`), Limits{}); err == nil {
		t.Error("a cassette that was written by hand names endpoints")
	}
}
