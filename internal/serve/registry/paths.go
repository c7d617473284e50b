package registry

import (
	"strings"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// roots are the folders right below /artifacts, and what may be proposed there
// besides artifacts.
var roots = map[string]Thing{"models": Model, "eval-harnesses": EvalHarness, "datasets": Dataset, "evals": Eval, "agents": Artifact, "other": Artifact}

const (
	maxPathBytes    = 512
	maxPathSegments = 12
	maxSegment      = 100
)

// CheckPath refuses a path that is not of the grammar of the catalogue:
// /artifacts/<root>/<segment>(/<segment>)*.
func CheckPath(path string) error {
	bad := func(format string, args ...any) error {
		return refusal.Newf(refusal.Malformed, "path %.200q: "+format, append([]any{path}, args...)...).
			WithHint("a path is /artifacts/<root>/<name>, root one of models, eval-harnesses, datasets, evals, agents, other; names have A-Z a-z 0-9 . _ -")
	}
	if len(path) > maxPathBytes {
		return refusal.Newf(refusal.Malformed, "a path of %d bytes, at most %d are allowed", len(path), maxPathBytes)
	}
	rest, ok := strings.CutPrefix(path, "/artifacts/")
	if !ok {
		return bad("it does not begin with /artifacts/")
	}
	segments := strings.Split(rest, "/")
	if _, ok := roots[segments[0]]; !ok {
		return bad("there is no root %.100q", segments[0])
	}
	if len(segments) < 2 || len(segments) > maxPathSegments {
		return bad("it has %d segments after /artifacts, expected 2 to %d", len(segments), maxPathSegments)
	}
	for _, s := range segments[1:] {
		if !goodSegment(s) {
			return bad("the segment %.120q is not a name", s)
		}
	}
	return nil
}

func goodSegment(s string) bool {
	if s == "" || len(s) > maxSegment || strings.HasSuffix(s, ".") || strings.Contains(s, "..") {
		return false
	}
	for i, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// prefixes lists a path and the folders above it, down to its root.
func prefixes(path string) []string {
	var out []string
	for at := len(path); strings.Count(path[:at], "/") > 2; at = strings.LastIndexByte(path[:at], '/') {
		out = append(out, path[:at])
	}
	return out
}

// A spelling is how a path or folder is spelled in the catalogue, and how many
// proposals that stand use it.
type spelling struct {
	path string
	uses int
}

// A names knows every path and folder that stands, by what it looks like.
type names map[string]*spelling

func (n names) add(path string) {
	for _, p := range prefixes(path) {
		key := plain.Fold(p)
		if n[key] == nil {
			n[key] = &spelling{path: p}
		}
		n[key].uses++
	}
}

func (n names) remove(path string) {
	for _, p := range prefixes(path) {
		key := plain.Fold(p)
		if s := n[key]; s != nil {
			if s.uses--; s.uses == 0 {
				delete(n, key)
			}
		}
	}
}

// check refuses a path that looks like another, or lies in a folder that does.
func (n names) check(path string) error {
	for _, p := range prefixes(path) {
		if s := n[plain.Fold(p)]; s != nil && s.path != p {
			return refusal.Newf(refusal.PathTaken, "%s looks like %s, which is in the catalogue", p, s.path).
				WithHint("use that path, or one that differs in more than case, 0 and O, 1 and l and I, rn and m, vv and w, - and _")
		}
	}
	return nil
}

// parent is the folder of a path.
func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }
