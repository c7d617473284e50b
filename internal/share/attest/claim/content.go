package claim

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/read/results"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/setup"
)

// Content names what stands behind the digests of a body. Each is a file, a folder,
// or a SHA-256 as text; empty if it is not at hand.
type Content struct{ Dataset, EvalCode, Harness, Model string }

// The members of a body that name content, and the flags that give it.
var contentFields = []struct {
	field, flag string
	of          func(*Content) string
	in          func(*attest.Body) string
}{
	{"harnessVersionSha", "--harness-file", func(c *Content) string { return c.Harness }, func(b *attest.Body) string { return b.HarnessVersionSHA }},
	{"evalCodeSha", "--eval-code", func(c *Content) string { return c.EvalCode }, func(b *attest.Body) string { return b.EvalCodeSHA }},
	{"datasetSha", "--dataset", func(c *Content) string { return c.Dataset }, func(b *attest.Body) string { return b.DatasetSHA }},
	{"modelVersionSha", "--model-file", func(c *Content) string { return c.Model }, func(b *attest.Body) string { return b.ModelVersionSHA }},
}

// How content was hashed, besides the ways of package results.
const (
	HashBytes = "bytes" // SHA-256 of the file
	// HashTree is the SHA-256 of lines of "<sha256>  <path>", one for each file of
	// the folder, in the order of the bytes of their paths: what sha256sum prints.
	HashTree = "tree"
)

var howWords = map[string]string{
	HashBytes:             "SHA-256 of the file's bytes",
	HashTree:              "SHA-256 of what sha256sum prints for the folder's files, in order of path",
	results.HashStated:    "given as text; no bytes were hashed",
	results.HashCanonical: "SHA-256 of the canonical JSON of the file",
	results.HashInstances: "SHA-256 of the canonical JSON of the list of instances, each once",
	HashCases:             "SHA-256 of the canonical JSON of the cases' names and digests",
	HashBench:             "SHA-256 of the bench's manifest",
}

// How says in words how something was hashed.
func How(method string) string {
	if words := howWords[method]; words != "" {
		return words
	}
	return "in a way that this program does not know"
}

// A Hashed is the digest of one piece of content.
type Hashed struct {
	Field  string `json:"field"`
	SHA256 string `json:"sha256"`
	Method string `json:"method"`
	From   string `json:"from,omitempty"`
}

var sha256Text = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:sha256:)?([0-9a-f]{64})$`) })

// hash gives the digest of what was named. A digest in text is taken as it is.
func hash(field, given, method string) (Hashed, error) {
	if m := sha256Text().FindStringSubmatch(given); m != nil {
		return Hashed{Field: field, SHA256: m[1], Method: results.HashStated}, nil
	}
	info, err := os.Stat(given)
	if err != nil {
		return Hashed{}, refusal.Newf(refusal.Unreadable, "hashing %s: %s: %w", field, given, refusal.WithoutPath(err)).
			WithHint("give a file, a folder, or 64 digits of lower-case hexadecimal")
	}
	h := Hashed{Field: field, Method: HashBytes, From: given}
	switch {
	case info.IsDir():
		h.Method = HashTree
		h.SHA256, err = hashTree(given)
	case method == results.HashCanonical, method == results.HashInstances:
		h.Method = method
		h.SHA256, err = hashJSON(given, method)
	default:
		h.SHA256, err = hashFile(given)
	}
	if err != nil {
		return Hashed{}, fmt.Errorf("hashing %s: %w", field, err)
	}
	return h, nil
}

func hashFile(path string) (string, error) {
	f, err := store.Open(path)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "%w", err)
	}
	return sumOf(f)
}

func hashBelow(dir, name string) (string, error) {
	f, err := store.OpenBelow(dir, name)
	if err != nil {
		return "", err
	}
	return sumOf(f)
}

// sumOf hashes a file and closes it.
func sumOf(f *os.File) (string, error) {
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", refusal.Newf(refusal.Unreadable, "%s: %w", f.Name(), refusal.WithoutPath(err))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// maxFiles bounds a folder that is hashed.
const maxFiles = 1_000_000

// hashTree refuses links and whatever else is neither a file nor a folder: what
// they lead to is not in the folder.
func hashTree(dir string) (string, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case !e.Type().IsRegular():
			return refusal.Newf(refusal.Unreadable, "%s: neither a file nor a folder", path).WithHint("hash the files themselves: a link can lead anywhere")
		case digest.CheckPath(rel) != nil && strings.ContainsAny(rel, "\n\\"):
			return refusal.Newf(refusal.Malformed, "%q: sha256sum would write this name in another way", rel)
		case len(paths) == maxFiles:
			return refusal.Newf(refusal.TooLarge, "%s has more than %d files", dir, maxFiles)
		}
		paths = append(paths, rel)
		return nil
	})
	if err != nil {
		return "", unreadable(err)
	}
	if len(paths) == 0 {
		return "", refusal.Newf(refusal.NotFound, "%s has no file", dir)
	}
	slices.Sort(paths)
	sum := sha256.New()
	for _, rel := range paths {
		one, err := hashBelow(dir, rel)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s  %s\n", one, rel)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func unreadable(err error) error {
	var known *refusal.Error
	if errors.As(err, &known) {
		return err
	}
	return refusal.Newf(refusal.Unreadable, "%w", err)
}

// maxJSON bounds a JSON file that is hashed in canonical spelling.
const maxJSON = 256 << 20

// hashJSON hashes what a JSON file says and not how it is spelled.
func hashJSON(path, method string) (string, error) {
	f, err := store.Open(path)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "%w", err)
	}
	defer f.Close()
	r, err := jsonstream.NewReader(bufio.NewReader(f))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if method == results.HashInstances {
		sum, _, err := setup.Instances(r)
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		return sum, nil
	}
	v, err := r.Any(maxJSON)
	if err == nil {
		v, err = results.Plain(v)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	text, err := canon.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// A Checked is one digest of a body against the content that was given.
type Checked struct {
	Field  string `json:"field"`
	Status string `json:"status"` // matches, differs or "not given"
	Found  string `json:"found,omitempty"`
	Stated string `json:"stated,omitempty"`
	How    string `json:"how,omitempty"`
	flag   string
}

// The statuses of a [Checked].
const (
	Matches  = "matches"
	Differs  = "differs"
	NotGiven = "not given"
)

// CheckContent hashes what was given again and compares. The error is about
// reading, or DigestMismatch with every member that differs.
func CheckContent(b *attest.Body, c Content) ([]Checked, error) {
	methods := hashingOf(b)
	var out []Checked
	var bad []string
	for _, f := range contentFields {
		given, stated := f.of(&c), f.in(b)
		one := Checked{Field: f.field, Status: NotGiven, Stated: stated, flag: f.flag}
		switch {
		case given == "" && stated == "":
			continue
		case given == "":
		case stated == "":
			one.Status = Differs
			bad = append(bad, f.field+": the body has none")
		default:
			h, err := hash(f.field, given, methods[f.field])
			if err != nil {
				return nil, err
			}
			one.Status, one.Found, one.How = Matches, h.SHA256, How(h.Method)
			if h.SHA256 != stated {
				one.Status = Differs
				bad = append(bad, fmt.Sprintf("%s is %s, and %s gives %s", f.field, stated, given, h.SHA256))
			}
		}
		out = append(out, one)
	}
	if len(bad) > 0 {
		return out, refusal.Newf(refusal.DigestMismatch, "%s", strings.Join(bad, "; ")).
			WithHint("the run was of something else than what was given, or it was hashed in another way")
	}
	return out, nil
}

// hashingOf is how the digests of a body say that they were made.
func hashingOf(b *attest.Body) map[string]string {
	var hashing map[string]string
	_ = canon.Unmarshal(extraOf(b)["hashing"], &hashing) // of another shape: another program's
	return hashing
}
