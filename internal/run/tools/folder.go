package tools

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/store"
	"tallystick/internal/run/policy"
)

// Bounds of folder tools.
const (
	maxReadFile   = 8 << 20  // of a file that is read
	maxWriteFile  = 1 << 20  // of a file that is written
	maxWriteTotal = 64 << 20 // of all that one case writes
	maxListed     = 1_000
)

// An operation is what a folder tool does.
type operation struct {
	class       policy.Class
	description string
	schema      string
}

// folderOperation returns an operation, or false.
func folderOperation(name string) (operation, bool) {
	switch name {
	case FSRead:
		return operation{policy.Read, "Read a text file of the working folder, whole or from a line on.",
			`{"additionalProperties":false,"properties":{"line":{"description":"first line, from 1","minimum":1,"type":"integer"},"lines":{"description":"how many lines","minimum":1,"type":"integer"},"path":{"description":"relative path with slashes","type":"string"}},"required":["path"],"type":"object"}`}, true
	case FSWrite:
		return operation{policy.Write, "Write a text file of the working folder, replacing it if it exists.",
			`{"additionalProperties":false,"properties":{"path":{"description":"relative path with slashes","type":"string"},"text":{"description":"what the file holds afterwards","type":"string"}},"required":["path","text"],"type":"object"}`}, true
	case FSList:
		return operation{policy.Read, "List a folder of the working folder, by default its top.",
			`{"additionalProperties":false,"properties":{"path":{"description":"relative path with slashes","type":"string"},"recursive":{"description":"what is below folders too","type":"boolean"}},"type":"object"}`}, true
	case FSDelete:
		return operation{policy.Write, "Delete a file or an empty folder of the working folder.",
			`{"additionalProperties":false,"properties":{"path":{"description":"relative path with slashes","type":"string"}},"required":["path"],"type":"object"}`}, true
	case FSReplace:
		return operation{policy.Write, "Replace a text that occurs exactly once in a file of the working folder.",
			`{"additionalProperties":false,"properties":{"new":{"type":"string"},"old":{"minLength":1,"type":"string"},"path":{"description":"relative path with slashes","type":"string"}},"required":["path","old","new"],"type":"object"}`}, true
	}
	return operation{}, false
}

// fillFolder fills in what the operation of a folder tool says.
func (t *tool) fillFolder(bad func(string, string, ...any) error) error {
	d := &t.def
	if d.Operation == "" {
		d.Operation = d.Name
	}
	op, ok := folderOperation(d.Operation)
	switch {
	case !ok:
		return bad("operation", "found %.80q, expected %s, %s, %s, %s or %s", d.Operation, FSRead, FSWrite, FSList, FSDelete, FSReplace)
	case d.Schema != nil:
		return bad("schema", "a folder tool has the schema of its operation")
	case d.Class == "":
		d.Class = op.class
	case d.Class == policy.Read && op.class != policy.Read:
		// A policy that permits reading must not let a write through.
		return bad("class", "found read, but %s writes", d.Operation)
	}
	if d.Description == "" {
		d.Description = op.description
	}
	d.Schema = canon.RawMessage(op.schema)
	return nil
}

// callFolder acts on the working folder. The folder is opened anew each time:
// a rollback may have put another one in its place.
func (s *State) callFolder(t *tool, args map[string]any) (Result, error) {
	folder, err := store.OpenScratch(s.folder)
	if err != nil {
		return Result{}, err
	}
	defer folder.Close()
	path, _ := args["path"].(string)
	var answer any
	var wrote []string
	switch t.def.Operation {
	case FSRead:
		answer, err = readLines(folder, path, args)
	case FSList:
		answer, err = list(folder, path, args["recursive"] == true)
	case FSWrite:
		text := args["text"].(string)
		answer, err = s.write(folder, path, text)
		wrote = []string{path}
	case FSReplace:
		answer, err = s.replace(folder, path, args["old"].(string), args["new"].(string))
		wrote = []string{path}
	case FSDelete:
		err = folder.Remove(path)
		answer = map[string]any{"deleted": path}
		wrote = []string{path}
	}
	failure := ""
	if err != nil {
		if !isMistake(err) {
			return Result{}, fmt.Errorf("tool %s: %w", t.def.Name, err)
		}
		failure, wrote = err.Error(), nil
	}
	result := t.def.admit(Fixture, answer, err == nil, failure)
	result.Latency = time.Duration(t.def.LatencyMS) * time.Millisecond
	result.CostMicroUSD, result.Tokens, result.Wrote = t.def.CostMicroUSD, t.def.Tokens, wrote
	return result, nil
}

// A mistake is what an agent asked for and cannot have; it is told.
type mistake string

func (m mistake) Error() string { return string(m) }

func misused(format string, args ...any) error { return mistake(fmt.Sprintf(format, args...)) }

// isMistake reports whether the agent, and not this machine, is to blame.
func isMistake(err error) bool {
	var ours mistake
	var theirs *store.MisuseError
	return errors.As(err, &ours) || errors.As(err, &theirs)
}

func readText(folder *store.Scratch, path string) (string, error) {
	data, err := folder.Read(path, maxReadFile)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(data) {
		return "", misused("%q is not text in UTF-8", path)
	}
	return string(data), nil
}

// readLines answers with the lines asked for, as many as fit.
func readLines(folder *store.Scratch, path string, args map[string]any) (any, error) {
	text, err := readText(folder, path)
	if err != nil {
		return nil, err
	}
	all := strings.Count(text, "\n")
	if !strings.HasSuffix(text, "\n") && text != "" {
		all++
	}
	answer := map[string]any{"path": path, "lines": float64(all)}
	if first, ok := args["line"].(float64); ok && first > 1 {
		text = skipLines(text, first-1)
		answer["line"] = first
	}
	if count, ok := args["lines"].(float64); ok {
		text = text[:len(text)-len(skipLines(text, count))]
	}
	// Escapes make a text longer, and the rest of the answer needs room.
	if most := MaxResultBytes / 2; len(text) > most {
		text = cut(text, most)
		answer["cut"] = true
	}
	answer["text"] = text
	return answer, nil
}

// skipLines returns what comes after the first n lines.
func skipLines(text string, n float64) string {
	for ; n > 0 && text != ""; n-- {
		_, rest, found := strings.Cut(text, "\n")
		if !found {
			return ""
		}
		text = rest
	}
	return text
}

func list(folder *store.Scratch, path string, recursive bool) (any, error) {
	if path == "" {
		path = "."
	}
	entries, more, err := folder.List(path, recursive, maxListed)
	if err != nil {
		return nil, err
	}
	items := make([]any, len(entries))
	for i, e := range entries {
		// A program that the agent runs can give a file any name.
		item := map[string]any{"name": strings.ToValidUTF8(e.Name, "\ufffd"), "kind": e.Kind}
		if e.Kind == "file" {
			item["bytes"] = float64(e.Size)
		}
		items[i] = item
	}
	answer := map[string]any{"path": path, "entries": items}
	if more {
		answer["cut"] = true
	}
	return answer, nil
}

func (s *State) write(folder *store.Scratch, path, text string) (any, error) {
	if len(text) > maxWriteFile {
		return nil, misused("the text has %d bytes, expected at most %d", len(text), maxWriteFile)
	}
	if s.written+int64(len(text)) > maxWriteTotal {
		return nil, misused("this case has written %d bytes and may write no more than %d", s.written, maxWriteTotal)
	}
	if err := folder.Write(path, []byte(text)); err != nil {
		return nil, err
	}
	s.written += int64(len(text))
	return map[string]any{"path": path, "bytes": float64(len(text))}, nil
}

func (s *State) replace(folder *store.Scratch, path, old, new string) (any, error) {
	text, err := readText(folder, path)
	if err != nil {
		return nil, err
	}
	switch at := strings.Index(text, old); {
	case at < 0:
		return nil, misused("the old text is not in %q", path)
	case at != strings.LastIndex(text, old):
		return nil, misused("the old text occurs more than once in %q; give more of what is around it", path)
	default:
		return s.write(folder, path, text[:at]+new+text[at+len(old):])
	}
}
