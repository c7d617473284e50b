package evidence

import "fmt"

// The rules of records are in docs/formats/rules/records.json, and the Validate
// methods are written from them: see rules_gen.go. What the rules cannot say is
// in this package by hand, and the README of the rules lists it.

// broken is the error of a member that breaks a rule.
func broken(member, format string, args ...any) error {
	return fmt.Errorf(member+" "+format, args...)
}

// within is an error of something inside a member.
func within(member string, err error) error { return fmt.Errorf("%s: %w", member, err) }

// checkObjective refuses a name that says what no score may claim.
func checkObjective(name string) error {
	if word := BannedWord(name); word != "" {
		return fmt.Errorf("%q contains %q, which no score may claim", name, word)
	}
	return nil
}
