package bench

import (
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
)

// maxIDBytes bounds the name of a case or a class; it is part of paths, of
// entries and of lines on a terminal.
const maxIDBytes = 100

// maxVariantBytes bounds the name of a variant of a target.
const maxVariantBytes = 1000

// CheckID refuses a name of a case or a class that is not 1 to 100 ASCII
// letters, digits, dots, dashes and underscores, or that begins with a dot or
// a dash. Being ASCII, no letter of another alphabet can pose as one of them.
func CheckID(id string) error {
	if id == "" || len(id) > maxIDBytes {
		return fmt.Errorf("the name %.120q has %d characters, expected 1 to %d", id, len(id), maxIDBytes)
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("the name %q has the character %q, expected only A-Z a-z 0-9 . _ -", id, c)
		}
	}
	switch {
	case id[0] == '.' || id[0] == '-':
		return fmt.Errorf("the name %q begins with %q, expected a letter, a digit or an underscore", id, id[0])
	case id[len(id)-1] == '.':
		return fmt.Errorf("the name %q ends in a dot, which Windows drops", id)
	}
	return nil
}

// variantHash is how many digits of a digest end the folder of a variant.
const variantHash = 12

// TargetFolder is how a target is spelled in the names of files, of folders and of
// attempts. For most it is the name. A variant of a target, NAME[PARAMETER=VALUE,…],
// has NAME, a dot, letters and digits of the values for people to read, two dashes
// and the first digits of the BLAKE3 of its whole name; no target can have such a
// name itself.
func TargetFolder(target string) string {
	base, slug := shortTarget(target)
	if slug == "" {
		return base
	}
	sum := digest.ContentOf([]byte(target))
	hash := "--" + hex.EncodeToString(sum[:variantHash/2])
	slug = "." + slug
	slug = strings.TrimRight(slug[:min(len(slug), 31, max(0, maxIDBytes-len(base)-len(hash)))], ".-")
	return base + slug + hash
}

// ShortTarget is how people write a variant of a target, where nothing depends on it
// alone: support~v2 for support[prompt_file=prompts/v2.txt]. Two variants may have one.
func ShortTarget(target string) string {
	base, slug := shortTarget(target)
	if slug == "" {
		return base
	}
	return base + "~" + strings.TrimRight(slug[:min(len(slug), 30)], "-")
}

// shortTarget has letters and digits of the values of a variant; "" of a target that
// is not one.
func shortTarget(target string) (base, slug string) {
	base, rest, isVariant := strings.Cut(target, "[")
	if !isVariant {
		return target, ""
	}
	var words []string
	for part := range strings.SplitSeq(strings.TrimSuffix(rest, "]"), ",") {
		_, value, _ := strings.Cut(part, "=")
		value = strings.TrimSuffix(path.Base(value), path.Ext(value))
		words = append(words, strings.FieldsFunc(value, func(c rune) bool { return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') })...)
	}
	if len(words) == 0 {
		words = []string{"variant"}
	}
	return base, strings.Join(words, "-")
}

// CheckTarget refuses a name that no target has: as [CheckID], and names that look
// like the folder of a variant.
func CheckTarget(name string) error {
	if at := len(name) - variantHash - 2; at > 0 && name[at:at+2] == "--" && strings.Trim(name[at+2:], "0123456789abcdef") == "" {
		return fmt.Errorf("the name %q ends in two dashes and %d hexadecimal digits, as folders of variants do; give the target another name", name, variantHash)
	}
	return CheckID(name)
}

// CheckVariant refuses the name of a target with parameters that is too long for a
// folder or a line.
func CheckVariant(name string) error {
	base, _, isVariant := strings.Cut(name, "[")
	switch {
	case isVariant && len(base) > maxIDBytes-variantHash-2:
		return fmt.Errorf("a target with parameters has a name of at most %d characters, found %d", maxIDBytes-variantHash-2, len(base))
	case len(name) > maxVariantBytes:
		return fmt.Errorf("the parameters of %.60s… take %d characters, at most %d; put long values into files", name, len(name), maxVariantBytes)
	}
	return CheckTarget(base)
}

// A nameSet finds names that look alike.
type nameSet map[string]string

// find returns the name that was added and looks like id, or "".
func (s nameSet) find(id string) string { return s[plain.Fold(id)] }

// add returns the name that was added before and looks like id, or "".
func (s nameSet) add(id string) string {
	if other := s.find(id); other != "" {
		return other
	}
	s[plain.Fold(id)] = id
	return ""
}

// Spell makes of any text, such as the name of a file, the nearest thing to a name
// of a class, case or target: in small letters, with hyphens for what no name has.
// It may be empty or too long; [CheckID] says.
func Spell(text string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, text), "-_.")
}
