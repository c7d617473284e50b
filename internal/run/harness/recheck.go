package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// books are what live models were asked and answered in one case, as this process saw
// it. A trajectory that was written elsewhere must tell the same.
type books struct {
	Recording

	mu    sync.Mutex
	clock int // of questions and answers
	calls []*booked

	state    *tools.State     // of the case's tools, where some are of MCP servers
	box      session.ToolBox  // that calls these
	policy   *policy.Enforcer // over these calls alone
	toolTurn sync.Mutex       // held while one is made
	tools    []*bookedTool
}

// A booked is one call.
type booked struct {
	request         digest.Content // of the canonical request
	about           cassette.Request
	provider        string
	it              *cassette.Interaction
	err             error
	asked, answered int  // when; answered is 0 until then
	told            bool // the trajectory tells of it
}

// Call asks, and writes down what was asked and answered.
func (b *books) Call(ctx context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	request, err := cassette.ModelRequest(api, body, nil)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.clock++
	c := &booked{request: digest.ContentOf(request.Canonical()), about: request, provider: api.Provider().Name, asked: b.clock}
	b.calls = append(b.calls, c)
	b.mu.Unlock()
	it, err := b.Recording.Call(ctx, api, body, onChunk)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock++
	c.it, c.err, c.answered = it, err, b.clock
	return it, err
}

// tell finds the call of a request of which a trajectory tells next. After is when the
// last call before it in the trajectory was answered: what was asked before that cannot
// come after it.
func (b *books) tell(request digest.Content, after int) (*booked, error) {
	for _, c := range b.calls {
		if c.request != request || c.told {
			continue
		}
		if c.asked < after {
			return nil, fmt.Errorf("%w in this order: the model was asked this before", session.ErrNotAsked)
		}
		c.told = true
		return c, nil
	}
	return nil, fmt.Errorf("%w: the model was asked %d times, and not this, or not so often", session.ErrNotAsked, len(b.calls))
}

// untold refuses a trajectory that leaves calls out.
func (b *books) untold() error {
	for i, c := range b.calls {
		if !c.told {
			return foreign("the trajectory leaves out model call %d of %d that were made for it", i+1, len(b.calls))
		}
	}
	for i, t := range b.tools {
		if !t.told {
			return foreign("the trajectory leaves out call %d of %d of tools that were made for it: %.100q", i+1, len(b.tools), t.name)
		}
	}
	return nil
}

// A bookReplay answers from the books, when the case is driven again.
type bookReplay struct{ b *books }

// Call gives what was answered to the same request.
func (r bookReplay) Call(_ context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	request, err := cassette.ModelRequest(api, body, nil)
	if err != nil {
		return nil, err
	}
	c, err := r.b.tell(digest.ContentOf(request.Canonical()), 0)
	if err != nil {
		return nil, refusal.Newf(refusal.CassetteMiss, "%w", err)
	}
	if c.err != nil {
		return nil, c.err
	}
	if onChunk != nil {
		for _, chunk := range c.it.Model.Response.Stream {
			if err := onChunk(chunk); err != nil {
				return nil, err
			}
		}
	}
	return c.it, nil
}

// driveAgain drives the reference agent here, and compares: it is a part of this program,
// and given the same replies does the same everywhere. What is graded and recorded is then
// what was driven here.
func (r *run) driveAgain(ctx context.Context, log []byte) (remove func(), err error) {
	again := &run{w: r.w, job: r.job, c: r.c, started: r.started, paused: r.c.Scenario.Test != nil, heard: r.heard, alone: true}
	again.job.Spool, again.job.Paid = nil, nil
	remove, err = again.prepare(ctx)
	if err != nil {
		return func() {}, err
	}
	if err := again.driveWithin(ctx); err != nil {
		return remove, err
	}
	again.result.Free() // the grader holds it
	if stop := again.result.Stop; stop != nil && stop.Kind == session.Broken {
		return remove, stop
	}
	if !bytes.Equal(again.result.Trajectory, log) {
		return remove, r.notSame(again.result.Trajectory, log)
	}
	if r.heard != nil {
		if err := r.heard.untold(); err != nil {
			return remove, err
		}
	}
	r.result, r.driven, r.folder, r.folderGone, r.s, r.player = again.result, again.driven, again.folder, false, again.s, again.player
	return remove, nil
}

// notSame says where a trajectory parts from the one that was driven here. A run that
// only broke off earlier, for its time or its machine, is not a lie: it is a case that the
// worker did not bring back.
func (r *run) notSame(own, theirs []byte) error {
	ours, others := bytes.SplitAfter(own, []byte{'\n'}), bytes.SplitAfter(theirs, []byte{'\n'})
	n := 0
	for n < len(ours) && n < len(others) && bytes.Equal(ours[n], others[n]) {
		n++
	}
	broke := 0 // events that only say that it did
	for _, line := range others[n:] {
		for _, kind := range []trajectory.Type{trajectory.ErrorType, trajectory.LimitReachedType, trajectory.RunFailedType} {
			if bytes.HasSuffix(line, []byte(`,"type":"`+string(kind)+"\"}\n")) {
				broke++
			}
		}
	}
	if broke > 0 && broke <= 3 && broke == len(others)-n-1 {
		return fmt.Errorf("%w: the run broke off on its machine after event %d, and did not here", ErrDriverLost, n)
	}
	at := func(lines [][]byte) string {
		if n < len(lines) && len(lines[n]) > 0 {
			return fmt.Sprintf("%.300s", bytes.TrimSpace(lines[n]))
		}
		return "nothing"
	}
	return foreign("event %d of the trajectory is %s; the same agent with the same replies gives %s", n+1, at(others), at(ours))
}

// reenact computes again what follows from the requests and calls of an agent.
func (r *run) reenact(v *trajectory.Verified) error {
	w, c := r.w, r.c
	start, err := c.Scenario.StartTime()
	if err != nil {
		return err
	}
	player := r.player
	if r.heard != nil { // a worker has no recording of a live case
		player = nil
	}
	box, err := tools.New(c.Scenario.Tools, "the folder of the agent", player, nil)
	if err != nil {
		return err
	}
	input := trajectory.NewContent([]byte(c.Scenario.Turns[0].Text), trajectory.PromptHead)
	cfg := session.Config{
		Run:   trajectory.RunStarted{Attempt: r.job.Attempt, Case: c.ID, Class: w.class, Target: w.cfg.Target.Name, Repeat: r.job.Repeat, Execution: r.job.Execution, Input: &input, Vantage: w.cfg.Target.Vantage()},
		Rules: w.rules, Start: start, Source: r.sourceOfReplies(), Tools: box, Limits: w.limits, Approvals: c.Scenario.Approvals,
	}
	ask := &asking{r: r}
	if own := r.authored(); own.Len() > 0 && r.heard == nil {
		ask.script = session.NewScript(own)
	}
	re := session.Reenactment{Contents: r.result.Contents, Ask: ask.ask, Answered: ask.answered, Estimated: ask.estimated, Cut: r.heard != nil}
	if r.heard != nil {
		re.Live = r.heard.tellTool
	}
	for _, t := range c.Scenario.Turns {
		re.Turns = append(re.Turns, t.Text)
	}
	stop, err := session.Reenact(cfg, v, re)
	if err != nil {
		if errors.Is(err, session.ErrHidden) {
			return fmt.Errorf("%w: %w", ErrDriverLost, err)
		}
		return foreign("the trajectory does not follow from the plan and its calls: %v", err)
	}
	if own := r.result.Stop; own != nil && stop != nil && stop.Name == own.Name {
		r.result.Stop = stop // it knows what would have helped
	}
	if r.heard != nil {
		return r.heard.untold()
	}
	return nil
}

// sourceOfReplies is where replies come from, in events.
func (r *run) sourceOfReplies() string {
	switch {
	case r.heard != nil:
		return "live"
	case r.authored().Len() > 0:
		return "authored"
	}
	return "cassette"
}

// An asking finds the replies to the model calls of which a trajectory tells.
type asking struct {
	r      *run
	script *session.Script
	after  int // when the last call that was told of was answered
}

func (a *asking) ask(p *trajectory.ModelCallStarted, prompt []byte, turn int) (*cassette.Interaction, error) {
	if a.r.heard != nil {
		c, err := a.r.heard.tell(p.Request, a.after)
		if err == nil && (cutName(c.about.Model) != p.Model || c.about.Messages != p.Messages || c.provider != p.Provider) {
			err = fmt.Errorf("%w: the request has %d messages for %.100q of %s", session.ErrNotAsked, c.about.Messages, c.about.Model, c.provider)
		}
		if err != nil {
			return nil, err
		}
		return c.it, c.err
	}
	api, request, err := requestOf(p, prompt)
	if err != nil {
		return nil, err
	}
	if a.script != nil {
		a.script.AtTurn(turn)
		return a.script.Call(context.Background(), api, prompt, nil)
	}
	if a.r.player == nil {
		return nil, refusal.Newf(refusal.CassetteMiss, "the case has no recording, and the agent called a model")
	}
	return a.r.player.Next(request)
}

// estimated reports whether the tokens of an authored reply are those of its request.
func (a *asking) estimated(it *cassette.Interaction, prompt []byte) bool {
	return a.script != nil && it.Model.Usage.InputTokens == int64(len(prompt)+3)/4
}

// answered notes that the trajectory has come to the answer of a call.
func (a *asking) answered(it *cassette.Interaction) {
	if a.r.heard == nil {
		return
	}
	for _, c := range a.r.heard.calls {
		if c.it == it {
			a.after = max(a.after, c.answered)
		}
	}
}

// requestOf makes a request again of its canonical form.
func requestOf(p *trajectory.ModelCallStarted, prompt []byte) (wire.API, cassette.Request, error) {
	if prompt == nil {
		return "", cassette.Request{}, session.ErrHidden
	}
	api, err := wire.Recognise(p.Provider, prompt)
	if err == nil {
		var request cassette.Request
		request, err = cassette.ModelRequest(api, prompt, nil)
		if err == nil && digest.ContentOf(request.Canonical()) == p.Request && cutName(request.Model) == p.Model && request.Messages == p.Messages && api.Provider().Name == p.Provider {
			return api, request, nil
		}
	}
	return "", cassette.Request{}, fmt.Errorf("%w: this is not a request to a model %.100q of %.40q", session.ErrNotAsked, p.Model, p.Provider)
}

// cutName is the name of a model as events have it.
func cutName(name string) string { return head(name, 200) }
