package bench

import (
	"fmt"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

// An Incident is something that went wrong in production, from which a draft
// case is made. It comes from outside and is not trusted: what it says becomes
// a proposal for two people to read, never a case.
type Incident struct {
	ID          string
	Outcome     string
	Title       string
	Disposition Disposition
	Input       canon.RawMessage
	Expected    canon.RawMessage

	whole []byte
}

// ParseIncident reads a JSON object with id, outcome and input. Whatever else
// it has is kept with the draft.
func ParseIncident(name string, data []byte) (*Incident, error) {
	const hint = `an incident is {"id": "...", "outcome": "...", "input": ..., "expected": ...}`
	bad := func(format string, args ...any) error {
		return refusal.Newf(refusal.Malformed, "%s: %w", name, fmt.Errorf(format, args...)).WithHint(hint)
	}
	whole, err := canon.Canonicalize(data)
	if err != nil {
		return nil, bad("%w", err)
	}
	var object map[string]canon.RawMessage
	if err := canon.Unmarshal(whole, &object); err != nil {
		return nil, bad("%w", err)
	}
	i := &Incident{Disposition: Ambiguous, Input: object["input"], Expected: object["expected"], whole: whole}
	for _, f := range []struct {
		key      string
		to       *string
		required bool
	}{{"id", &i.ID, true}, {"outcome", &i.Outcome, true}, {"title", &i.Title, false}, {"disposition", (*string)(&i.Disposition), false}} {
		raw, ok := object[f.key]
		if !ok && f.required {
			return nil, bad("%s is missing", f.key)
		}
		if !ok {
			continue
		}
		if err := canon.Unmarshal(raw, f.to); err != nil {
			return nil, bad("%s: %w", f.key, err)
		}
	}
	if err := CheckID(i.ID); err != nil {
		return nil, bad("id: %w", err)
	}
	if i.Outcome == "" {
		return nil, bad("outcome is empty")
	}
	if i.Input == nil {
		return nil, bad("input is missing")
	}
	if i.Title == "" {
		i.Title = "Incident " + i.ID
	}
	if err := oneOf("disposition", i.Disposition, Positive, Negative, Ambiguous); err != nil {
		return nil, bad("%w", err)
	}
	return i, nil
}

// Source says in the ledger what the draft was made of.
func (i *Incident) Source() string { return "incident " + i.ID }

// Draft returns the files of the draft, relative to its folder. What was
// expected goes into case.yaml if it is an object and into expected/ if not;
// the incident itself stays outside input/, which the agent is given.
func (i *Incident) Draft(added, reviewed *Person, now time.Time) (map[string][]byte, error) {
	t := NewCase(i.ID, i.Title, added, reviewed, now)
	t.Disposition, t.Source, t.RefType, t.Ref = i.Disposition, RegressionConverted, "ledger", i.Source()
	files := map[string][]byte{"incident.json": i.whole, "input/input.json": i.Input}
	switch {
	case len(i.Expected) > 2 && i.Expected[0] == '{':
		t.Expected = string(i.Expected)
	case i.Expected != nil:
		files["expected/expected.json"] = i.Expected
		fallthrough
	default:
		t.Expected = ""
	}
	files[CaseFile] = t.YAML()
	return files, t.Check()
}
