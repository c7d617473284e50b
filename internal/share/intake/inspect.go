package intake

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tallystick/internal/read/step"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/share/zipfile"
)

// maxSample bounds a sample of an Inspect log, which is read whole.
const maxSample = 64 << 20

// An inspect is an Inspect log: an archive, or one JSON document.
type inspect struct {
	path    string
	archive bool
	model   string
	when    time.Time
}

var inspectSample = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^samples/.*_epoch_\d+(\.json|/sample\.json)$`) })

// openInspect reads the header: the model and when the log was made.
func openInspect(name string, archive bool) (*inspect, error) {
	l := &inspect{path: name, archive: archive}
	return l, l.read(l.header, nil)
}

// read reads the log once: header gets each member of the header, sample reads
// one sample; nil passes over them.
func (l *inspect) read(header func(r *jsonstream.Reader, name string) error, sample func(v any) error) error {
	f, err := store.Open(l.path)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "%s: %w", l.path, refusal.WithoutPath(err))
	}
	defer f.Close()
	if l.archive {
		err = l.readArchive(f, header, sample)
	} else {
		err = l.readDocument(f, header, sample)
	}
	if err != nil && err != errClosed {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	return err
}

func (l *inspect) readDocument(f io.Reader, header func(*jsonstream.Reader, string) error, sample func(v any) error) error {
	r, err := jsonstream.NewReader(f)
	if err != nil {
		return err
	}
	return r.Object(func(name string) error {
		if name == "samples" {
			if sample == nil {
				return nil
			}
			if k, err := r.Peek(); err != nil || k != jsonstream.Array {
				return err
			}
			return r.Array(func(int) error {
				v, err := r.Any(maxSample)
				if err != nil {
					return err
				}
				return sample(v)
			})
		}
		return header(r, name)
	})
}

func (l *inspect) readArchive(f *os.File, header func(*jsonstream.Reader, string) error, sample func(v any) error) error {
	info, err := f.Stat()
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "%w", err)
	}
	a, err := zipfile.Open(f, info.Size())
	if err != nil {
		return err
	}
	head := a.By["header.json"]
	if head == nil {
		head = a.By["_journal/start.json"]
	}
	if head == nil {
		return refusal.Newf(refusal.Unrecognised, "a zip archive without header.json, expected an Inspect log")
	}
	if err := a.JSON(head, func(r *jsonstream.Reader) error { return r.Object(func(name string) error { return header(r, name) }) }); err != nil {
		return err
	}
	for _, e := range a.Entries {
		if sample == nil || !inspectSample().MatchString(e.Name) {
			continue
		}
		v, err := readAny(a, e)
		if err == nil {
			err = addMessages(a, strings.TrimSuffix(e.Name, "sample.json"), v)
		}
		if err == nil {
			err = sample(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readAny(a *zipfile.Archive, e *zip.File) (v any, err error) {
	err = a.JSON(e, func(r *jsonstream.Reader) error {
		v, err = r.Any(maxSample)
		return err
	})
	return v, err
}

// addMessages puts the messages into a sample that keeps them in files of their
// own: messages/N.json, each with those from number N on.
func addMessages(a *zipfile.Archive, dir string, v any) error {
	sample, ok := v.(map[string]any)
	if !ok || !strings.HasSuffix(dir, "/") || sample["messages"] != nil {
		return nil
	}
	var files []*zip.File
	for _, e := range a.Entries {
		if strings.HasPrefix(e.Name, dir+"messages/") {
			files = append(files, e)
		}
	}
	number := func(e *zip.File) int {
		n, _ := strconv.Atoi(strings.TrimSuffix(path.Base(e.Name), ".json"))
		return n
	}
	slices.SortFunc(files, func(x, y *zip.File) int { return number(x) - number(y) })
	var all []any
	for _, e := range files {
		part, err := readAny(a, e)
		if err != nil {
			return err
		}
		all = append(all, jsonstream.ListOf(part)...)
	}
	if all != nil {
		sample["messages"] = all
	}
	return nil
}

func (l *inspect) header(r *jsonstream.Reader, name string) error {
	if name != "eval" && name != "stats" {
		return nil
	}
	v, err := r.Any(maxSample)
	if err != nil {
		return err
	}
	if model := jsonstream.TextOf(jsonstream.Member(v, "model")); model != "" {
		l.model = model
	}
	for _, at := range []string{"created", "completed_at"} {
		if t, err := time.Parse(time.RFC3339, jsonstream.TextOf(jsonstream.Member(v, at))); err == nil {
			l.when = t
		}
	}
	return nil
}

// each visits the samples.
func (l *inspect) each(visit func(Row, *step.Line) error) error {
	ignore := func(*jsonstream.Reader, string) error { return nil }
	return l.read(ignore, func(v any) error { return visit(l.sample(v)) })
}

// sample makes a task of a sample. Epochs of one sample are one task by several
// models, so that its question is that of one task.
func (l *inspect) sample(v any) (Row, *step.Line) {
	s := inspectTeller{left: maxTexts, attachments: jsonstream.Member(v, "attachments")}
	row := Row{TaskID: jsonstream.TextOf(jsonstream.Member(v, "id")), Model: l.model}
	if epoch, ok := jsonstream.IntOf(jsonstream.Member(v, "epoch")); ok && epoch > 1 {
		row.Model = fmt.Sprintf("%s (epoch %d)", l.model, epoch)
	}
	row.Question = s.asked(jsonstream.Member(v, "input"))
	if target := jsonstream.Member(v, "target"); target != nil {
		text := s.text(target)
		if list := jsonstream.ListOf(target); len(list) > 0 {
			text = s.text(list[0]) // any of them is right; the first stands for all
		}
		if text != "" {
			row.Expected = &text
		}
	}
	answer := s.text(jsonstream.Member(v, "output", "completion"))
	row.Correct = inspectVerdict(jsonstream.Member(v, "scores"), &answer)
	if answer != "" {
		row.Answer = &answer
	}
	messages := jsonstream.ListOf(jsonstream.Member(v, "messages"))
	if messages == nil {
		return row, nil
	}
	for _, m := range messages {
		s.message(m)
	}
	turns := s.calls
	row.Turns = &turns
	return row, &step.Line{TaskID: row.TaskID, Model: row.Model, Steps: s.steps}
}

// inspectVerdict says whether a sample counts as correct: any scorer gave it C,
// true, or 1 and more. Nil if none scored.
func inspectVerdict(scores any, answer *string) *bool {
	all, _ := scores.(map[string]any)
	var verdict *bool
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		said := jsonstream.TextOf(jsonstream.Member(all[name], "value"))
		n, err := strconv.ParseFloat(said, 64)
		correct := said == "C" || said == "true" || err == nil && n >= 1
		if verdict == nil || correct {
			verdict = &correct
		}
		if a := jsonstream.TextOf(jsonstream.Member(all[name], "answer")); a != "" {
			*answer = a
		}
	}
	return verdict
}

// An inspectTeller makes steps of the messages of a sample.
type inspectTeller struct {
	left        int
	attachments any
	steps       []*step.Step
	calls       int
}

func (t *inspectTeller) message(m any) {
	role := jsonstream.TextOf(jsonstream.Member(m, "role"))
	text, isCut := cut(t.text(jsonstream.Member(m, "content")), &t.left)
	switch role {
	case "system", "user":
		t.steps = append(t.steps, &step.Step{Type: step.Prompt, Content: &text, Truncated: isCut})
	case "assistant":
		t.calls++
		// A model is sent the messages before its own, which are steps already.
		t.steps = append(t.steps, &step.Step{Type: step.Model, Input: "", Output: &text, Truncated: isCut})
		for _, c := range jsonstream.ListOf(jsonstream.Member(m, "tool_calls")) {
			args := []byte("{}")
			if given := jsonstream.Member(c, "arguments"); given != nil {
				args, _ = json.Marshal(given)
			}
			name := jsonstream.TextOf(jsonstream.Member(c, "function"))
			t.steps = append(t.steps, &step.Step{Type: step.Call, Name: name, Input: json.RawMessage(args)})
		}
	case "tool":
		failed := jsonstream.Member(m, "error") != nil
		t.steps = append(t.steps, &step.Step{Type: step.Result, Name: jsonstream.TextOf(jsonstream.Member(m, "function")), Output: &text, Truncated: isCut, IsError: failed})
	}
}

// asked is the question: a text, or the last message of the user.
func (t *inspectTeller) asked(v any) string {
	last := t.text(v)
	for _, m := range jsonstream.ListOf(v) {
		if jsonstream.TextOf(jsonstream.Member(m, "role")) == "user" {
			last = t.text(jsonstream.Member(m, "content"))
		}
	}
	return last
}

const inspectAttachment = "attachment://"

// text is the text of a message's content, attachments resolved.
func (t *inspectTeller) text(v any) string {
	if list := jsonstream.ListOf(v); list != nil {
		var parts []string
		for _, p := range list {
			if s := t.text(p); s != "" {
				parts = append(parts, s)
			}
		}
		return strings.Join(parts, "\n")
	}
	if o, ok := v.(map[string]any); ok {
		return t.text(o["text"])
	}
	s := jsonstream.TextOf(v)
	if name, ok := strings.CutPrefix(s, inspectAttachment); ok {
		if whole := jsonstream.TextOf(jsonstream.Member(t.attachments, name)); whole != "" {
			return whole
		}
	}
	return s
}
