package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/tools"
)

// versions are those of MCP that a world may speak; the first is asked for.
var versions = []string{"2025-06-18", "2025-11-25", "2025-03-26", "2024-11-05"}

// Bounds on what a world says of its tools.
const (
	maxPages = 20
	maxTools = 256
)

// A Tool is what a world says of one of its tools. What else it says is in the list that
// is pinned, and not used.
type Tool struct {
	Name        string
	Description string
	Schema      canon.RawMessage
}

// introduce shakes hands as MCP has it and takes the list of tools.
func (w *World) introduce(ctx context.Context) error {
	a, err := w.mcp.ask(ctx, "initialize", map[string]any{"capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "tallystick", "version": "1"}, "protocolVersion": versions[0]})
	if err != nil {
		return err
	}
	var hello map[string]canon.RawMessage
	var version string
	if a.failure != nil || canon.Unmarshal(a.result, &hello) != nil || canon.Unmarshal(hello["protocolVersion"], &version) != nil || !slices.Contains(versions, version) {
		return w.fail("initialize was answered with %.200s%.200s, expected a protocolVersion of %s", a.result, a.failure, strings.Join(versions, ", "))
	}
	if err := w.greet(ctx, version); err != nil {
		return err
	}
	list, err := w.listTools(ctx)
	if err != nil {
		return err
	}
	w.List = list
	return nil
}

// greet says that the handshake is over.
func (w *World) greet(ctx context.Context, version string) error {
	if e, ok := w.mcp.(*endpoint); ok {
		e.version = version
		return e.notify(ctx, "notifications/initialized")
	}
	return w.notify(ctx, "notifications/initialized")
}

// listTools takes all pages of the list, in canonical JSON.
func (w *World) listTools(ctx context.Context) ([]byte, error) {
	all := []canon.RawMessage{}
	var params any
	for range maxPages {
		a, err := w.mcp.ask(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page map[string]canon.RawMessage
		var some []canon.RawMessage
		if a.failure != nil || canon.Unmarshal(a.result, &page) != nil || canon.Unmarshal(page["tools"], &some) != nil {
			return nil, w.fail("tools/list was answered with %.200s%.200s, expected a list of tools", a.result, a.failure)
		}
		if all = append(all, some...); len(all) > maxTools {
			return nil, w.fail("it has more than %d tools", maxTools)
		}
		next := page["nextCursor"]
		if next == nil || string(next) == "null" {
			return canon.Marshal(all)
		}
		params = map[string]any{"cursor": next}
	}
	return nil, w.fail("tools/list has more than %d pages", maxPages)
}

// ReadTools reads a list of tools as a world gives it.
func ReadTools(list []byte) (known []Tool, err error) {
	var raws []map[string]canon.RawMessage
	if err := canon.Unmarshal(list, &raws); err != nil {
		return nil, fmt.Errorf("its list of tools: %w", err)
	}
	for i, raw := range raws {
		t := Tool{Schema: raw["inputSchema"]}
		if canon.Unmarshal(raw["name"], &t.Name) != nil || t.Name == "" {
			return nil, fmt.Errorf("tool %d of its list has no name", i+1)
		}
		if raw["description"] != nil && canon.Unmarshal(raw["description"], &t.Description) != nil {
			return nil, fmt.Errorf("the description of its tool %.80q is not a text", t.Name)
		}
		if slices.ContainsFunc(known, func(u Tool) bool { return u.Name == t.Name }) {
			return nil, fmt.Errorf("it has two tools called %.80q", t.Name)
		}
		known = append(known, t)
	}
	return known, nil
}

// Changed asks for the list of tools again, and reports whether it is another one now.
func (w *World) Changed(ctx context.Context) (bool, error) {
	ctx, cancel := w.within(ctx, "tools/list")
	defer cancel()
	list, err := w.listTools(ctx)
	return err == nil && digest.ContentOf(list) != digest.ContentOf(w.List), err
}

// Define completes the definitions of a case from a list of tools: a tool of the world
// that has no description or schema of its own has those that the world gives it. What is
// missing in the list is told with fail.
func Define(defs []tools.Definition, list []Tool, fail func(string, ...any) error) ([]tools.Definition, error) {
	defs = slices.Clone(defs)
	for i := range defs {
		d := &defs[i]
		if d.Source != tools.World {
			continue
		}
		name := RemoteName(d)
		j := slices.IndexFunc(list, func(t Tool) bool { return t.Name == name })
		if j < 0 {
			return nil, fail("the case has its tool %s, and it has none of that name, but %s", name, names(list))
		}
		if d.Description == "" {
			d.Description = list[j].Description
		}
		if d.Schema == nil {
			d.Schema = list[j].Schema
		}
	}
	return defs, nil
}

// RemoteName is what the world calls a tool.
func RemoteName(d *tools.Definition) string {
	if d.Remote != "" {
		return d.Remote
	}
	return d.Name
}

func names(list []Tool) string {
	var words []string
	for _, t := range list {
		words = append(words, t.Name)
	}
	return fmt.Sprintf("%.300q", strings.Join(words, ", "))
}

// Without removes the traceback from the text of a failed tool: what is left is its last
// line, in which no file of the world is named.
func Without(text string) string {
	if !strings.Contains(text, "Traceback (most recent call last)") && !strings.Contains(text, "\n") {
		return withoutPaths(text)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return withoutPaths(strings.TrimSpace(lines[len(lines)-1]))
}

// withoutPaths replaces names of files below the world's folders.
func withoutPaths(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\"'(),:;", r) })
	for _, word := range words {
		for _, dir := range []string{Inside + "/", "/usr/", "/opt/", "/work/", "/tmp/", "/lib/"} {
			if strings.HasPrefix(word, dir) {
				text = strings.ReplaceAll(text, word, "[file]")
			}
		}
	}
	return text
}

// A State is what a world says of itself: its state, and whatever else helps to judge it.
type State struct {
	State  canon.RawMessage            `json:"state"`
	Files  map[string]canon.RawMessage `json:"files,omitempty"`  // by path: a text, or {"base64": ...}
	Events []canon.RawMessage          `json:"events,omitempty"` // its own list, in its own words
	Dump   string                      `json:"dump,omitempty"`   // of its database, as SQL
}

// State asks for the state. What comes back is canonical JSON of a [State].
func (w *World) State(ctx context.Context) ([]byte, error) {
	ctx, cancel := w.within(ctx, "world/state")
	defer cancel()
	raw, err := w.control(ctx, "world/state", nil)
	if err != nil {
		return nil, err
	}
	if most := or(w.spec.Bounds().StateBytes, defaultState); int64(len(raw)) > most {
		return nil, w.fail("its state has %d bytes, expected at most %d (limits.state_bytes)", len(raw), most)
	}
	if _, err := ReadState(raw); err != nil {
		return nil, w.fail("the answer to world/state: %w", err)
	}
	return canon.Canonicalize(raw)
}

// ReadState reads a state strictly.
func ReadState(text []byte) (*State, error) {
	var s State
	if err := canon.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.State == nil {
		return nil, errors.New("it has no member state")
	}
	for name, file := range s.Files {
		var as struct {
			Base64 *string `json:"base64"`
		}
		if file[0] != '"' && (canon.Unmarshal(file, &as) != nil || as.Base64 == nil) {
			return nil, fmt.Errorf(`the file %.100q is %.100s, expected a text or {"base64":"..."}`, name, file)
		}
	}
	return &s, nil
}
