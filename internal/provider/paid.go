package provider

import (
	"fmt"

	"tallystick/internal/canon"
	"tallystick/internal/cassette"
	"tallystick/internal/journal"
	"tallystick/internal/wire"
)

// payer is for whom these calls are made.
func (l *Live) payer() journal.Payer {
	if l.cfg.Purpose == cassette.ForJudge {
		return journal.Judge
	}
	return journal.Agent
}

// recall finds the request among those of an earlier process; nil if it is none.
func (l *Live) recall(request cassette.Request) *journal.Call {
	if l.cfg.Journal == nil {
		return nil
	}
	return l.cfg.Journal.Recall(l.payer(), request.Key)
}

// recalled answers with the reply that an earlier process paid for, nil if none
// came.
func (l *Live) recalled(paid *journal.Call, request cassette.Request, onChunk func(string) error) (*cassette.Interaction, error) {
	if paid == nil {
		return nil, nil
	}
	text, err := paid.Reply()
	if err != nil || text == nil {
		return nil, err
	}
	var it cassette.Interaction
	if err := canon.UnmarshalCanonical(text, &it); err != nil {
		return nil, fmt.Errorf("reading a reply of the journal: %w", err)
	}
	kept, err := l.cfg.Recorder.Again(it, request)
	if err != nil {
		return nil, fmt.Errorf("a reply of the journal: %w", err)
	}
	l.count(func(s *Stats) { s.Recalled++ })
	return kept, passOn(kept, onChunk)
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

// replied has a reply on disk before anybody sees it.
func (c *call) replied(it *cassette.Interaction) error {
	if c.sent == nil {
		return nil
	}
	keyed := *it
	keyed.Key = c.asked.Key
	text, err := canon.Marshal(&keyed)
	if err != nil {
		return err
	}
	if it.Model.Response.Status >= 400 {
		return c.sent.Refused(text)
	}
	return c.sent.Reply(text, it.Model.CostMicrodollars)
}
