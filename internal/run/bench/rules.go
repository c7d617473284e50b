package bench

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/strictyaml"
)

// The rules of these documents are in docs/formats/rules/bench.json, and the
// validate methods are written from them: see rules_gen.go. The forms of texts
// are here by hand.

// broken is the error of a member that breaks a rule, at its place in the file.
func broken(member, format string, args ...any) error {
	return within(member, fmt.Errorf(format, args...))
}

// within is an error of something inside a member. What follows the first dot is
// the place in a list or the name in a mapping, which may have dots of its own.
func within(member string, err error) error {
	at := strings.SplitN(member, ".", 2)
	if inner := strictyaml.PathOf(err); inner != nil {
		return strictyaml.At(append(at, inner...), errors.Unwrap(err))
	}
	return strictyaml.At(at, err)
}

// checkObjective refuses names under which a score could smuggle in a model's
// opinion of itself.
func checkObjective(name string) error {
	if word := evidence.BannedWord(name); word != "" {
		return bannedError(name, word)
	}
	return nil
}

// checkVisible keeps a text that a person wrote on one line and in sight.
func checkVisible(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || plain.Invisible(r) }) {
		return fmt.Errorf("found %.80q, expected one line of visible text", text)
	}
	return nil
}

func checkNoControl(text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("found %.80q, expected a text without control characters", text)
	}
	return nil
}

func checkRelativePath(name string) error {
	if path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "..") {
		return fmt.Errorf("found %.80q, expected a clean relative path", name)
	}
	return nil
}

// checkGateTag wants the name of a tag, or a star for all cases.
func checkGateTag(tag string) error {
	if tag == "*" {
		return nil
	}
	return CheckID(tag)
}
