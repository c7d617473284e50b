package cassette

import (
	"strings"
	"unicode/utf8"
)

// What stands for the part of a path that depends on the machine or the run.
const (
	tmpToken  = "⟨tmp⟩"
	homeToken = "⟨home⟩"
	pidToken  = "⟨pid⟩"
)

// withoutPaths replaces the volatile beginnings of paths that the case does not
// give.
func (g *given) withoutPaths(s string) string {
	var out strings.Builder
	kept := 0
	eachPath(s, func(start, end int, token string) {
		if g.paths[s[start:end]] {
			return
		}
		out.WriteString(s[kept:start])
		out.WriteString(token)
		kept = end
	})
	if kept == 0 {
		return s
	}
	out.WriteString(s[kept:])
	return out.String()
}

func (g *given) notePaths(s string) {
	eachPath(s, func(start, end int, _ string) { g.paths[s[start:end]] = true })
}

// tmpFolders hold folders with drawn names.
var tmpFolders = []string{"/tmp/", "/var/tmp/", "/private/tmp/", "/dev/shm/"}

// eachPath finds the volatile beginnings of paths: of home folders, of folders
// with drawn names in the places for temporary files, and of processes. A path
// begins where a word begins.
func eachPath(s string, found func(start, end int, token string)) {
	for i := 0; i < len(s); {
		end, token := i, ""
		if s[i] == '/' && (i == 0 || !isPathByte(s[i-1]) && s[i-1] != '~' && s[i-1] < utf8.RuneSelf) {
			end, token = pathAt(s, i)
		}
		if end == i {
			i++
			continue
		}
		found(i, end, token)
		i = end
	}
}

// pathAt gives the end of the volatile beginning of the path at i, i if it has
// none.
func pathAt(s string, i int) (int, string) {
	rest := s[i:]
	for _, p := range []string{"/home/", "/Users/"} {
		if strings.HasPrefix(rest, p) {
			if end := nameEnd(s, i+len(p)); end > i+len(p) {
				return end, homeToken
			}
		}
	}
	if end := nameEnd(s, i+1); s[i+1:end] == "root" {
		return end, homeToken
	}
	if strings.HasPrefix(rest, "/proc/") {
		from := i + len("/proc/")
		if end := nameEnd(s, from); end > from && strings.Trim(s[from:end], "0123456789") == "" {
			return end, "/proc/" + pidToken
		}
	}
	for _, p := range tmpFolders {
		if strings.HasPrefix(rest, p) {
			if end := nameEnd(s, i+len(p)); isDrawnName(s[i+len(p) : end]) {
				return end, tmpToken
			}
		}
	}
	return macTmp(s, i), tmpToken
}

// macTmp knows /var/folders/XX/NAME/T, which macOS draws for each user.
func macTmp(s string, i int) int {
	at := i
	if strings.HasPrefix(s[at:], "/private/") {
		at += len("/private")
	}
	if !strings.HasPrefix(s[at:], "/var/folders/") {
		return i
	}
	at += len("/var/folders/")
	for range 2 {
		end := nameEnd(s, at)
		if end == at || end == len(s) || s[end] != '/' {
			return i
		}
		at = end + 1
	}
	if end := nameEnd(s, at); s[at:end] == "T" {
		if end < len(s) && s[end] == '/' {
			if last := nameEnd(s, end+1); isDrawnName(s[end+1 : last]) {
				return last
			}
		}
		return end
	}
	return i
}

// maxName is the longest name of a folder that is looked at, so that the time
// for a text does not depend on what is in it.
const maxName = 255

// nameEnd is where the name at i ends, i if there is none that can be told from
// what follows it.
func nameEnd(s string, i int) int {
	end := i
	for end < len(s) && end-i <= maxName && isPathByte(s[end]) {
		end++
	}
	if end-i > maxName || end < len(s) && s[end] >= utf8.RuneSelf {
		return i
	}
	// The full stop behind a sentence is not part of the name.
	for end > i && s[end-1] == '.' {
		end--
	}
	return end
}

func isPathByte(c byte) bool { return isNameByte(c) || c == '.' }

// isDrawnName reports whether a program drew the name of a temporary folder, as
// mktemp, Python, Go and Node do. A name that a person chose means something.
func isDrawnName(name string) bool {
	drawn := false
	eachID(name, func(int, int) { drawn = true })
	if rest, ok := strings.CutPrefix(name, "tmp"); ok && len(rest) == 8 && isLowerWord(rest) {
		return true
	}
	last := name[strings.LastIndexAny(name, "-._")+1:]
	switch {
	case drawn:
		return true
	case len(last) == len(name):
		return false
	case len(last) >= 9 && strings.Trim(last, "0123456789") == "":
		return true
	case len(last) >= 8 && hasLetterAndDigit(last):
		return true
	}
	return len(last) == 6 && isMixedCase(last[1:])
}

func isLowerWord(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func isMixedCase(s string) bool { return strings.ToLower(s) != s && strings.ToUpper(s) != s }
