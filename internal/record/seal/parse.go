package seal

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
)

// Limits of the signers file, so that a hostile one cannot exhaust memory.
const (
	maxSignersBytes = 1 << 20
	maxSignersLines = 4096
	maxSignersLine  = 16 << 10
	maxPrincipal    = 255
)

// The header lines.
const (
	headerMagic    = "# "
	headerFormat   = "tallystick-signers/" + format.Version
	headerVersion  = "# version: "
	headerPrevious = "# previous: "
)

const signersHint = "the format is described in docs/formats/signers.md"

// ParseSigners reads a signers file. The name is used in messages only.
//
// The result is well-formed and not yet trusted: see [Root] and [Extend].
func ParseSigners(name string, data []byte) (*Signers, error) {
	lines, err := splitSigners(name, data)
	if err != nil {
		return nil, err
	}
	s := &Signers{name: name, data: bytes.Clone(data)}
	n, err := s.parseHeader(lines)
	if err != nil {
		return nil, lineError(name, n, err)
	}
	for ; n < len(lines); n++ {
		line := lines[n]
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, openPGPPrefix):
			var e Entry
			e, err = parseOpenPGP(line)
			e.Line = n + 1
			s.entries = append(s.entries, e)
		case line[0] == '#':
			err = checkComment(line)
		default:
			var e Entry
			e, err = parseEntry(line)
			e.Line = n + 1
			s.entries = append(s.entries, e)
		}
		if err == nil && len(s.entries) > 0 {
			err = checkWorker(s.entries[len(s.entries)-1])
		}
		if err != nil {
			return nil, lineError(name, n+1, err)
		}
	}
	if err := s.checkPeople(); err != nil {
		return nil, err
	}
	s.byKey = make(map[string][]Entry, len(s.entries))
	for _, e := range s.entries {
		if key := e.Key.index(); !e.Authority {
			s.byKey[key] = append(s.byKey[key], e)
		}
	}
	return s, nil
}

// checkWorker refuses a line that gives a worker another role: the owner of
// that machine would have that role too.
func checkWorker(e Entry) error {
	if !slices.Contains(e.Roles, Worker) {
		return nil
	}
	if _, plain := e.Key.Ed25519(); len(e.Roles) > 1 || e.Authority || !plain {
		return fmt.Errorf("a worker is an ssh-ed25519 key with the role %s alone", Worker)
	}
	return nil
}

// lineError adds file and line to a problem. A problem that is not a refusal of
// its own is a malformed line.
func lineError(name string, line int, err error) error {
	place := fmt.Errorf("%s line %d: %w", name, line, err)
	if refusal.Of(err).Name != refusal.Failed {
		return place
	}
	return refusal.Newf(refusal.Malformed, "%w", place).WithHint(signersHint)
}

// splitSigners checks what every line must satisfy and splits the file.
func splitSigners(name string, data []byte) ([]string, error) {
	if len(data) > maxSignersBytes {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are accepted", name, len(data), maxSignersBytes)
	}
	text, ok := strings.CutSuffix(string(data), "\n")
	if !ok {
		return nil, refusal.Newf(refusal.Malformed, "%s: the last line has no newline", name).WithHint(signersHint)
	}
	lines := strings.Split(text, "\n")
	if len(lines) > maxSignersLines {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %d lines, at most %d are accepted", name, len(lines), maxSignersLines)
	}
	for i, line := range lines {
		if len(line) > maxSignersLine {
			return nil, refusal.Newf(refusal.TooLarge, "%s line %d: %d bytes, at most %d are accepted", name, i+1, len(line), maxSignersLine)
		}
		if err := checkText(line); err != nil {
			return nil, lineError(name, i+1, err)
		}
	}
	return lines, nil
}

// checkText refuses what a person reading the file would not see.
func checkText(line string) error {
	if !utf8.ValidString(line) {
		return fmt.Errorf("not valid UTF-8")
	}
	for _, r := range line {
		switch {
		case r == '\r':
			return fmt.Errorf("ends in a carriage return, expected a bare newline")
		case r != '\t' && (r < ' ' || r > '~'):
			// ASCII, because what else can be seen changes with every edition
			// of Unicode, and the validity of a signed file must not.
			return fmt.Errorf("character %U is not printable ASCII", r)
		}
	}
	if line != strings.Trim(line, " \t") {
		return fmt.Errorf("blank at the beginning or the end")
	}
	return nil
}

// parseHeader reads the header and returns how many lines it takes, or the
// line that is wrong.
func (s *Signers) parseHeader(lines []string) (int, error) {
	found := strings.TrimPrefix(lines[0], headerMagic)
	if newer := format.NewerName("it", found, headerFormat); newer != nil {
		return 1, newer
	}
	if lines[0] != headerMagic+headerFormat {
		return 1, fmt.Errorf("found %.80q, expected the header, which is %q and below it %q in a first version", lines[0], headerMagic+headerFormat, headerVersion+"1")
	}
	if len(lines) < 2 || !strings.HasPrefix(lines[1], headerVersion) {
		return 2, fmt.Errorf("expected %q and a number, such as %q in a first version", headerVersion, headerVersion+"1")
	}
	digits := strings.TrimPrefix(lines[1], headerVersion)
	version, err := strconv.Atoi(digits)
	if err != nil || version < 1 || version > 1<<31-1 || strconv.Itoa(version) != digits {
		return 2, fmt.Errorf("version %q is not a number from 1 to 2147483647 in plain decimal", digits)
	}
	s.version = version
	if version == 1 {
		return 2, nil
	}
	if len(lines) < 3 || !strings.HasPrefix(lines[2], headerPrevious) {
		return 3, fmt.Errorf("expected %q and the digest of version %d", headerPrevious, version-1)
	}
	s.previous, err = digest.ParseID(strings.TrimPrefix(lines[2], headerPrevious))
	if err != nil {
		return 3, fmt.Errorf("digest of version %d: %v", version-1, err)
	}
	return 3, nil
}

// checkComment refuses a comment that looks like a header, which would tell a
// reader another version than the parser, or like an OpenPGP key.
func checkComment(line string) error {
	text := strings.ToLower(strings.TrimLeft(line, "# \t")) // "# # version: 7" fools a reader as well
	for _, word := range []string{"tallystick-signers", "version:", "previous:"} {
		if strings.HasPrefix(text, word) {
			return fmt.Errorf("header line %q in the wrong place", line)
		}
	}
	if strings.HasPrefix(text, "openpgp-signer") {
		return fmt.Errorf("a comment that looks like an OpenPGP key; such a line begins with %q", openPGPPrefix)
	}
	return nil
}

// parseEntry reads: principals, options if any, key type, key, comment.
func parseEntry(line string) (Entry, error) {
	var e Entry
	principals, rest := cutField(line)
	e.Principals = principals

	typ, rest := cutField(rest)
	if !isKeyType(typ) {
		options, after, err := cutOptions(line[len(principals):])
		if err != nil {
			return e, err
		}
		if err := e.parseOptions(options); err != nil {
			return e, err
		}
		typ, rest = cutField(after)
	}
	b64, comment := cutField(rest)
	if typ == "" || b64 == "" {
		return e, fmt.Errorf("expected principal, options, key type and key")
	}
	var err error
	if e.Key, err = parseKeyFields(typ, b64); err != nil {
		return e, err
	}
	if err := e.parseComment(comment); err != nil {
		return e, err
	}
	return e, e.checkPrincipals()
}

// isKeyType reports whether a field is the name of a kind of key and not the
// options. Kinds that are refused later count, so that the message is about
// the key.
func isKeyType(field string) bool {
	return !strings.ContainsAny(field, `="`) &&
		(strings.HasPrefix(field, "ssh-") || strings.HasPrefix(field, "ecdsa-") || strings.HasPrefix(field, "sk-"))
}

// cutField takes the first blank-separated field off s.
func cutField(s string) (field, rest string) {
	s = strings.TrimLeft(s, " \t")
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

// cutOptions takes the options field off s: it ends at the first blank outside
// double quotes.
func cutOptions(s string) (options, rest string, err error) {
	s = strings.TrimLeft(s, " \t")
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			// OpenSSH reads \" as a quote. Nothing here needs one.
			return "", "", fmt.Errorf("backslash in the options")
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			return s[:i], s[i:], nil
		}
	}
	if quoted {
		return "", "", fmt.Errorf("a double quote is not closed")
	}
	return s, "", nil
}

// parseOptions reads option[,option...]. Commas inside quotes belong to the
// value.
func (e *Entry) parseOptions(options string) error {
	seen := map[string]bool{}
	for options != "" || len(seen) == 0 {
		end := strings.IndexAny(options, `,"`)
		var option string
		switch {
		case end < 0:
			option, options = options, ""
		case options[end] == ',':
			option, options = options[:end], options[end+1:]
			if options == "" {
				return fmt.Errorf("the options end in a comma")
			}
		default:
			closing := strings.IndexByte(options[end+1:], '"')
			if closing < 0 {
				return fmt.Errorf("a double quote is not closed")
			}
			closing += end + 2
			option, options = options[:closing], options[closing:]
			if options != "" {
				var ok bool
				if options, ok = strings.CutPrefix(options, ","); !ok || options == "" {
					return fmt.Errorf("expected a comma and another option after %s", option)
				}
			}
		}
		name, value, hasValue := strings.Cut(option, "=")
		if seen[name] {
			return fmt.Errorf("option %s is given twice", name)
		}
		seen[name] = true
		if err := e.setOption(name, value, hasValue); err != nil {
			return err
		}
	}
	if !e.ValidAfter.IsZero() && !e.ValidBefore.IsZero() && !e.ValidBefore.After(e.ValidAfter) {
		return fmt.Errorf("valid-before is not after valid-after")
	}
	return nil
}

func (e *Entry) setOption(name, value string, hasValue bool) error {
	switch name {
	case "cert-authority":
		if hasValue {
			return fmt.Errorf("option cert-authority takes no value")
		}
		e.Authority = true
		return nil
	case "namespaces", "valid-after", "valid-before":
	default:
		return fmt.Errorf("unknown option %q, expected cert-authority, namespaces, valid-after or valid-before", name)
	}

	// ssh-keygen insists on the quotes, so a file without them would mean
	// something here and nothing there.
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return fmt.Errorf("option %s needs a value in double quotes", name)
	}
	value = value[1 : len(value)-1]
	var err error
	switch name {
	case "namespaces":
		e.Namespaces = value
		err = checkPatterns(value)
	case "valid-after":
		e.ValidAfter, err = parseStamp(value)
	case "valid-before":
		e.ValidBefore, err = parseStamp(value)
	}
	if err != nil {
		return fmt.Errorf("option %s: %w", name, err)
	}
	return nil
}

// parseStamp reads YYYYMMDDZ, YYYYMMDDHHMMZ or YYYYMMDDHHMMSSZ.
func parseStamp(s string) (time.Time, error) {
	digits, ok := strings.CutSuffix(s, "Z")
	if !ok {
		return time.Time{}, fmt.Errorf("%q does not end in Z: without it the time would depend on the time zone of the verifier", s)
	}
	forms := map[int]string{8: "20060102", 12: "200601021504", 14: "20060102150405"}
	t, err := time.Parse(forms[len(digits)], digits)
	if err != nil || forms[len(digits)] == "" {
		return time.Time{}, fmt.Errorf("%q is not a time of the form YYYYMMDDZ, YYYYMMDDHHMMZ or YYYYMMDDHHMMSSZ", s)
	}
	// Zero stands for "no limit" in ssh-keygen, which refuses the epoch too.
	if t.Unix() <= 0 {
		return time.Time{}, fmt.Errorf("%q is not after 1970", s)
	}
	return t, nil
}

// parseComment finds roles= among the words after the key.
func (e *Entry) parseComment(comment string) error {
	var other []string
	found := false
	for _, word := range strings.Fields(comment) {
		value, ok := strings.CutPrefix(word, "roles=")
		if !ok {
			if strings.HasPrefix(strings.ToLower(word), "role") {
				return fmt.Errorf("%q after the key: write roles=curator,security", word)
			}
			other = append(other, word)
			continue
		}
		if found {
			return fmt.Errorf("roles= is given twice")
		}
		found = true
		var err error
		if e.Roles, err = parseRoles(value); err != nil {
			return err
		}
	}
	e.Comment = strings.Join(other, " ")
	return nil
}

func (e *Entry) checkPrincipals() error {
	if e.Authority {
		return checkPatterns(e.Principals)
	}
	if strings.Contains(e.Principals, ",") {
		return fmt.Errorf("principal %q: one line is for one person; give each their own line", e.Principals)
	}
	return checkPrincipal(e.Principals)
}

// checkPrincipal insists on a plain name. Patterns are refused because a
// person must be named, and letters beyond ASCII because two names that look
// alike would count as two people.
func checkPrincipal(name string) error {
	if name == "" || len(name) > maxPrincipal {
		return fmt.Errorf("principal of %d characters, expected 1 to %d", len(name), maxPrincipal)
	}
	if strings.ContainsAny(name, "*?!") {
		return fmt.Errorf("principal %q is a pattern: a person must be named (patterns are for cert-authority lines)", name)
	}
	for _, r := range name {
		if !isNameRune(r) {
			return fmt.Errorf("principal %q: %q is not a letter, digit or one of . _ @ + -", name, r)
		}
	}
	return nil
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._@+-", r)
}

// checkPatterns insists on a list of patterns that could match something.
func checkPatterns(list string) error {
	for pattern := range strings.SplitSeq(list, ",") {
		body := strings.TrimPrefix(pattern, "!")
		if body == "" {
			return fmt.Errorf("empty pattern in %q", list)
		}
		if len(body) > maxPrincipal {
			return fmt.Errorf("pattern of %d characters, at most %d are accepted", len(body), maxPrincipal)
		}
		for _, r := range body {
			if !isNameRune(r) && !strings.ContainsRune("*?:/", r) {
				return fmt.Errorf("pattern %q: %q is not accepted", pattern, r)
			}
		}
	}
	return nil
}

// checkPeople refuses files in which one key could pass for two people, or one
// name for two.
func (s *Signers) checkPeople() error {
	byKey := map[string]Entry{}
	byName := map[string]Entry{}
	for _, e := range s.entries {
		for _, material := range e.Key.materials() {
			first, ok := byKey[material]
			switch {
			case !ok:
				byKey[material] = e
			case first.Authority != e.Authority:
				return s.duplicate(first, e, "is an authority's on one line and a person's on the other")
			case !e.Authority && first.Principals != e.Principals:
				return s.duplicate(first, e, fmt.Sprintf("is listed for %s and for %s", first.Principals, e.Principals))
			case !first.Key.Equal(e.Key):
				return s.duplicate(first, e, "is listed in two wrappings")
			}
		}
		if e.Authority {
			continue
		}
		folded := strings.ToLower(e.Principals)
		if first, ok := byName[folded]; ok && first.Principals != e.Principals {
			return lineError(s.name, e.Line, fmt.Errorf("principal %q differs from %q on line %d in case only", e.Principals, first.Principals, first.Line))
		}
		byName[folded] = e
	}
	return nil
}

func (s *Signers) duplicate(first, second Entry, what string) error {
	return refusal.Newf(refusal.DuplicateKey, "%s line %d: the key %s %s (line %d)", s.name, second.Line, second.Key.Fingerprint(), what, first.Line).
		WithHint("one key is one person; let each person make their own key")
}

// Compose writes a signers file from entries; the line numbers in them are
// ignored. The previous digest is zero in version 1. The result has been
// parsed again, so it obeys every rule of the format.
func Compose(version int, previous digest.ID, entries []Entry) ([]byte, error) {
	var b strings.Builder
	b.WriteString(header(version, previous))
	for _, e := range entries {
		b.WriteString(e.String() + "\n")
	}
	if _, err := ParseSigners("new signers file", []byte(b.String())); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// Next returns the file with the header of the version after it and everything
// else as it is, comments too, so that the next signer sees only what changed.
func (s *Signers) Next() []byte {
	lines := strings.TrimPrefix(string(s.data), header(s.version, s.previous))
	return []byte(header(s.version+1, s.Digest()) + lines)
}

// With returns the file with one more line, and everything else as it is.
func (s *Signers) With(e Entry) ([]byte, error) {
	data := append(s.Bytes(), e.String()+"\n"...)
	if _, err := ParseSigners(s.name, data); err != nil {
		return nil, err
	}
	return data, nil
}

// header is the beginning of a version of the file; it has no other spelling.
func header(version int, previous digest.ID) string {
	text := fmt.Sprintf("%s%s\n%s%d\n", headerMagic, headerFormat, headerVersion, version)
	if version > 1 {
		text += fmt.Sprintf("%s%s\n", headerPrevious, previous)
	}
	return text
}

// String returns the entry as a line of the file, without the newline.
func (e Entry) String() string {
	var options []string
	if e.Authority {
		options = append(options, "cert-authority")
	}
	if e.Namespaces != "" {
		options = append(options, `namespaces="`+e.Namespaces+`"`)
	}
	const form = `"20060102150405Z"`
	if !e.ValidAfter.IsZero() {
		options = append(options, "valid-after="+e.ValidAfter.UTC().Format(form))
	}
	if !e.ValidBefore.IsZero() {
		options = append(options, "valid-before="+e.ValidBefore.UTC().Format(form))
	}
	fields := []string{e.Principals, strings.Join(options, ","), e.Key.String()}
	if len(e.Roles) > 0 {
		var roles []string
		for _, r := range e.Roles {
			roles = append(roles, string(r))
		}
		fields = append(fields, "roles="+strings.Join(roles, ","))
	}
	fields = append(fields, e.Comment)
	line := strings.Join(slices.DeleteFunc(fields, func(f string) bool { return f == "" }), " ")
	if e.Key.pgp != nil {
		return openPGPPrefix + line
	}
	return line
}
