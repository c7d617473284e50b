package mine

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/scenario"
)

// What a commit may be to become a task.
const (
	minMessage   = 20
	maxMessage   = 32 << 10
	maxPatch     = 128 << 10
	maxTests     = 1 << 20
	maxTreeFiles = 20_000
	maxTreeBytes = 128 << 20
	maxObject    = 64 << 10
)

// A task is a commit that could become a case.
type task struct {
	*commit
	repo     string // its name
	place    int    // among those of its repository, the newest first
	language Language
	issue    string
	before   []digest.File // the parent's tree
	after    []digest.File // the commit's
	tests    []digest.File // the commit's version of what steers tests, and the runner
	leftOut  []scenario.LeftOut
	code     []string          // paths of the recorded change
	shapes   [2]digest.Content // of the change of code and of tests; see [scenario.Issue]
	patch    []byte
	cost     int      // what has to be compiled, roughly
	own      []string // Go packages of the repository that are compiled
	foreign  []string // and those of others
}

// file is one that the tests see: theirs, or that of the commit's tree.
func (t *task) file(name string) []byte {
	for _, files := range [][]digest.File{t.tests, t.after} {
		if i := slices.IndexFunc(files, func(f digest.File) bool { return f.Path == name }); i >= 0 {
			return files[i].Data
		}
	}
	return nil
}

// testFiles are the paths of the tests that are run, in order.
func (t *task) testFiles() []string {
	var out []string
	for _, f := range t.tests {
		if t.language.isTest(f.Path) {
			out = append(out, f.Path)
		}
	}
	slices.Sort(out)
	return out
}

// unsuited says why a commit cannot become a task, before anything of it is read;
// "" if it may.
func (c *commit) unsuited(l Language) string {
	issue, ok := issueText(c.message)
	switch {
	case !ok:
		return "the message is not UTF-8"
	case len(issue) < minMessage:
		return fmt.Sprintf("the message has fewer than %d characters", minMessage)
	case len(issue) > maxMessage:
		return fmt.Sprintf("the message has more than %d bytes", maxMessage)
	case !utf8.ValidString(c.object + c.parentObject):
		return "it or its parent names people in an encoding that is not UTF-8"
	case max(len(c.object), len(c.parentObject)) > maxObject:
		return fmt.Sprintf("it or its parent has more than %d bytes", maxObject)
	}
	code, tests := false, false
	for _, ch := range c.changes {
		switch {
		case !isFile(ch.oldMode) || !isFile(ch.newMode):
			return "it changes a link or a submodule"
		case ch.kind == 'D':
		case l.isTest(ch.path):
			tests = true
		case l.runner().IsCode(ch.path) && !scenario.SteersTests(ch.path):
			code = true
		}
	}
	switch {
	case !tests:
		return "it changes no tests"
	case !code:
		return "it changes no code"
	}
	return ""
}

// isFile accepts the mode of a file, and of none.
func isFile(mode string) bool {
	return mode == modeFile || mode == modeExecutable || mode == "000000"
}

// newTask reads the trees of a commit. Why says why it is not a task.
func (r *repository) newTask(ctx context.Context, c *commit, l Language) (t *task, why string, err error) {
	issue, _ := issueText(c.message)
	t = &task{commit: c, language: l, issue: issue}
	if t.before, t.leftOut, why, err = r.files(ctx, c.parent); err != nil || why != "" {
		return nil, why, err
	}
	// A commit that changes what is left out is not taken.
	if t.after, _, why, err = r.files(ctx, c.id); err != nil || why != "" {
		return nil, why, err
	}
	byPath := map[string]digest.File{}
	for _, f := range t.after {
		byPath[f.Path] = f
	}
	size, handmade := 0, false
	for _, ch := range c.changes {
		now := byPath[ch.path]
		if bytes.IndexByte(now.Data, 0) >= 0 {
			return nil, "it changes a binary file", nil
		}
		if scenario.SteersTests(ch.path) {
			// What is removed stays there for the test, in the check as in a run.
			if ch.kind != 'D' {
				t.tests = append(t.tests, now)
				size += len(now.Data)
			}
			continue
		}
		t.code = append(t.code, ch.path)
		handmade = handmade || l.runner().IsCode(ch.path) && ch.kind != 'D' && !isGenerated(now.Data)
	}
	switch {
	case !handmade:
		return nil, "all of the code that it changes is generated", nil
	case size > maxTests:
		return nil, fmt.Sprintf("its tests have more than %d bytes", maxTests), nil
	}
	t.tests = append(t.tests, l.runner().File)
	if t.patch, err = r.patch(ctx, c, t.code); err != nil {
		return nil, "", err
	}
	if len(t.patch) > maxPatch {
		return nil, fmt.Sprintf("the change of its code has more than %d bytes", maxPatch), nil
	}
	if _, err := (&digest.Tree{Files: t.tests}).Digest(); err != nil {
		return nil, "its tests have names that a case cannot have: " + err.Error(), nil
	}
	if t.shapes[0], t.shapes[1], err = l.runner().Shapes(t.before, t.after); err != nil {
		return nil, err.Error(), nil
	}
	return t, "", nil
}

// files reads a commit's tree. Links and submodules are left out.
func (r *repository) files(ctx context.Context, id string) (files []digest.File, leftOut []scenario.LeftOut, why string, err error) {
	entries, err := r.tree(ctx, id)
	if err != nil {
		return nil, nil, "", err
	}
	if len(entries) > maxTreeFiles {
		return nil, nil, fmt.Sprintf("its tree has more than %d files", maxTreeFiles), nil
	}
	var ids []string
	for _, e := range entries {
		switch e.mode {
		case modeFile, modeExecutable:
			ids = append(ids, e.id)
		case modeLink, modeSubmodule:
			leftOut = append(leftOut, scenario.LeftOut{ID: e.id, Mode: e.mode, Path: e.path})
		default:
			return nil, nil, "its tree has a file with the mode " + e.mode, nil
		}
	}
	if err := r.read(ctx, ids); err != nil {
		return nil, nil, "", err
	}
	size := 0
	for _, e := range entries {
		if e.mode != modeFile && e.mode != modeExecutable {
			continue
		}
		if r.large[e.id] {
			return nil, nil, fmt.Sprintf("its tree has a file of more than %d bytes", maxBlob), nil
		}
		files = append(files, digest.File{Path: e.path, Data: r.blobs[e.id], Executable: e.mode == modeExecutable})
		size += len(r.blobs[e.id])
	}
	if size > maxTreeBytes {
		return nil, nil, fmt.Sprintf("its tree has more than %d bytes", maxTreeBytes), nil
	}
	if _, err := (&digest.Tree{Files: files}).Digest(); err != nil {
		return nil, nil, "its tree has names that a working folder cannot have: " + err.Error(), nil
	}
	return files, leftOut, "", nil
}

// isGenerated knows the line by which Go and others mark what a program wrote, and
// code whose lines are too long to be written by hand.
func isGenerated(data []byte) bool {
	head := data[:min(len(data), 4<<10)]
	if bytes.Contains(head, []byte("Code generated ")) && bytes.Contains(head, []byte("DO NOT EDIT")) || bytes.Contains(head, []byte("@generated")) {
		return true
	}
	lines := bytes.Count(data, []byte("\n")) + 1
	return len(data)/lines > 500
}

// slug is a short name for what a task is about, from the folder of its first test.
func (t *task) slug() string {
	dir := "top"
	for _, f := range t.tests {
		if t.language.isTest(f.Path) {
			if d := path.Base(path.Dir(f.Path)); d != "." {
				dir = d
			}
			break
		}
	}
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(dir))
	if clean = strings.Trim(clean, "-"); clean == "" {
		clean = "task"
	}
	return clean[:min(len(clean), 24)]
}

// caseID names the case of a task.
func (t *task) caseID() string { return t.slug() + "-" + t.id[:12] }
