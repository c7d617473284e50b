package export

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// withheldPrefix begins what stands for a text that is withheld.
const withheldPrefix = "withheld sha256:"

// A Salt opens the texts of one sample: each digest is SHA-256 of the salt of its
// text, then the text.
type Salt struct {
	ID       string `json:"id"`
	Repeat   int    `json:"repeat"`
	Input    string `json:"input"`
	Answer   string `json:"answer"`
	Expected string `json:"expected"`
}

// Withhold takes the texts out of every sample and leaves their salted digests.
// Scores, outcomes and digests of cases stay, so totals are what they were. The
// salts are returned, one for each text, so that one can be opened and the others
// stay closed: without its salt, a short answer cannot be guessed from its digest.
// A nil random is the system's.
func (a *Facts) Withhold(random io.Reader) ([]Salt, error) {
	if random == nil {
		random = rand.Reader
	}
	var master [32]byte
	if _, err := io.ReadFull(random, master[:]); err != nil {
		return nil, fmt.Errorf("making salts: %w", err)
	}
	var salts []Salt
	for i := range a.Samples {
		s := &a.Samples[i]
		if s.HeldOut {
			continue
		}
		salt := Salt{ID: s.ID, Repeat: s.Repeat}
		for _, text := range []struct {
			name string
			of   *string
			salt *string
		}{{"input", &s.Input, &salt.Input}, {"answer", &s.Answer, &salt.Answer}, {"expected", &s.Expected, &salt.Expected}} {
			key := saltOf(master[:], text.name, s.ID, s.Repeat)
			*text.salt = hex.EncodeToString(key)
			*text.of = withheld(key, *text.of)
		}
		// Reasons and failure modes are the grader's words, which may quote; so may what
		// people say of a correction.
		s.Reason, s.Transcript = "", nil
		for i := range s.Corrections {
			s.Corrections[i].Reason = "withheld"
		}
		salts = append(salts, salt)
	}
	a.Withheld = true
	return salts, nil
}

func saltOf(master []byte, name, id string, repeat int) []byte {
	h := hmac.New(sha256.New, master)
	fmt.Fprintf(h, "%s\x00%s\x00%d", name, id, repeat)
	return h.Sum(nil)
}

func withheld(salt []byte, text string) string {
	sum := sha256.Sum256(append(append([]byte{}, salt...), text...))
	return withheldPrefix + hex.EncodeToString(sum[:])
}

// EncodeSalts writes salts as JSON lines, to be kept.
func EncodeSalts(salts []Salt) ([]byte, error) {
	var out []byte
	for _, s := range salts {
		line, err := encode(s)
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

// encode writes JSON, the same for the same value.
func encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.EscapeForHTML(false), jsontext.AllowInvalidUTF8(true))
}

// A File is one file of an export. Its name has slashes and leads nowhere else.
type File struct {
	Name string
	Data []byte
}

func file(name string, v any) (File, error) {
	data, err := encode(v)
	return File{name, append(data, '\n')}, err
}

// safeName makes a name of a file of any text.
func safeName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r == '.':
			return r
		}
		return '_'
	}, strings.TrimLeft(s, "."))
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
