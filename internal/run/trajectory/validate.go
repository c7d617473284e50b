package trajectory

import (
	"fmt"
	"slices"

	"tallystick/internal/run/policy"
)

// Bounds of texts in payloads.
const (
	maxShort = 512
	maxLong  = 4096
	maxList  = 4096
)

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// texts checks pairs of field and value that must be there and short.
func texts(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return fmt.Errorf("%s is empty", pairs[i])
		}
		if err := short(pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func short(field, value string) error { return bounded(field, value, maxShort) }
func long(field, value string) error  { return bounded(field, value, maxLong) }

func filled(field, value string) error {
	if value == "" {
		return fmt.Errorf("%s is empty", field)
	}
	return long(field, value)
}

func bounded(field, value string, limit int) error {
	if len(value) > limit {
		return fmt.Errorf("%s has %d bytes, expected at most %d", field, len(value), limit)
	}
	return nil
}

func ids(field string, values []string) error {
	if len(values) > maxList {
		return fmt.Errorf("%s has %d elements, expected at most %d", field, len(values), maxList)
	}
	for i, v := range values {
		if err := bounded(fmt.Sprintf("%s[%d]", field, i), v, maxLong); err != nil {
			return err
		}
	}
	return nil
}

// counts checks pairs of field and value that cannot be negative.
func counts(pairs ...any) error {
	for i := 0; i < len(pairs); i += 2 {
		if n := pairs[i+1].(int64); n < 0 {
			return fmt.Errorf("%s is %d, expected 0 or more", pairs[i], n)
		}
	}
	return nil
}

func oneOf(field, value string, known ...string) error {
	if !slices.Contains(known, value) {
		return fmt.Errorf("%s is %.40q, expected one of %q", field, value, known)
	}
	return nil
}

func optional(field string, c *Content) error {
	if c == nil {
		return nil
	}
	return c.validate(field)
}

func action(a policy.Action) error {
	if !a.Known() {
		return fmt.Errorf("action is %.40q, expected one of %q", string(a), policy.Actions())
	}
	return nil
}

func class(c policy.Class) error {
	if c != "" && !c.Known() {
		return fmt.Errorf("class is %.40q, expected one of %q", string(c), policy.Classes())
	}
	return nil
}

// trust checks a label of where a text comes from.
func trust(label string) error {
	if label == "" {
		return nil
	}
	return oneOf("trust", label, "untrusted", "imported", "pinned", "internal")
}

func memory(t Tier, confidence float64) error {
	if !(confidence >= 0 && confidence <= 1) {
		return fmt.Errorf("confidence is %v, expected 0 to 1", confidence)
	}
	return oneOf("tier", string(t), string(Working), string(Episodic), string(Semantic), string(Procedural))
}
