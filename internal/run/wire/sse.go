package wire

import "strings"

// SplitEvents cuts a stream of server-sent events behind each blank line. The
// pieces joined are the stream again, byte for byte. What follows the last
// blank line, as in a stream that broke off, is a piece of its own.
func SplitEvents(stream string) []string {
	var chunks []string
	start := 0
	for pos := 0; pos < len(stream); {
		end, next := LineAt(stream, pos)
		blank := end == pos
		pos = next
		if blank {
			// Blank lines that follow belong to the same piece, so that no
			// piece is without an event.
			for pos < len(stream) {
				end, next := LineAt(stream, pos)
				if end != pos || next == pos {
					break
				}
				pos = next
			}
			chunks = append(chunks, stream[start:pos])
			start = pos
		}
	}
	if start < len(stream) {
		chunks = append(chunks, stream[start:])
	}
	return chunks
}

// LineAt gives the end of the line that begins at pos and the beginning of the
// next. Lines end in LF, CR or CR LF (WHATWG HTML, server-sent events).
func LineAt(s string, pos int) (end, next int) {
	i := strings.IndexAny(s[pos:], "\r\n")
	if i < 0 {
		return len(s), len(s)
	}
	end = pos + i
	next = end + 1
	if s[end] == '\r' && next < len(s) && s[next] == '\n' {
		next++
	}
	return end, next
}

// eventData returns the name and the data of an event, and whether it has any
// data at all.
func eventData(chunk string) (name, data string, ok bool) {
	for pos := 0; pos < len(chunk); {
		end, next := LineAt(chunk, pos)
		field, value, _ := strings.Cut(chunk[pos:end], ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			if ok {
				data += "\n"
			}
			data, ok = data+value, true
		}
		pos = next
	}
	return name, data, ok
}

// WithData returns the event with its data replaced by one line.
func WithData(chunk, data string) string {
	var out strings.Builder
	written := false
	for pos := 0; pos < len(chunk); {
		end, next := LineAt(chunk, pos)
		if field, _, _ := strings.Cut(chunk[pos:end], ":"); field != "data" {
			out.WriteString(chunk[pos:next])
		} else if !written {
			out.WriteString("data: " + data + chunk[end:next])
			written = true
		}
		pos = next
	}
	return out.String()
}

// An Event is one event of a stream whose data is JSON.
type Event struct {
	Chunk int // which piece of the stream it is
	Name  string
	Data  Node
}

// JSONEvents returns the events whose data is a JSON object. Others, such as
// comments and the closing [DONE], are passed over; done says whether that one
// was there.
func JSONEvents(chunks []string) (events []Event, done bool) {
	for i, chunk := range chunks {
		name, data, ok := eventData(chunk)
		if !ok {
			continue
		}
		if strings.TrimSpace(data) == "[DONE]" {
			done = true
			continue
		}
		if n, err := ParseNode([]byte(data)); err == nil && n.Kind == '{' {
			events = append(events, Event{i, name, n})
		}
	}
	return events, done
}

// An eventWriter makes the events of a converted stream.
type eventWriter struct {
	chunks []string
	err    error
}

// write adds an event. An empty name leaves the event line out.
func (w *eventWriter) write(name string, data Node) {
	text, err := data.Canonical()
	if err != nil && w.err == nil {
		w.err = err
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	w.chunks = append(w.chunks, name+"data: "+string(text)+"\n\n")
}
