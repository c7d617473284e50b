package web

import (
	"bytes"
	"strconv"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

func checkpoint(c *call) (*reply, error) {
	text, err := c.s.reads.Checkpoint(c.ctx())
	if err != nil {
		return nil, err
	}
	return given(typeText, text), nil
}

// tile answers the paths of C2SP tlog-tiles. A full tile never changes.
func tile(c *call) (*reply, error) {
	path := c.path("path")
	data, err := c.s.reads.Tile(c.ctx(), "tile/"+path)
	if err != nil {
		return nil, err
	}
	rep := given(typeBytes, data)
	rep.cache = cacheForever // also of a partial tile: its width is in the address
	return rep, nil
}

func receipt(c *call) (*reply, error) {
	index, err := parseIndex(c.path("index"))
	if err != nil {
		return nil, err
	}
	r, err := c.s.reads.Receipt(c.ctx(), index)
	if err != nil {
		return nil, err
	}
	return given(typeText, r.File), nil
}

// parseIndex reads the number of an entry, in its one spelling.
func parseIndex(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, refusal.Newf(refusal.Malformed, "found %q, expected the index of an entry, such as 0", text)
	}
	return n, nil
}

// maxEntriesBytes bounds an answer of entries, of which a single one may have a
// megabyte.
const maxEntriesBytes = 4 << 20

func entries(c *call) (*reply, error) {
	from := int64(0)
	if text, there := c.query["from"]; there {
		var err error
		if from, err = parseIndex(text); err != nil {
			return nil, err
		}
	}
	n, err := c.number("n", 100, 1, 1000)
	if err != nil {
		return nil, err
	}
	all, err := c.s.reads.Entries(c.ctx(), from, n)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for i, e := range all {
		if i > 0 && text.Len()+len(e) > maxEntriesBytes {
			break // the client continues from where this ends
		}
		text.Write(bytes.TrimSuffix(e, []byte("\n")))
		text.WriteByte('\n')
	}
	return given(typeLines, text.Bytes()), nil
}

func blob(c *call) (*reply, error) {
	text := c.path("digest")
	if !strings.Contains(text, ":") {
		text = "blake3:" + text
	}
	id, err := digest.ParseContent(text)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "found %q, expected a content digest", c.path("digest"))
	}
	data, err := c.s.reads.Blob(c.ctx(), id)
	if err != nil {
		return nil, err
	}
	// A page of ours shows it; a browser that is sent here saves it.
	rep := given(typeBytes, data)
	rep.attachment = true
	return rep, nil
}
