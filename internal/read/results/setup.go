package results

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
)

// A Setup is how a run was made, as far as its files say: what a person needs who
// attests to it or runs it again. What a file does not say is nil or empty.
type Setup struct {
	ModelURI string // where the model is from, such as huggingface://a/b
	EndedAt  Known

	FewShot, TopK, MaxTokens, Seed *int64
	Samples, Trials                *int64 // how many were planned
	Temperature, TopP              *float64
	Generation                     map[string]any // further settings of the model, plain JSON
	Extra                          map[string]any // what has no place of its own, plain JSON

	// Results are the numbers in the harness's own shape, plain JSON; nil if the
	// run's metrics are all there is.
	Results map[string]any
	// Tasks says that Results has one member for each task, so that the runs of
	// one file can be put together.
	Tasks bool

	// SHA-256 of what was evaluated with what, in hexadecimal, and how it came
	// about: [HashStated], [HashCanonical] or [HashInstances].
	Dataset, DatasetHow string
	Code, CodeHow       string
}

// How a hash came about that a reader gives.
const (
	HashStated    = "stated"         // the file says so
	HashCanonical = "canonical-json" // of the canonical JSON of the file
	HashInstances = "helm-instances" // of the canonical JSON of the list of instances, each once, in order
)

// Plain is a value that was read, with plain numbers: NaN and the infinities are
// null, since they are not scores. A number that would be rounded is refused with
// its place.
func Plain(v any) (any, error) { return plainAt("", v) }

func plainAt(place string, v any) (any, error) {
	switch x := v.(type) {
	case jsonstream.Number:
		f, finite, err := x.Float()
		switch {
		case err != nil:
			return nil, refusal.Newf(refusal.Malformed, "%s: %w", place, err)
		case !finite:
			return nil, nil
		}
		return f, nil
	case map[string]any:
		out := make(map[string]any, len(x))
		for name, value := range x {
			var err error
			if out[name], err = plainAt(place+"/"+name, value); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(x))
		for i, value := range x {
			var err error
			if out[i], err = plainAt(fmt.Sprintf("%s/%d", place, i), value); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// Whole is the whole number that a plain value is, nil if it is not one.
func Whole(v any) *int64 {
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) {
		return nil
	}
	n := int64(f)
	return &n
}

// Real is the number that a plain value is, nil if it is not one.
func Real(v any) *float64 {
	if f, ok := v.(float64); ok {
		return &f
	}
	return nil
}

// Set takes the settings of a model that every harness has, by the names that
// harnesses give them, and keeps the others as they are. A setting without a value
// says nothing.
func (s *Setup) Set(settings map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		v := settings[name]
		if v == nil {
			continue
		}
		taken := false
		switch name {
		case "temperature":
			s.Temperature, taken = realOr(s.Temperature, v)
		case "top_p":
			s.TopP, taken = realOr(s.TopP, v)
		case "top_k":
			s.TopK, taken = wholeOr(s.TopK, v)
		case "max_tokens", "max_new_tokens", "max_gen_toks":
			s.MaxTokens, taken = wholeOr(s.MaxTokens, v)
		case "seed":
			s.Seed, taken = wholeOr(s.Seed, v)
		}
		if taken {
			continue
		}
		if s.Generation == nil {
			s.Generation = map[string]any{}
		}
		s.Generation[name] = v
	}
}

func realOr(had *float64, v any) (*float64, bool) {
	if f := Real(v); f != nil {
		return f, true
	}
	return had, false
}

func wholeOr(had *int64, v any) (*int64, bool) {
	if n := Whole(v); n != nil {
		return n, true
	}
	return had, false
}
