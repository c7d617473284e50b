package journal

import (
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A Running is the journal of one execution of a case while it runs. It is safe for
// concurrent use.
type Running struct {
	j *Journal
	e Execution

	// Guarded by the journal's lock.
	left    []*call // of an earlier process, and not yet made again
	retries int     // of an earlier process
	unknown int64   // of these and the last tries, the agent's that may have been billed
	differs error   // why it is not the same execution
}

// Case begins or resumes an execution. If an earlier process made calls in it,
// that it is resumed is on disk before anything else happens.
func (j *Journal) Case(e Execution) (*Running, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &Running{j: j, e: e, left: slices.Clone(j.calls[e])}
	if len(c.left) == 0 {
		return c, nil
	}
	for _, k := range c.left {
		c.retries += k.tries - 1
		if k.payer == Agent {
			c.unknown += k.unknown
		}
	}
	return c, j.append(&Line{Kind: Resumed, Case: e.Case, Repeat: e.Repeat, Execution: e.Number, At: j.time()})
}

func (j *Journal) time() *evidence.Time {
	at := evidence.At(j.now())
	return &at
}

// Resumed is how often the execution was begun again from its journal.
func (c *Running) Resumed() int {
	if c == nil {
		return 0
	}
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	return c.j.again[c.e]
}

// Retries is how many tries of earlier processes came to nothing.
func (c *Running) Retries() int {
	if c == nil {
		return 0
	}
	return c.retries
}

// Unanswered is how many tries of the agent's calls, by earlier processes, were sent
// and may have been billed.
func (c *Running) Unanswered() int64 {
	if c == nil {
		return 0
	}
	return c.unknown
}

// A Call is one request of the execution, to be answered from the journal or to
// be sent.
type Call struct {
	c *Running
	k *call
}

// Recall finds the request of an earlier process that this one repeats, nil if
// there is none. Of equal requests the first gets the first.
func (c *Running) Recall(p Payer, request digest.ID) *Call {
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	if c.differs != nil {
		return nil
	}
	for i, k := range c.left {
		if k.payer == p && k.request == request {
			c.left = slices.Delete(c.left, i, i+1)
			return &Call{c, k}
		}
	}
	return nil
}

// Call begins a request that no earlier process made. Nothing new is sent before
// every request of the journal was made again: it is refused then, and the
// execution is not the same any more.
func (c *Running) Call(p Payer, request digest.ID) (*Call, error) {
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	if err := c.equalled(p); err != nil {
		return nil, err
	}
	return &Call{c, &call{payer: p, request: request}}, nil
}

// Settle says that a request of an earlier process need not be made again, since
// what came of it is kept elsewhere: the verdict of a judge.
func (c *Running) Settle(p Payer, request digest.ID) {
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	c.left = slices.DeleteFunc(c.left, func(k *call) bool { return k.payer == p && k.request == request })
}

// Differs is why the execution is not the same any more, nil if it may be.
func (c *Running) Differs() error {
	if c == nil {
		return nil
	}
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	return c.differs
}

// Equalled refuses an execution that did not make every request of its journal
// again: what came of it is not what the earlier process began.
func (c *Running) Equalled(p Payer) error {
	if c == nil {
		return nil
	}
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	return c.equalled(p)
}

func (c *Running) equalled(p Payer) error {
	if c.differs != nil {
		return c.differs
	}
	for _, k := range c.left {
		if k.payer == p {
			c.differs = c.differing("the %s went another way than before it was interrupted: it did not make call %d of the journal again", p, k.number)
			return c.differs
		}
	}
	return nil
}

// Ended says that the agent has come to its end, before its work is graded. An
// execution that an earlier process had brought as far must have the same
// trajectory: an operator who saw how it ended cannot have it end otherwise.
func (c *Running) Ended(trajectory digest.ID) error {
	if c == nil {
		return nil
	}
	j := c.j
	j.mu.Lock()
	defer j.mu.Unlock()
	was, before := j.ended[c.e]
	switch {
	case len(j.calls[c.e]) == 0:
		return nil // it is never resumed
	case !before:
		return j.append(&Line{Kind: Ended, Case: c.e.Case, Repeat: c.e.Repeat, Execution: c.e.Number, Trajectory: &trajectory, At: j.time()})
	case was != trajectory:
		c.differs = c.differing("its trajectory is %s, and was %s when it ended before it was interrupted", trajectory, was)
		return c.differs
	}
	return nil
}

// PutAway says that what came of the execution is kept, so that it is not resumed.
// One that paid for nothing leaves no line.
func (c *Running) PutAway() error { return c.done("") }

// GiveUp says that the execution is not resumed any more, and why.
func (c *Running) GiveUp(reason string) error { return c.done(reason) }

func (c *Running) done(reason string) error {
	if c == nil {
		return nil
	}
	j := c.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.calls[c.e]) == 0 {
		return nil
	}
	return j.append(&Line{Kind: Done, Case: c.e.Case, Repeat: c.e.Repeat, Execution: c.e.Number, Reason: reason, At: j.time()})
}

func (c *Running) differing(format string, args ...any) error {
	return refusal.Newf(refusal.JournalDiffers, "case %s, execution %d: "+format, append([]any{c.e.Case, c.e.Number}, args...)...).
		WithHint("the case is started again as execution %d; what this one paid stays in the books", c.e.Number+1)
}

// Unknown reports whether an earlier process sent the call and its outcome is
// unknown.
func (k *Call) Unknown() bool {
	k.c.j.mu.Lock()
	defer k.c.j.mu.Unlock()
	return k.k.tries > 0 && !k.k.replied
}

// Reply is the interaction that an earlier process got, nil if none came.
func (k *Call) Reply() (canon.RawMessage, error) {
	j := k.c.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if !k.k.replied {
		return nil, nil
	}
	data, err := j.file.Read(k.k.at, k.k.size)
	if err != nil {
		return nil, err
	}
	l, err := parseLine(data)
	if err != nil {
		return nil, err
	}
	return l.Interaction, nil
}

// A Sent is one try of a call, whose intent is on disk.
type Sent struct {
	c      *Running
	intent int
}

// Send writes that the call is about to be sent. Ceiling is the most that it can
// cost, nil if that is not known. After an error nothing may be sent.
func (k *Call) Send(api, model string, ceiling *int64) (*Sent, error) {
	j, e := k.c.j, k.c.e
	j.mu.Lock()
	defer j.mu.Unlock()
	if k.k.number == 0 {
		k.k.number = len(j.calls[e]) + 1
	}
	l := &Line{Kind: Intent, Case: e.Case, Repeat: e.Repeat, Execution: e.Number, Call: k.k.number, Try: 1, Pays: k.k.payer,
		API: api, Model: model, Request: &k.k.request, Ceiling: ceiling, At: j.time()}
	if c := j.callOf(l); c != nil {
		l.Try = c.tries + 1
	}
	if err := j.append(l); err != nil {
		return nil, err
	}
	return &Sent{k.c, l.Line}, nil
}

// Reply writes what came, before a caller sees it. Cost is nil if it is not
// known.
func (s *Sent) Reply(interaction canon.RawMessage, cost *int64) error {
	return s.write(&Line{Kind: Reply, Interaction: interaction, Cost: cost})
}

// Refused writes a reply with an error status, which is seen like any other and
// is not billed.
func (s *Sent) Refused(interaction canon.RawMessage) error {
	return s.write(&Line{Kind: Reply, Interaction: interaction, Outcome: Refused})
}

// Failed writes that nothing came that could be kept.
func (s *Sent) Failed(o Outcome, reason string) error {
	return s.write(&Line{Kind: Failed, Outcome: o, Reason: reason})
}

func (s *Sent) write(l *Line) error {
	j := s.c.j
	j.mu.Lock()
	defer j.mu.Unlock()
	l.Intent, l.At = s.intent, j.time()
	return j.append(l)
}
