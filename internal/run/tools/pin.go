package tools

import (
	"errors"
	"fmt"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/cassette"
)

// A Listing is what an MCP server says of its tools: the digest of each, by the
// server's name for it. Of two of one name neither is known.
type Listing map[string]digest.Content

// maxPages bounds the pages of a recorded list.
const maxPages = 100

// Add reads the answer to tools/list, or one page of it, and gives the cursor of the
// next page, "" after the last.
func (l Listing) Add(result []byte) (next string, err error) {
	var v any
	if err := canon.Unmarshal(result, &v); err != nil {
		return "", fmt.Errorf("the answer to tools/list cannot be read: %w", err)
	}
	page, _ := v.(map[string]any)
	list, ok := page["tools"].([]any)
	if !ok {
		return "", errors.New("the answer to tools/list has no list of tools")
	}
	for i, item := range list {
		tool, _ := item.(map[string]any)
		name, ok := tool["name"].(string)
		if !ok {
			return "", fmt.Errorf("tool %d of tools/list has no name", i+1)
		}
		whole, err := canon.Marshal(tool)
		if err != nil {
			return "", fmt.Errorf("tool %d of tools/list: %w", i+1, err)
		}
		d := digest.ContentOf(whole)
		if was, twice := l[name]; twice && was != d {
			d = digest.Content{}
		}
		l[name] = d
	}
	next, _ = page["nextCursor"].(string)
	return next, nil
}

// Unlike is the result of a call that is not made, because the server says something
// else of the tool than what the case pins; nil if it may be made.
func (d *Definition) Unlike(l Listing, source string) *Result {
	if d.Pinned == "" {
		return nil
	}
	now, ok := l[d.Remote]
	if ok && now.String() == d.Pinned {
		return nil
	}
	says := "lists no such tool"
	if ok {
		says = "says " + now.String()
	}
	r := d.Admit(source, nil, "the MCP server does not describe the tool "+d.Name+" as it did when the case was written; the call was not made")
	r.Findings = append(r.Findings, Finding{ChangedDescription,
		fmt.Sprintf("the case pins what %s says of the tool %s as %s, and it %s", d.Source, d.Name, d.Pinned, says), evidence.Warn})
	return &r
}

// listing is what the recording has of the tools of a tool's server.
func (s *State) listing(t *tool) (Listing, error) {
	server := t.server()
	if l := s.listings[server]; l != nil {
		return l, nil
	}
	l := Listing{}
	var params []byte
	for range maxPages {
		request, err := cassette.MCPRequest(server, "tools/list", params, s.redactor)
		if err != nil {
			return nil, err
		}
		it, err := s.next(t, request)
		if err != nil {
			return nil, err
		}
		cursor, err := l.Add(it.MCP.Result)
		if err != nil {
			return nil, err
		}
		if cursor == "" {
			break
		}
		if params, err = canon.Marshal(map[string]string{"cursor": cursor}); err != nil {
			return nil, err
		}
	}
	s.listings[server] = l
	return l, nil
}
