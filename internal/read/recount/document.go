package recount

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

// NotKept refuses a document that has not the form of a kept answer.
func NotKept(where string, err error) error {
	why := err.Error()
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		why = "found a JSON " + kind.Value
		// A member of an embedded type is told with the type's name before it.
		if _, field, embedded := strings.Cut(kind.Field, "."); embedded && unicode.IsUpper(rune(kind.Field[0])) {
			kind.Field = field
		}
		if kind.Field != "" {
			why += " at " + kind.Field
		}
	}
	return refusal.Newf(refusal.Malformed, "%s: not an answer of this program: %s", where, why).
		WithHint("an answer is what a command prints with --json; remove files that are not answers")
}

// document compares a kept JSON document with the one made now, member by
// member. Members that could not be made are named with the reason and left out
// of both.
func (r *Recounted) document(where string, kept []byte, made any, unmade map[string]string) error {
	if err := canon.Unmarshal(kept, new(map[string]canon.RawMessage)); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	fresh, err := json.Marshal(made)
	if err != nil {
		return err
	}
	a, err := tree(kept)
	if err != nil {
		return NotKept(where, err)
	}
	b, err := tree(fresh)
	if err != nil {
		return err
	}
	reasons := make(map[string][]string)
	for _, member := range slices.Sorted(maps.Keys(unmade)) {
		reasons[unmade[member]] = append(reasons[unmade[member]], member)
		delete(a, member)
		delete(b, member)
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		r.Unchecked = append(r.Unchecked, fmt.Sprintf("%s: %s: %s", where, strings.Join(reasons[why], ", "), why))
	}
	r.object(where, "", a, b)
	return nil
}

func tree(data []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var doc map[string]any
	err := dec.Decode(&doc)
	return doc, err
}

// nothing stands for a member that is not there.
const nothing = "nothing"

func (r *Recounted) object(where, field string, kept, made map[string]any) {
	members := maps.Clone(kept)
	maps.Copy(members, made)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		a, inKept := kept[name]
		b, inMade := made[name]
		full := name
		if field != "" {
			full = field + "." + name
		}
		switch {
		case !inKept:
			r.Compare(where, full, nothing, b, false)
		case !inMade:
			r.Compare(where, full, a, nothing, false)
		default:
			r.value(where, full, a, b)
		}
	}
}

func (r *Recounted) value(where, field string, kept, made any) {
	switch b := made.(type) {
	case map[string]any:
		if a, ok := kept.(map[string]any); ok {
			r.object(where, field, a, b)
			return
		}
	case []any:
		if a, ok := kept.([]any); ok && len(a) == len(b) {
			r.list(where, field, a, b)
			return
		}
	}
	r.Compare(where, field, kept, made, sameValue(kept, made) || mayDiffer(field, kept, made))
}

// list compares two lists of one length. Elements that have an id are told apart
// by it.
func (r *Recounted) list(where, field string, kept, made []any) {
	r.Checked++ // that it has as many
	for i := range made {
		a, _ := kept[i].(map[string]any)
		b, _ := made[i].(map[string]any)
		if id, ok := b["id"].(string); ok && a["id"] == id {
			r.object(fmt.Sprintf("%s: %s: %s", where, field, id), "", a, b)
			continue
		}
		r.value(where, fmt.Sprintf("%s[%d]", field, i), kept[i], made[i])
	}
}

// sameValue is equality of what is neither object nor list. Numbers are compared
// as numbers, whatever their spelling; adding in another order may change the
// last digit of a mean.
func sameValue(kept, made any) bool {
	a, ok := kept.(json.Number)
	b, number := made.(json.Number)
	if !ok || !number {
		return !isComposite(kept) && !isComposite(made) && kept == made
	}
	if a == b {
		return true
	}
	if _, err := b.Int64(); err == nil {
		if _, err := a.Int64(); err == nil {
			return false
		}
	}
	x, err := a.Float64()
	if err != nil {
		return false
	}
	y, err := b.Float64()
	return err == nil && nearly(x, y)
}

func isComposite(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// mayDiffer is about what is not in the ledger. Which witnesses are trusted is a
// setting, so an answer may say of its attempts less than is known now, and
// never more. Why a file could not be found is told in words that name folders.
func mayDiffer(field string, kept, made any) bool {
	a, text := kept.(string)
	b, _ := made.(string)
	name := field[strings.LastIndexByte(field, '.')+1:]
	if less, ok := kept.([]any); ok && name == "properties" {
		more, _ := made.([]any)
		return !slices.ContainsFunc(less, func(p any) bool { return !slices.Contains(more, p) })
	}
	switch {
	case name == "witnessed":
		return kept == false && made == true
	case !text || a == "" || b == "":
		return false
	case name == "level":
		var said, now history.Level
		return said.UnmarshalText([]byte(a)) == nil && now.UnmarshalText([]byte(b)) == nil && said < now
	case name == "divergence_note":
		return a != scorecard.NotLookedAt && b != scorecard.NotLookedAt
	}
	return name == "reason" && strings.Contains(field, "evidence_missing[")
}
