package trajectory

import "fmt"

// The rules of payloads are in docs/formats/rules/events.json, and the Validate
// methods are written from them: see rules_gen.go. What texts and arguments say of
// themselves is in content.go by hand.

// broken is the error of a member that breaks a rule.
func broken(member, format string, args ...any) error {
	return fmt.Errorf(member+" "+format, args...)
}

// within is an error of something inside a member.
func within(member string, err error) error { return fmt.Errorf("%s: %w", member, err) }
