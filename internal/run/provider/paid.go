package provider

import (
	"fmt"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/replies"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

// payer is for whom these calls are made.
func (l *Live) payer() journal.Payer {
	switch l.cfg.Purpose {
	case cassette.ForJudge:
		return journal.Judge
	case cassette.ForUser:
		return journal.User
	}
	return journal.Agent
}

// recall finds the request among those of an earlier process; nil if it is not
// there.
func (l *Live) recall(request cassette.Request) *journal.Call {
	if l.cfg.Journal == nil {
		return nil
	}
	return l.cfg.Journal.Recall(l.payer(), request.Key)
}

// recalled answers with the reply that an earlier process paid for, nil if none
// came. That process may have been killed before the reply was in the library.
func (l *Live) recalled(paid *journal.Call, request cassette.Request, asked *replies.Asked, onChunk func(string) error) (*cassette.Interaction, error) {
	if paid == nil {
		return nil, nil
	}
	kept, err := keptReply(paid, request, l.cfg.Recorder, l.cfg.Access.Settings)
	if kept == nil || err != nil {
		return nil, err
	}
	if err := asked.Keep(kept, true); err != nil {
		return nil, err
	}
	l.count(func(s *Stats) { s.Recalled++ })
	return kept, session.GiveChunks(kept, onChunk)
}

// Settle says that the verdict on a judge's question is kept, so that the calls
// of an earlier process which led to it are not made again.
func (l *Live) Settle(api wire.API, body []byte) error {
	if l.cfg.Journal == nil {
		return nil
	}
	request, err := cassette.ModelRequest(api, body, l.cfg.Access.Redactor())
	if err == nil {
		l.cfg.Journal.Settle(l.payer(), request.Key)
	}
	return err
}

// begin gives a call that is new its place in the journal.
func (c *call) begin() (err error) {
	l := c.live
	if l.cfg.Journal != nil && c.paid == nil {
		c.paid, err = l.cfg.Journal.Call(l.payer(), c.asked.Key)
	}
	return err
}

// intend has the next try on disk before it is sent.
func (c *call) intend() (err error) {
	if c.paid == nil {
		return nil
	}
	var ceiling *int64
	if c.bounded {
		ceiling = &c.most
	}
	c.sent, err = c.paid.Send(string(c.api), c.asked.Model, ceiling)
	return err
}

// failed notes a try that gave nothing to keep.
func (c *call) failed(r *reply) error {
	if c.sent == nil {
		return nil
	}
	outcome := journal.Unknown
	switch {
	case !r.sent:
		outcome = journal.NotSent
	case r.status >= 400:
		outcome = journal.Refused
	}
	return c.sent.Failed(outcome, r.reason())
}

// replied has a reply on disk before a caller sees it.
func (c *call) replied(it *cassette.Interaction) error {
	if c.sent == nil {
		return nil
	}
	text, err := keyed(it, c.asked)
	if err != nil {
		return err
	}
	if it.Model.Response.Status >= 400 {
		return c.sent.Refused(text)
	}
	return c.sent.Reply(text, it.Model.CostMicrodollars)
}

// recall finds a call of a tool among those of an earlier process, and the answer if
// one came. Only calls of tools are in the journal: to shake hands and to list tools
// changes nothing, and a server that was started again needs both.
func (t *LiveTools) recall(method string, request cassette.Request) (*journal.Call, *cassette.Interaction, error) {
	if t.cfg.Journal == nil || method != "tools/call" {
		return nil, nil, nil
	}
	made := t.cfg.Journal.Recall(journal.Tool, request.Key)
	if made == nil {
		return nil, nil, nil
	}
	it, err := keptReply(made, request, t.cfg.Recorder, t.cfg.Access.Settings)
	return made, it, err
}

// intend has a call of a tool on disk before it is sent.
func (t *LiveTools) intend(made *journal.Call, server, method string, request cassette.Request) (sent *journal.Sent, err error) {
	if t.cfg.Journal == nil || method != "tools/call" {
		return nil, nil
	}
	if made == nil {
		if made, err = t.cfg.Journal.Call(journal.Tool, request.Key); err != nil {
			return nil, err
		}
	}
	return made.Send("mcp", server, nil)
}

// answered has the answer of a tool on disk before a caller sees it.
func answered(sent *journal.Sent, request cassette.Request, it *cassette.Interaction) error {
	if sent == nil {
		return nil
	}
	text, err := keyed(it, request)
	if err != nil {
		return err
	}
	return sent.Reply(text, nil)
}

// keptReply is the answer that an earlier process got, kept again; nil if none came.
func keptReply(made *journal.Call, request cassette.Request, recorder *cassette.Recorder, settings *Settings) (*cassette.Interaction, error) {
	text, err := made.Reply()
	if err != nil || text == nil {
		return nil, err
	}
	var it cassette.Interaction
	if err := canon.UnmarshalCanonical(text, &it); err != nil {
		return nil, fmt.Errorf("reading a reply of the journal: %w", err)
	}
	if settings.Elsewhere(&it, cassette.Recorded) {
		return nil, refusal.Newf(refusal.JournalDiffers, "a reply of the journal %s", settings.CameFrom(&it)).
			WithHint("put base_url in %s back to resume, or begin a new attempt", SettingsFile)
	}
	kept, err := recorder.Again(it, request)
	if err != nil {
		return nil, fmt.Errorf("a reply of the journal: %w", err)
	}
	return kept, nil
}

// keyed is an interaction as the journal has it: with the key of the request.
func keyed(it *cassette.Interaction, request cassette.Request) (canon.RawMessage, error) {
	with := *it
	with.Key = request.Key
	return canon.Marshal(&with)
}
