package cosign

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/seal"
)

// The examples of C2SP tlog-witness, section "add-checkpoint". Their keys are
// not published, so they are compared by shape.
const (
	specRequest = `old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=
`
	specResponse = `— witness.example/w1 CMp+6LWBU0anHGH5aNDTJkH/gj79sG+T6+iP2ThYN5krrDJbR1HDnucjL39QsZTSvVjyQLrdk3DXDqI5G2HgLatVs0pWh6Up69HVOw==
— witness.example/w1 I7rEps0pvK2UqkS2gSpVUDhrhVtQV9lgF6pRrWAvjJHjyWpW7VcE3SiOlVlbQNt64vWhO+DlkL0+UfzuOBMh9ChdMkP1vi/lCAsmlw==
— witness.example/w2 AWui8Sk55XjYLOijihBjhqEH6nS1ndDymE0a+6idX7pLcnoB+dhnz0854aLZgrrKbYKA7nC3HNJhm/kWl7oJlqU3rXXvpysAdyP3wQ==
`
)

// shape keeps what the grammar fixes of a message and drops what keys and
// trees decide.
func shape(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(text) {
		switch words := strings.Split(line, " "); {
		case line == "\n":
			out = append(out, "")
		case words[0] == "old":
			out = append(out, "old size")
		case words[0] == "—" && len(words) == 3:
			raw, err := decodeBase64(strings.TrimSuffix(words[2], "\n"))
			if err != nil {
				t.Fatal(err)
			}
			// Key id, and with a cosignature its time, before 64 bytes.
			out = append(out, map[int]string{4 + 64: "signature", 4 + 8 + 64: "cosignature"}[len(raw)])
		default:
			if raw, err := decodeBase64(strings.TrimSuffix(line, "\n")); err == nil && len(raw) == 32 {
				out = append(out, "hash")
				continue
			}
			out = append(out, "text")
		}
	}
	return out
}

func TestShapesAreThoseOfTheSpecification(t *testing.T) {
	log := honestLog(t, 163)
	log.origin = "example.com/behind-the-sofa"
	// From 160 to 163 takes as few hashes as the example has; what matters is
	// the order of the parts.
	request := log.request(160, 163)
	want, got := shape(t, specRequest), shape(t, request)
	collapse := func(parts []string) string { // runs of equal parts become one
		var out []string
		for i, p := range parts {
			if i == 0 || p != parts[i-1] {
				out = append(out, p)
			}
		}
		return strings.Join(out, ",")
	}
	if collapse(got) != collapse(want) {
		t.Errorf("our request has the shape %s, the specification's %s", collapse(got), collapse(want))
	}
	s := openTestServer(t, t.TempDir())
	response := mustPost(t, s, 200, honestLog(t, 5).request(0, 5))
	if got, want := collapse(shape(t, response)), collapse(shape(t, specResponse)); got != want {
		t.Errorf("our response has the shape %s, the specification's %s", got, want)
	}
	// And we read theirs.
	r, err := parseRequest([]byte(specRequest))
	if err != nil {
		t.Fatal(err)
	}
	if r.old != 20852014 || len(r.proof) != 4 || r.checkpoint.Size != 20852163 || len(r.checkpoint.signatures) != 2 || string(r.marshal()) != specRequest {
		t.Errorf("read %+v", r)
	}
	lines, err := parseSignatures([]byte(specResponse))
	if err != nil || len(lines) != 3 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

func FuzzRequest(f *testing.F) {
	log := honestLog(f, 9)
	for _, seed := range []string{specRequest, log.request(0, 5), log.request(5, 9), log.request(9, 9), "old 0\n\n", "old 00\n", ""} {
		f.Add([]byte(seed))
	}
	s := openTestServer(f, f.TempDir())
	mustPost(f, s, 200, log.request(0, 5))
	f.Fuzz(func(t *testing.T, body []byte) {
		// Nothing but what the log signed is ever cosigned.
		if a := s.addCheckpoint(body); a.status == 200 {
			r, err := parseRequest(body)
			if err != nil {
				t.Fatalf("cosigned %q", body)
			}
			if root, err := log.tree.Root(r.checkpoint.Size); err != nil || root != r.checkpoint.Root {
				t.Errorf("cosigned %q", body)
			}
		}
		r, err := parseRequest(body)
		if err != nil {
			return
		}
		if got := r.marshal(); !bytes.Equal(got, body) {
			t.Errorf("%q parses and encodes to %q", body, got)
		}
		if r.old < 0 || r.old > maxSize || r.checkpoint.Size > maxSize || len(r.proof) > maxProofHashes {
			t.Errorf("out of bounds: %q", body)
		}
	})
}

func FuzzResponse(f *testing.F) {
	log := honestLog(f, 5)
	text := log.head(5).Text()
	good := cosignatureBy(f, 9, testWitness, text)
	for _, seed := range []string{specResponse, good, good + specResponse, "— a AAAAAAE=\n", "— \n", ""} {
		f.Add([]byte(seed))
	}
	verifier, err := seal.CosignatureVerifier(testVKey(f))
	if err != nil {
		f.Fatal(err)
	}
	c, err := NewClient("http://127.0.0.1:1", testVKey(f), ClientOptions{Timeout: time.Second})
	if err != nil {
		f.Fatal(err)
	}
	signed, err := parseSignedHead(log.sign(log.head(5)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if lines, err := parseSignatures(body); err == nil {
			var again []byte
			for _, s := range lines {
				again = s.appendLine(again)
			}
			if !bytes.Equal(again, body) {
				t.Errorf("%q parses and encodes to %q", body, again)
			}
		}
		line, err := c.verifyCosignature(body, signed)
		if err != nil {
			return
		}
		// The library that others use must agree, on the line and on the whole.
		for _, sigs := range [][]byte{line, body} {
			if _, err := note.Open(append([]byte(text+"\n"), sigs...), note.VerifierList(verifier)); err != nil {
				t.Errorf("%q was accepted, package note says %v", sigs, err)
			}
		}
		if !bytes.Contains(body, line) {
			t.Errorf("%q is not in %q", line, body)
		}
	})
}
