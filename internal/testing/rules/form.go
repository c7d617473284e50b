package rules

import (
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// forms are the texts that a pattern cannot describe, or that many members
// have. They are written from the format pages and not from the packages whose
// documents they check.
var forms = map[string]func(string) bool{
	"blake3":         regexp.MustCompile(`^blake3:[0-9a-f]{64}$`).MatchString,
	"sha256":         regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString,
	"not_zero":       func(s string) bool { return !strings.HasSuffix(s, ":"+strings.Repeat("0", 64)) },
	"time":           func(s string) bool { return isTime("2006-01-02T15:04:05.000Z", s) },
	"second":         func(s string) bool { return isTime("2006-01-02T15:04:05Z", s) },
	"origin":         isOrigin,
	"name":           regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$`).MatchString,
	"objective":      isObjective,
	"visible":        isVisible,
	"no_control":     func(s string) bool { return !strings.ContainsFunc(s, unicode.IsControl) },
	"relative_path":  isRelativePath,
	"ssh_public_key": isSSHKey,
}

func isTime(layout, s string) bool {
	t, err := time.Parse(layout, s)
	return err == nil && t.Format(layout) == s && t.Year() >= 1
}

func isOrigin(s string) bool {
	if !regexp.MustCompile(`^[a-z0-9._/-]{1,200}$`).MatchString(s) {
		return false
	}
	for element := range strings.SplitSeq(s, "/") {
		if element == "" || element == "." || element == ".." {
			return false
		}
	}
	return true
}

// banned may stand in no name of a score as whole words.
var banned = []string{"confidence", "llm", "self_reported", "model_says"}

// isObjective splits a name into words: at everything that is not a letter,
// before a capital after a small letter, and before the last of several
// capitals that a small letter follows.
func isObjective(s string) bool {
	letters := []rune(s)
	var b strings.Builder
	for i, r := range letters {
		switch {
		case !unicode.IsLetter(r):
			b.WriteByte('_')
			continue
		case unicode.IsUpper(r) && i > 0 && unicode.IsLetter(letters[i-1]) &&
			(unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])):
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	words := "_" + strings.Join(strings.FieldsFunc(b.String(), func(r rune) bool { return r == '_' }), "_") + "_"
	for _, word := range banned {
		if strings.Contains(words, "_"+word+"_") {
			return false
		}
	}
	return true
}

// invisible are the characters that digests.md lists.
var invisible = regexp.MustCompile("[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\\x{feff}\uffa0\ufff0-\ufffb\\x{e0000}-\\x{e0fff}]")

func isVisible(s string) bool {
	return !strings.ContainsFunc(s, unicode.IsControl) && !invisible.MatchString(s)
}

// isSSHKey looks at the label of a key and at what it is a label of. Whether the
// numbers of a key of another type than ssh-ed25519 make a good key is beyond
// this language (signers.md, weak keys).
func isSSHKey(s string) bool {
	s = strings.TrimSuffix(s, "\n")
	fields := strings.Fields(s)
	if strings.ContainsAny(s, "\r\n") || len(fields) < 2 || !sshKeyType.MatchString(fields[0]) {
		return false
	}
	wire, err := base64.StdEncoding.Strict().DecodeString(fields[1])
	label := string(binary.BigEndian.AppendUint32(nil, uint32(len(fields[0])))) + fields[0]
	if err != nil || !strings.HasPrefix(string(wire), label) {
		return false
	}
	return fields[0] != "ssh-ed25519" || len(wire) == len(label)+4+32 && string(wire[len(label):len(label)+4]) == "\x00\x00\x00\x20"
}

var sshKeyType = regexp.MustCompile(`^(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh[.]com)$`)

func isRelativePath(s string) bool {
	if strings.HasPrefix(s, "..") {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}
