// Package judge asks a model whether an answer is good, and keeps what it said.
//
// A [Judge] puts a [Question] to a model as often as votes are wanted, with a
// fixed rubric and prompt, and reads in each reply the one JSON object that was asked
// for, whatever stands around it. What the votes come to, with every vote, the spread between
// them and the digests of everything that decided, is a [Document].
//
// What a caller may rely on:
//
//   - A judge that fails, or whose reply cannot be read, gives an opinion without a
//     score, with the reason and with what it said. It is never zero.
//   - No model is asked again because a reply could not be read. The reply is kept, and
//     is read again before a model is asked the same question.
//   - The answer reaches the model as one JSON value between markers that no author can write into an answer. An answer that imitates them, or holds a
//     verdict, is a finding.
//   - Every draw of a live model is handed to the ledger, with its number,
//     before its verdict is used or kept, the ones that failed too.
//   - A verdict from the [Cache] is used only if the key here signed it for
//     exactly this question, and it is the last draw that the ledger has.
//
// Where it stops: that a verdict is authentic says nothing about whether it is
// right. A model can be talked into something by an answer in plain prose. Who
// holds the cache's key and can write the ledger can make verdicts; who kills
// the process between a reply and its entry has seen a draw that is not in the
// ledger, though case.started is.
//
// docs/formats/judge.md states the formats.
package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/question"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

// maxMalformed is how many replies of a recording may not be a verdict before the draw
// is given up. Recordings have more than one where an earlier version asked again; a
// model is not. What the network does wrong is tried again by package provider.
const maxMalformed = 3

// maxAnswerBytes bounds what a judge is shown. A longer answer is the agent's
// doing and does not meet any criteria.
const maxAnswerBytes = 256 << 10

// A Mode says where verdicts come from.
type Mode string

// The modes.
const (
	// Live uses the cache, and asks the model if it has nothing. Each draw is
	// an entry of the ledger.
	Live Mode = "live"
	// Replay uses a recording, then the cache. Nothing is drawn.
	Replay Mode = "replay"
	// Record asks the model and nothing else, for a cassette. Nothing is
	// drawn: the ledger has an entry of each recording.
	Record Mode = "record"
)

// A Draw is one draw of a verdict, for the ledger.
type Draw struct {
	Attempt, CaseID string
	Number          int // of all draws of this question, from 1
	Key             digest.ID
	Verdict         digest.Content // of the document
}

// A Drawn is what the ledger has of a question: how many draws, and the last.
type Drawn struct {
	Count   int
	Verdict digest.Content
}

// Config is what a judge works with.
type Config struct {
	Settings *Settings
	Mode     Mode
	Cache    *Cache // nil for none

	// Drawn says what the ledger has of a question. Draw appends to it, and
	// returns when that is on disk. Live needs both. Without Drawn, in a
	// replay, a signature is enough for an entry of the cache.
	Drawn func(caseID string, key digest.ID) Drawn
	Draw  func(Draw) error

	// At says where a live judge is asked now: a verdict that came from elsewhere is
	// not used again. With nil nothing is compared.
	At func(wire.API) (evidence.Endpoint, bool)

	Now func() time.Time
}

// A Judge asks a model. It is safe for concurrent use.
type Judge struct {
	cfg Config

	mu   sync.Mutex
	busy map[digest.ID]chan struct{} // questions that are being asked
}

// New makes a judge.
func New(cfg Config) (*Judge, error) {
	if cfg.Settings == nil {
		return nil, refusal.Newf(refusal.Failed, "a judge needs its settings")
	}
	if cfg.Mode == Live && (cfg.Drawn == nil || cfg.Draw == nil || cfg.Now == nil || cfg.Cache == nil) {
		return nil, refusal.Newf(refusal.Failed, "a live judge needs a cache and the ledger that its draws go to")
	}
	return &Judge{cfg: cfg, busy: map[digest.ID]chan struct{}{}}, nil
}

// An Opinion is what came of a question.
type Opinion struct {
	Score    float64
	Votes    []float64 // in the order in which they were cast
	Reason   string
	Unscored string // why there is no score; Score then means nothing

	// Missing says that there is no score because no reply is recorded.
	Missing bool

	// Cached says that the verdict was drawn before, and Requests are those that
	// led to it.
	Cached   bool
	Requests [][]byte

	// Document is the draw; nil if no judge was asked.
	Document *Document
	// Choice is that of the verdict, if the judge chose from a scale.
	Choice string
	// Marked is how many claims or passages the judge marked in the vote that the
	// verdict is of, and Held how many of them hold.
	Marked, Held int
	// First and Second count the comparisons in which the judge preferred the same
	// place in both orders, of Compared.
	First, Second, Compared int

	Events []evidence.IntegrityEvent
	// Evidence is the document first, then what it names: the request and the
	// replies, as far as they are at hand.
	Evidence [][]byte
}

// Ask asks about one answer. Models answers the calls; it is nil if the case
// has neither a live model nor a recording. An error says that the judge could
// not do its work, as when the ledger cannot be written; that a model failed is
// an opinion.
func (j *Judge) Ask(ctx context.Context, q Question, models session.Models, source Source) (Opinion, error) {
	if len(q.Answer) > maxAnswerBytes {
		return Opinion{Reason: fmt.Sprintf("the answer has %d bytes, the most that is judged is %d", len(q.Answer), maxAnswerBytes)}, nil
	}
	asked, prepared, err := j.cfg.Settings.ask(&q)
	if err != nil {
		return Opinion{}, err
	}
	key, err := asked.Key()
	if err != nil {
		return Opinion{}, err
	}
	w := &work{judge: j, q: &q, asked: asked, key: key, prepared: prepared, models: models, source: source, signs: q.signs()}
	var found []evidence.IntegrityEvent
	if len(w.signs) > 0 {
		e, err := injectionEvent(asked, w.signs)
		if err != nil {
			return Opinion{}, err
		}
		found = append(found, e)
	}
	o, err := w.run(ctx)
	o.Events = append(found, o.Events...)
	return o, err
}

// A work is one question under way.
type work struct {
	judge *Judge
	q     *Question
	asked *Asked
	key   digest.ID
	*prepared
	models session.Models
	source Source
	signs  []Sign
	seen   int // replies that came

	kept    []Reply  // replies that were paid for in an earlier draw, used before a model is asked
	heard   []Reply  // of this draw
	sent    [][]byte // the requests that they answer
	rereads bool     // kept replies are all that there is
}

func (w *work) run(ctx context.Context) (Opinion, error) {
	j := w.judge
	switch j.cfg.Mode {
	case Record:
		w.source = FromCassette // that is where these replies go
		d, pieces, err := w.draw(ctx, 0)
		return w.opinion(d, pieces), err
	case Replay:
		return w.replay(ctx)
	}
	// One at a time for each question: the second finds the verdict of the
	// first, and the draws are numbered without gaps.
	free, err := j.claim(ctx, w.key)
	if err != nil {
		return Opinion{}, err
	}
	defer free()
	cached, events, err := w.cached(ctx)
	if err != nil || cached != nil {
		return w.fromCache(cached, events), err
	}
	o, err := w.live(ctx)
	o.Events = append(events, o.Events...)
	return o, err
}

// claim waits until no other caller asks the same question.
func (j *Judge) claim(ctx context.Context, key digest.ID) (free func(), err error) {
	for {
		j.mu.Lock()
		other, taken := j.busy[key]
		if !taken {
			mine := make(chan struct{})
			j.busy[key] = mine
			j.mu.Unlock()
			return func() {
				j.mu.Lock()
				delete(j.busy, key)
				j.mu.Unlock()
				close(mine)
			}, nil
		}
		j.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// replay answers from the recording, and from the cache if that has nothing.
func (w *work) replay(ctx context.Context) (Opinion, error) {
	missing := "no recorded verdict; run with --live or record"
	if w.models != nil {
		d, pieces, err := w.draw(ctx, 0)
		switch {
		case err == nil:
			return w.opinion(d, pieces), nil
		case !refusal.Is(err, refusal.CassetteMiss):
			return Opinion{}, err
		case w.seen > 0:
			missing = fmt.Sprintf("the recording has %d replies of the judge and lacks the next; run with --live or record", w.seen)
		}
	}
	cached, events, err := w.cached(ctx)
	if err != nil || cached != nil {
		return w.fromCache(cached, events), err
	}
	return Opinion{Unscored: missing, Missing: true, Events: events}, nil
}

// cached is the verdict in the cache, nil if there is none to be used.
func (w *work) cached(ctx context.Context) (*Document, []evidence.IntegrityEvent, error) {
	cfg := &w.judge.cfg
	if cfg.Cache == nil {
		return nil, nil, nil
	}
	key := w.key
	d, s, why, err := cfg.Cache.lookup(key)
	// A draw under the present key is the last one: an older verdict may not come back
	// because the entry of the newer was removed.
	if err == nil && s == absent && (cfg.Drawn == nil || cfg.Drawn(w.asked.CaseID, key).Count == 0) {
		var older bool
		if key, older, err = w.asked.asWritten(w.q.Criteria); err == nil && older {
			d, s, why, err = cfg.Cache.lookup(key)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if s == hit && cfg.Drawn != nil {
		if s, why, err = inLedger(d, cfg.Drawn(w.asked.CaseID, key)); err != nil {
			return nil, nil, err
		}
	}
	if s == hit && w.elsewhere(d) {
		return nil, nil, nil // the settings name another server, which is asked
	}
	if s == hit {
		d, err = w.reread(ctx, d)
		return d, nil, err
	}
	e, err := missEvent(w.q.Attempt, w.asked, key, s, why)
	if e == nil || err != nil {
		return nil, nil, err
	}
	return nil, []evidence.IntegrityEvent{*e}, nil
}

// reread reads kept replies again that came to no verdict: a later version may read what
// the one that paid for them could not. Nil says that they can be read now and more are
// needed, which a live judge asks for after using these.
func (w *work) reread(ctx context.Context, d *Document) (*Document, error) {
	if d.Verdict != nil {
		return d, nil
	}
	again := *w
	again.kept, again.rereads = slices.Clone(d.Replies), true
	read, _, err := again.draw(ctx, d.Draw)
	w.sent = again.sent
	switch {
	case refusal.Is(err, refusal.CassetteMiss) && w.judge.cfg.Mode == Live:
		w.kept = d.Replies
		return nil, nil
	case refusal.Is(err, refusal.CassetteMiss), err == nil && read.Verdict == nil:
		return d, nil
	case err != nil:
		return nil, err
	}
	read.DrawnAt, read.Endpoints, read.CostMicroUSD, read.Unpriced = d.DrawnAt, d.Endpoints, d.CostMicroUSD, d.Unpriced
	return read, nil
}

// elsewhere reports whether a verdict is not all from where the judge is asked now.
func (w *work) elsewhere(d *Document) bool {
	cfg := &w.judge.cfg
	if cfg.At == nil || cfg.Mode != Live {
		return false
	}
	now, ok := cfg.At(cfg.Settings.API)
	return !ok || len(d.Endpoints) != 1 || d.Endpoints[0] != now.URL()
}

// inLedger holds an entry against what the ledger has: an operator may have put
// back an older verdict that was signed as well.
func inLedger(d *Document, last Drawn) (state, string, error) {
	_, name, err := d.bytes()
	switch {
	case err != nil:
		return "", "", err
	case last.Count == 0:
		return unknown, "the ledger has no draw of this question", nil
	case name != last.Verdict:
		return superseded, fmt.Sprintf("it is draw %d, and the last of the %d draws in the ledger is another verdict", d.Draw, last.Count), nil
	}
	return hit, "", nil
}

func (w *work) fromCache(d *Document, events []evidence.IntegrityEvent) Opinion {
	if d == nil {
		return Opinion{Events: events}
	}
	o := w.opinion(d, nil)
	o.Cached, o.Events = true, events
	o.Requests, _ = w.requests(d) // without them, calls of an earlier process are made again
	if w.sent != nil {
		o.Requests = w.sent
	}
	return o
}

// live draws a verdict, records the draw, and keeps the verdict.
func (w *work) live(ctx context.Context) (Opinion, error) {
	cfg := &w.judge.cfg
	if w.models == nil {
		return Opinion{Unscored: "there is no live model to ask"}, nil
	}
	number := cfg.Drawn(w.asked.CaseID, w.key).Count + 1
	d, pieces, err := w.draw(ctx, number)
	if err != nil && w.seen == 0 {
		return Opinion{}, err // stopped before a reply was seen
	}
	text, name, berr := d.bytes()
	if berr != nil {
		return Opinion{}, berr
	}
	// The ledger comes first. A crash after it leaves a draw whose verdict is
	// not in the cache, and the next one has the next number; a crash before
	// it leaves nothing that could be used.
	if derr := cfg.Draw(Draw{w.q.Attempt, w.asked.CaseID, number, w.key, name}); derr != nil {
		return Opinion{}, derr
	}
	if err != nil {
		return Opinion{}, err
	}
	if d.Verdict != nil || len(d.Replies) > 0 {
		if err := cfg.Cache.put(w.key, text); err != nil {
			return Opinion{}, err
		}
	}
	return w.opinion(d, pieces), nil
}

// opinion is what a caller gets of a document.
func (w *work) opinion(d *Document, pieces [][]byte) Opinion {
	if d == nil {
		return Opinion{}
	}
	o := Opinion{Votes: d.Scores(), Reason: d.Reason(), Unscored: d.Unscored, Document: d}
	if d.Verdict != nil {
		o.Score = d.Verdict.Score
	}
	if text, _, err := d.bytes(); err == nil {
		o.Evidence = append(append(o.Evidence, text, w.first), pieces...)
	}
	o.describe(d)
	return o
}

// draw asks for every vote. The document is there also with an error, as far as
// it came: an error means that the calling was stopped, or that a recording has
// no more.
func (w *work) draw(ctx context.Context, number int) (*Document, [][]byte, error) {
	cfg := &w.judge.cfg
	d := &Document{Version: format.Version, Asked: *w.asked, Settings: cfg.Settings.Digest, Source: w.source, Votes: []Vote{}}
	if number > 0 {
		at := evidence.At(cfg.Now())
		d.Draw, d.DrawnAt, d.Source = number, &at, FromLive
	}
	var pieces [][]byte
	for len(d.Votes) < w.asked.Votes {
		v, ok, err := w.vote(ctx, d, &pieces)
		if err != nil || !ok {
			return d, pieces, err
		}
		d.Votes = append(d.Votes, v)
	}
	d.Verdict = verdictOf(d.Votes)
	return d, pieces, nil
}

// reply makes a call and reads what came. Ok is false if the draw ended without a vote,
// and the document then says why. A model is asked once: what it said was paid for, and
// that it could not be read is no reason to pay again. Of a recording the next reply is
// read.
func (w *work) reply(ctx context.Context, d *Document, pieces *[][]byte, body []byte, accept func(text string) error) (s said, ok bool, err error) {
	unread := ""
	for {
		r, ended, err := w.hear(ctx, d, body)
		if unread != "" && (ended || refusal.Is(err, refusal.CassetteMiss)) {
			d.Unscored = unread // the recording ends with a reply that is not a verdict
			return said{}, false, nil
		}
		if ended || err != nil {
			return said{}, false, err
		}
		if r.Text != "" {
			*pieces = append(*pieces, []byte(r.Text))
		}
		flaw := errors.New(r.Flaw)
		if r.Flaw == "" {
			flaw = accept(r.Text)
		}
		if flaw == nil {
			return said{r.Text, r.Model}, true, nil
		}
		d.reject(r.Text, flaw)
		unread = unreadText(r.Text, flaw)
		if !w.rereads && w.judge.cfg.Mode == Replay && len(d.Malformed) < maxMalformed {
			continue
		}
		d.Unscored = unread
		if d.Source == FromLive {
			d.Replies = w.heard
		}
		return said{}, false, nil
	}
}

// Bounds of what an unscored opinion shows. The evidence has the whole reply.
const (
	shownWhy   = 250
	shownReply = 600
)

// unreadText says why there is no verdict, and what the judge said instead.
func unreadText(reply string, flaw error) string {
	why := "its reply is not a verdict: " + cut(flaw.Error(), shownWhy)
	if strings.TrimSpace(reply) == "" {
		return why
	}
	return why + "; it said " + strconv.Quote(cut(reply, shownReply))
}

// hear gets the next reply to a request: one that was paid for in an earlier draw, or
// that of a call. Ended says that the call failed, and the document says how.
func (w *work) hear(ctx context.Context, d *Document, body []byte) (r Reply, ended bool, err error) {
	request := digest.ContentOf(body)
	if len(w.kept) > 0 && w.kept[0].Request == request {
		r, w.kept = w.kept[0], w.kept[1:]
		w.heard, w.sent = append(w.heard, r), append(w.sent, body)
		w.seen++
		return r, false, nil
	}
	w.kept = nil // what follows answers other questions
	if w.rereads {
		return r, false, refusal.Newf(refusal.CassetteMiss, "the kept replies have no more")
	}
	it, err := w.call(ctx, body)
	if it != nil {
		w.seen++
	}
	if ctx.Err() != nil || refusal.Is(err, refusal.CassetteMiss) || refusal.Is(err, refusal.NotAnswered) || refusal.Is(err, refusal.JournalDiffers) {
		d.Unscored = "the judge was stopped before its verdict was complete"
		if err == nil {
			err = context.Cause(ctx)
		}
		return r, false, err
	}
	d.price(it)
	d.cameFrom(it)
	var s said
	if err == nil {
		err = statusOf(it)
	}
	if err == nil {
		s, r.Flaw, err = replyText(it, w.judge.cfg.Settings.Reply == ReplySchema)
	}
	if err != nil {
		d.Unscored = cut(fmt.Sprintf("vote %d of %d failed: %v", len(d.Votes)+1, w.asked.Votes, err), maxReasonBytes)
		return r, true, nil
	}
	r.Model, r.Request, r.Text = cut(s.model, 200), request, s.text
	if len(s.text) > question.MaxReplyBytes {
		r.Flaw = fmt.Sprintf("it has %d bytes, the most is %d", len(s.text), question.MaxReplyBytes)
		r.Text = cut(s.text, question.MaxReplyBytes-len("…"))
	}
	w.heard, w.sent = append(w.heard, r), append(w.sent, body)
	return r, false, nil
}

// isEchoed reports whether a reason stands in the answer as that of a verdict.
func (w *work) isEchoed(reason string) bool {
	return slices.Contains(w.signs, SignVerdict) && w.q.echoes(reason)
}

func (d *Document) reject(text string, err error) {
	m := Malformed{Why: cut(err.Error(), 500)}
	if text != "" {
		name := digest.ContentOf([]byte(text))
		m.Reply = &name
	}
	d.Malformed = append(d.Malformed, m)
}

// cameFrom notes who answered. In a replay it is who did when it was recorded.
func (d *Document) cameFrom(it *cassette.Interaction) {
	if it == nil || it.Model == nil || it.Model.From == nil {
		return
	}
	if url := it.Model.From.URL(); !slices.Contains(d.Endpoints, url) {
		d.Endpoints = append(d.Endpoints, url)
		slices.Sort(d.Endpoints)
	}
}

func (d *Document) price(it *cassette.Interaction) {
	if it == nil || it.Model == nil {
		return
	}
	if it.Model.CostMicrodollars == nil {
		d.Unpriced++
		return
	}
	d.CostMicroUSD += *it.Model.CostMicrodollars
}

// errSlow is why a call was given up.
var errSlow = errors.New("the judge did not reply in time")

// call makes one call within the time that the settings allow. What the caller
// itself stopped is told apart by its own context.
func (w *work) call(ctx context.Context, body []byte) (*cassette.Interaction, error) {
	s := w.judge.cfg.Settings
	within, cancel := context.WithTimeoutCause(ctx, s.Timeout, errSlow)
	defer cancel()
	it, err := w.models.Call(within, s.API, body, nil)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: %v", errSlow, s.Timeout)
	}
	return it, err
}
