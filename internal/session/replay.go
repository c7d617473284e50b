package session

import (
	"context"
	"strings"

	"tallystick/internal/canon"
	"tallystick/internal/cassette"
	"tallystick/internal/wire"
)

// Replay answers model calls from a cassette, and from nothing else.
type Replay struct{ Player *cassette.Player }

// Call gives the recording of a request.
func (r *Replay) Call(_ context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	request, err := cassette.ModelRequest(api, body, nil)
	if err != nil {
		return nil, err
	}
	return r.next(request, onChunk)
}

func (r *Replay) next(request cassette.Request, onChunk func(string) error) (*cassette.Interaction, error) {
	it, err := r.Player.Next(request)
	if err != nil {
		return nil, err
	}
	return it, giveChunks(it, onChunk)
}

func giveChunks(it *cassette.Interaction, onChunk func(string) error) error {
	if onChunk == nil {
		return nil
	}
	reply, err := it.Model.Reply(wire.Delivery{Stream: true, IncludeUsage: true})
	if err != nil {
		return err
	}
	for _, chunk := range reply.Stream {
		if err := onChunk(chunk); err != nil {
			return err
		}
	}
	return nil
}

// replyText gives a reply for the event: the text alone, or a JSON object with
// the tool calls.
func replyText(m *cassette.ModelCall) (text, finish string) {
	r := &m.Response
	if r.Status >= 400 || r.Body == nil && r.Stream == nil {
		return cutText(r.Text+string(r.Body), 64<<10), "error"
	}
	body := []byte(r.Body)
	if r.Stream != nil {
		var err error
		if body, err = wire.BodyOfStream(m.API, r.Stream); err != nil {
			return strings.Join(r.Stream, ""), "broken"
		}
	}
	// Of a reply in another form than that of its API, the event has what can
	// be read; the agent is the one to complain.
	said, _ := wire.ReadReply(m.API, body)
	text, finish = said.Shown(), cutText(said.Stop, 60)
	calls := said.Calls()
	if len(calls) == 0 {
		return text, finish
	}
	type call struct {
		Args string `json:"args"`
		Name string `json:"name"`
	}
	doc := struct {
		Text  string `json:"text,omitempty"`
		Calls []call `json:"tool_calls"`
	}{Text: text}
	for _, c := range calls {
		doc.Calls = append(doc.Calls, call{string(c.Args), c.Name})
	}
	out, err := canon.Marshal(doc)
	if err != nil {
		return string(body), finish
	}
	return string(out), finish
}
