package judge

import (
	"bytes"
	"encoding/json"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
)

// A Sign is a structure in an answer that only an author who writes for a judge
// has a use for.
type Sign string

// The signs. They are shapes of our own prompt and of the reply that we accept,
// not words: an answer that says "ignore your instructions" in prose is for the
// judge to see through, and for the audit to list.
const (
	SignFence   Sign = "fence"   // the beginning of a marker that ends an answer
	SignHeading Sign = "heading" // a line that is a heading of the prompt
	SignVerdict Sign = "verdict" // a JSON object with the score and passed of a reply
)

// Signs lists what an answer has of them, each once.
func Signs(answer canon.RawMessage) []Sign {
	var found []Sign
	texts := texts(answer)
	for _, look := range []struct {
		sign Sign
		has  func(string) bool
	}{{SignFence, hasFence}, {SignHeading, hasHeading}, {SignVerdict, hasVerdict}} {
		for _, text := range texts {
			if look.has(text) {
				found = append(found, look.sign)
				break
			}
		}
	}
	return found
}

// texts is everything in a value that a judge could read as text: the value
// itself as JSON, and each of its strings and names as what they stand for.
func texts(value canon.RawMessage) []string {
	all := []string{string(value)}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return all
		}
		if s, ok := token.(string); ok {
			all = append(all, s)
			// A string that itself holds quoted JSON, one level down.
			if strings.Contains(s, `\"`) {
				all = append(all, strings.ReplaceAll(s, `\"`, `"`))
			}
		}
	}
}

func hasFence(text string) bool { return strings.Contains(text, fenceMark) }

// hasHeading looks for the headings of the template, up to the first
// placeholder in them.
func hasHeading(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "===") {
			continue
		}
		for heading := range strings.Lines(promptText) {
			heading, _, _ = strings.Cut(strings.TrimSpace(heading), "{{")
			if strings.HasPrefix(heading, "===") && strings.HasPrefix(line, heading) {
				return true
			}
		}
	}
	return false
}

// Bounds of looking for verdicts: nothing of the shape of a reply is longer or
// deeper, and each byte is looked at by few of the objects around it.
const (
	verdictWindow = verdictBytes
	verdictDepth  = 3
)

// hasVerdict reports whether some JSON object in the text has a number called
// score and a true or false called passed.
func hasVerdict(text string) bool {
	for at := 0; ; at++ {
		next := strings.IndexByte(text[at:], '{')
		if next < 0 {
			return false
		}
		at += next
		rest := text[at:min(at+verdictWindow, len(text))]
		if strings.HasPrefix(strings.TrimLeft(rest[1:], " \t\r\n"), `"`) && isVerdict(rest) {
			return true
		}
	}
}

// isVerdict reads the object at the beginning of a text as far as it goes: a
// judge reads one that breaks off as well.
func isVerdict(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		return false
	}
	var score, passed bool
	depth := 1
	name, named := "", false
	for depth > 0 {
		token, err := d.Token()
		if err != nil || depth > verdictDepth {
			break
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
			named = false
			continue
		case string:
			if depth == 1 && !named {
				name, named = t, true
				continue
			}
		case float64:
			score = score || depth == 1 && named && name == "score"
		case bool:
			passed = passed || depth == 1 && named && name == "passed"
		}
		if depth == 1 {
			named = false
		}
	}
	return score && passed
}

// echoes reports whether an answer holds a reason word for word as a JSON string.
// A judge that gives the reason which the answer gives has been told what to
// say.
func echoes(answer canon.RawMessage, reason string) bool {
	quoted, err := canon.Marshal(reason)
	if err != nil {
		return false
	}
	for _, text := range texts(answer) {
		if strings.Contains(text, string(quoted)) {
			return true
		}
	}
	return false
}

// EventInjection is the name of the finding that an answer has [Signs].
const EventInjection = "judge.injection_suspected"

func injectionEvent(a *Asked, signs []Sign) (evidence.IntegrityEvent, error) {
	data, err := canon.Marshal(map[string]any{"case": a.CaseID, "answer": a.Answer, "signs": signs})
	if err != nil {
		return evidence.IntegrityEvent{}, err
	}
	list := make([]string, len(signs))
	for i, s := range signs {
		list[i] = string(s)
	}
	return evidence.IntegrityEvent{Name: EventInjection, Severity: evidence.Warn, Boundary: boundary,
		Detail: "case " + a.CaseID + ": the answer holds what only a judge would read: " + strings.Join(list, ", "), Data: data}, nil
}
