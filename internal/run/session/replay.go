package session

import (
	"context"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/replies"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// Replay answers model calls from a cassette, and what that misses from the library of
// replies. Either may be nil.
type Replay struct {
	Player *cassette.Player
	Kept   *replies.Shelf
}

// Call gives the recording of a request.
func (r *Replay) Call(_ context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	request, err := cassette.ModelRequest(api, body, nil)
	if err != nil {
		return nil, err
	}
	return r.next(request, onChunk)
}

func (r *Replay) next(request cassette.Request, onChunk func(string) error) (*cassette.Interaction, error) {
	asked := r.Kept.Ask(request)
	it, err := r.find(request, asked)
	asked.End(it)
	if err != nil {
		return nil, err
	}
	return it, GiveChunks(it, onChunk)
}

// find looks in the cassette first. What misses says how the cassette differs: the
// library tells nothing of what it has.
func (r *Replay) find(request cassette.Request, asked *replies.Asked) (it *cassette.Interaction, err error) {
	if err = errNoRecording(); r.Player != nil {
		it, err = r.Player.Next(request)
	}
	if !refusal.Is(err, refusal.CassetteMiss) {
		return it, err
	}
	if kept, kerr := asked.Find(); kept.Answer != nil || kerr != nil {
		return kept.Answer, kerr
	}
	return nil, err
}

func errNoRecording() error {
	return refusal.Newf(refusal.CassetteMiss, "the case has no recording, and the agent called a model").
		WithHint(`record one with "tally record CLASS --target TARGET --only-missing", or write the replies in the scenario`)
}

// GiveChunks gives a reply as the events of a stream, whether or not it was one.
func GiveChunks(it *cassette.Interaction, onChunk func(string) error) error {
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
	var err error
	if r.Stream != nil {
		if body, err = wire.BodyOfStream(m.API, r.Stream); err != nil {
			return strings.Join(r.Stream, ""), "broken"
		}
	}
	// Of a reply in another form than that of its API, the event has what can
	// be read; the agent is the one to complain.
	said, _ := wire.ReadReply(m.API, body)
	doc := trajectory.Said{Text: said.Shown()}
	for _, c := range said.Calls() {
		doc.Calls = append(doc.Calls, trajectory.SaidCall{Args: string(c.Args), Name: c.Name})
	}
	text, err = doc.Output()
	if err != nil {
		text = string(body)
	}
	return text, cutText(said.Stop, 60)
}
