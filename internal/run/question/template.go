package question

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// The parts of a prompt. The author of a template may use no other.
const (
	Criteria    = "criteria"     // of the grader
	Task        = "question"     // what the user said to the agent: a JSON list of texts
	Expected    = "expected"     // the expected answer, as JSON
	ScalePart   = "scale"        // what the judge chooses from
	Answer      = "answer"       // what the agent answered, as JSON
	Transcript  = "transcript"   // what the user, the agent and its tools said and did
	ToolResults = "tool_results" // what the tools gave
	Files       = "files"        // files of the working folder
	Context     = "context"      // passages that the case gives, or that a tool of the agent found
	First       = "first"        // of two answers that are compared
	Second      = "second"
	Claims      = "claims" // that were taken from an answer
)

// names lists the parts; fenced are those that an agent wrote or could have
// written, and what was made of them.
var (
	names  = []string{Criteria, Task, Expected, ScalePart, Answer, Transcript, ToolResults, Files, Context, First, Second, Claims}
	fenced = []string{Answer, Transcript, ToolResults, Files, Context, First, Second, Claims}
)

// maxTemplateBytes bounds a template: it is sent with every question.
const maxTemplateBytes = 64 << 10

// A Template is the text of a prompt with placeholders.
type Template struct {
	File   string // for people
	Digest digest.Content
	pieces []piece
}

// A piece is fixed text, or the place of a part.
type piece struct{ text, part string }

// ParseTemplate reads a template. Between {{ and }} stands the name of a part, and
// each part at most once.
func ParseTemplate(file string, text []byte) (*Template, error) {
	t := &Template{File: file, Digest: digest.ContentOf(text)}
	if len(text) > maxTemplateBytes || !utf8.Valid(text) {
		return nil, refuse(file, 1, "the template has %d bytes, expected at most %d of UTF-8", len(text), maxTemplateBytes)
	}
	rest, line := string(text), 1
	for {
		fixed, after, ok := strings.Cut(rest, "{{")
		line += strings.Count(fixed, "\n")
		if fixed != "" {
			t.pieces = append(t.pieces, piece{text: fixed})
		}
		if !ok {
			break
		}
		name, next, closed := strings.Cut(after, "}}")
		switch name = strings.Trim(name, " "); {
		case !closed:
			return nil, refuse(file, line, "{{ is not followed by }}")
		case !slices.Contains(names, name):
			return nil, refuse(file, line, "{{%.40s}} is not a placeholder; there are %s", name, list(names))
		case t.Has(name):
			return nil, refuse(file, line, "{{%s}} is there twice, expected each placeholder at most once", name)
		}
		t.pieces = append(t.pieces, piece{part: name})
		rest = next
	}
	if strings.TrimSpace(string(text)) == "" {
		return nil, refuse(file, 1, "the template is empty")
	}
	return t, nil
}

func refuse(file string, line int, format string, args ...any) error {
	return refusal.Newf(refusal.Malformed, "%s:%d: %s", file, line, fmt.Sprintf(format, args...)).
		WithHint("docs/judges.md lists the placeholders")
}

// Has reports whether a part has a place in the template.
func (t *Template) Has(part string) bool {
	return slices.ContainsFunc(t.pieces, func(p piece) bool { return p.part == part })
}

// Needs refuses a template that has other places than the parts that there are:
// every one in must has to be there, and only those in may besides.
func (t *Template) Needs(must, may []string) error {
	for _, part := range must {
		if !t.Has(part) {
			return refuse(t.File, 1, "there is no {{%s}}, and the grader shows the judge this", part)
		}
	}
	line := 1
	for _, p := range t.pieces {
		line += strings.Count(p.text, "\n")
		if p.part != "" && !slices.Contains(must, p.part) && !slices.Contains(may, p.part) {
			return refuse(t.File, line, "{{%s}} is not something that this grader shows the judge; add it to the grader's sees, or take it out", p.part)
		}
	}
	return nil
}

// A Part is a text for a place in a template.
type Part struct {
	Name string
	Text string
}

// Mark begins every marker of a prompt.
const Mark = "=====tally-"

// fenceLabel keeps the digests in markers apart from every other SHA-256 here.
const fenceLabel = "tallystick judge fence v2\n"

// fenceOf is the name of the markers of one prompt: a digest over all of its
// parts, with their names and lengths. A text that held it would hold its own
// digest.
func fenceOf(parts []Part) string {
	h := sha256.New()
	h.Write([]byte(fenceLabel))
	for _, p := range parts {
		for _, s := range []string{p.Name, p.Text} {
			_ = binary.Write(h, binary.BigEndian, uint64(len(s)))
			h.Write([]byte(s))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Render puts the parts into the template. What was put in is not looked at
// again. A part that has no place in the template is an error, and so is a place
// without a part.
func (t *Template) Render(parts []Part) (string, error) {
	texts := map[string]string{}
	for _, p := range parts {
		texts[p.Name] = p.Text
		if !t.Has(p.Name) {
			return "", refusal.Newf(refusal.Failed, "%s has no place for {{%s}}", t.File, p.Name)
		}
	}
	fence := fenceOf(parts)
	var b strings.Builder
	for _, p := range t.pieces {
		if p.part == "" {
			b.WriteString(p.text)
			continue
		}
		text, ok := texts[p.part]
		switch {
		case !ok:
			return "", refusal.Newf(refusal.Failed, "%s has a place for {{%s}}, and there is nothing to put there", t.File, p.part)
		case !slices.Contains(fenced, p.part):
			b.WriteString(text)
		case strings.Contains(text, fence):
			// It would be a text that holds its own SHA-256.
			return "", refusal.Newf(refusal.Failed, "the part %s holds the marker that ends it", p.part)
		default:
			fmt.Fprintf(&b, "%s%s:%s:begin=====\n%s\n%s%s:%s:end=====", Mark, p.part, fence, text, Mark, p.part, fence)
		}
	}
	return b.String(), nil
}

func list(words []string) string {
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = "{{" + w + "}}"
	}
	return strings.Join(shown, ", ")
}
