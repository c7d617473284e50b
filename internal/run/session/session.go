// Package session is the one place through which everything passes that an
// agent does in one case.
//
// The policy is asked before every action; the answer of a model or a tool
// comes from a recording, a fixture or a live provider; the trajectory gets an
// event before and after. Limits on turns, tokens, cost and time are kept here
// too. The built-in agent, the gateway that other people's agents talk to and
// the driver of HTTP agents act through a [Session] and have no other way.
//
// A case that must end now gives a [Stop], and then every later call gives the
// same one, so a driver that swallows it cannot go on.
//
// Time in a session is logical: the sum of the latencies that were recorded.
// The same replies give the same events on every machine. What an agent does
// inside its own process, without a model, a tool or a file, is not seen here.
package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// Models answers model calls: [Replay], [Script], or a live provider.
type Models interface {
	// Call answers one request, whose body is as the client sent it. OnChunk,
	// if not nil, is given the events of a streamed reply one by one.
	Call(ctx context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error)
}

// A TurnAware is a Models whose answers may depend on the turn of the session,
// which it is told before each call.
type TurnAware interface{ AtTurn(turn int) }

// A ToolBox executes tools: [tools.State], or one that records.
type ToolBox interface {
	Call(ctx context.Context, name string, args []byte) (tools.Result, error)
	Definitions() []tools.Definition
}

// RetryName is the name of a [trajectory.Failure] after which a driver makes the
// same call again. These are counted as retries.
const RetryName = "model_retry"

// Limits bound one case. Zero means no limit, but for those of the last line,
// which have defaults.
type Limits struct {
	Turns, Tokens, CostMicroUSD  int64
	Wall                         time.Duration // of logical time
	KeptBytes, Events, ReadBytes int64
}

// Config is what a case runs with.
type Config struct {
	// Run is the first event; its policy fields are filled in from Rules.
	Run   trajectory.RunStarted
	Rules *policy.Ruleset
	Start time.Time // logical date, for rules with a time window

	Models Models
	Source string // where replies come from, in events: cassette, authored or live
	Tools  ToolBox
	Web    Web // answers HTTP requests of the agent's program; nil if it may make none
	Limits Limits
	Folder *Folder // nil for an agent without files

	// Approvals are the case's answers. Person, if not nil, is asked when the
	// case has none; answered false means that no person is there.
	Approvals []scenario.Approval
	Person    func(ctx context.Context, q Question) (approve, answered bool, err error)

	// User, if not nil, says what comes after the case's turns, to what the agent
	// answered last. What it says and does, it records itself.
	User func(ctx context.Context, answer string) (UserTurn, error)

	// Memory is shared with the other cases of the attempt; nil for a case
	// that is alone.
	Memory *Memory

	// Redactor takes secrets out of what events show.
	Redactor *cassette.Redactor

	// Watch, if not nil, is shown every text that an event stands for, whole and
	// with its secrets, and the digest under which the event has it. It has no
	// say in what happens.
	Watch func(text string, known digest.Content, redacted bool)

	// Sink is given each line of the trajectory before anything else happens.
	// It must not keep the slice.
	Sink func(line []byte) error
}

// A Session is one case while it runs. It is safe for concurrent use.
type Session struct {
	cfg      Config
	enforcer *policy.Enforcer

	mu        sync.Mutex
	log       *trajectory.Log
	turn      int
	elapsed   time.Duration
	calls     int    // model and tool calls so far, for their ids
	lastModel string // the id of the last model call
	entries   int    // memory entries so far
	left      []int
	stop      *Stop
	ended     bool
	redactor  *cassette.Redactor // the config's, and secrets of this case
	hides     bool               // it knows a secret of this case
	encoded   []byte             // room for the payload of an event, which is looked through before it is written
	contents  map[digest.Content][]byte
	kept      int64 // bytes of evidence, as [Limits] count them
	read      int64 // bytes of the agent's requests
	seat      *seat
	counts    Counts
	classes   map[string]policy.Class
	trust     map[string]string
	plan      string
	answered  string // the agent's last words, as the user hears them
	seen      observer
	joined    *trajectory.Calls
	own       map[string]bool // tools of the driver itself

	folderLost bool // what became of the folder is not known, and an event says so
}

// Counts sums up a case for its record.
type Counts struct {
	Turns, Violations, Rollbacks, RollbacksIdentical, Retries int
	Tokens                                                    int64
	Cost                                                      cost.Cost
}

// CountsOf counts what a trajectory shows, as the session counted that wrote it. Calls
// that were cut off at its end are unpriced, which only the whole of it shows.
func CountsOf(v *trajectory.Verified) (n Counts) {
	spent := trajectory.SpendingOf(v)
	n.Tokens, _ = spent.Tokens()
	n.Cost = spent.Cost()
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.TurnStarted:
			n.Turns++
		case *trajectory.Failure:
			if p.Name == RetryName {
				n.Retries++
			}
		case *trajectory.PolicyViolation:
			n.Violations++
		case *trajectory.Rollback:
			n.Rollbacks++
			if p.Identical {
				n.RollbacksIdentical++
			}
		}
	}
	return n
}

// New begins a case: its first event is written.
func New(cfg Config) (*Session, error) {
	s, err := open(cfg, trajectory.NewLogWithEvents())
	if err != nil {
		return nil, err
	}
	return s, s.event(&s.cfg.Run)
}

// Continue takes a case over that a session elsewhere has paused: log is its trajectory,
// contents the texts of which its events have the beginning. The folder of the config
// holds what the agent left.
func Continue(cfg Config, log *trajectory.Log, contents map[digest.Content][]byte, plan string) (*Session, error) {
	s, err := open(cfg, log)
	if err != nil {
		return nil, err
	}
	v := log.Verified()
	for e := range v.Events() {
		s.joined.Add(&e)
	}
	s.turn, s.elapsed, s.counts, s.plan = v.Turns(), log.At(), CountsOf(v), plan
	s.keep(eventWeight * len(log.Bytes()))
	for d, text := range contents {
		s.keepWhole(d, text)
	}
	if f := cfg.Folder; f != nil {
		// What the agent left is told already, and nothing more will be.
		f.now, f.err = f.look(folderLimits)
		f.known = f.now
	}
	return s, nil
}

// open makes a session that writes to a log.
func open(cfg Config, log *trajectory.Log) (*Session, error) {
	enforcer, err := cfg.Rules.Enforcer(cfg.Start)
	if err != nil {
		return nil, err
	}
	cfg.Run.Format, cfg.Run.Governance = trajectory.Format, cfg.Rules.Policy().Mode
	cfg.Run.PolicyShort, cfg.Run.Policy = cfg.Rules.Hashes()
	cfg.Limits = cfg.Limits.withDefaults()
	s := &Session{cfg: cfg, joined: trajectory.NewCalls(), redactor: cfg.Redactor, seat: cfg.Memory.seat(), enforcer: enforcer, log: log, left: make([]int, len(cfg.Approvals)),
		contents: map[digest.Content][]byte{}, classes: map[string]policy.Class{}, trust: map[string]string{}, own: map[string]bool{}}
	for i, a := range cfg.Approvals {
		s.left[i] = a.Times
	}
	if cfg.Tools != nil {
		for _, d := range cfg.Tools.Definitions() {
			s.classes[d.Name], s.trust[d.Name] = d.Class, d.Trust
		}
	}
	return s, nil
}

// event writes one event. The caller holds the lock, or is New.
func (s *Session) event(p trajectory.Payload) error {
	if s.ended {
		return s.stopped()
	}
	turn := s.turn
	if _, ok := p.(*trajectory.TurnStarted); ok {
		turn++
	}
	p, encoded, err := s.clean(p)
	if err != nil {
		return s.unwritable(err)
	}
	if err := s.affords(p); err != nil {
		return err
	}
	line, err := s.log.AppendEncoded(turn, p, encoded, s.elapsed)
	if err != nil {
		return s.unwritable(err)
	}
	s.turn = turn
	if o, ok := p.(*trajectory.ToolObserved); !ok || o.Vantage != trajectory.Reported { // of a report it knows
		s.joined.Add(&trajectory.Event{Seq: s.log.Len(), Turn: turn, Payload: p})
	}
	s.keep(eventWeight * len(line))
	if s.cfg.Sink == nil {
		return nil
	}
	if err := s.cfg.Sink(line); err != nil {
		return s.halt(Broken, refusal.WriteFailed, fmt.Errorf("writing the trajectory: %w", err))
	}
	return nil
}

// clean is the last look before an event is written: whatever member of it holds a
// secret that was made known, in whatever spelling, has a marker there. Texts of
// which an event has a digest were cleaned before they were hashed.
func (s *Session) clean(p trajectory.Payload) (trajectory.Payload, canon.RawMessage, error) {
	if !s.hides {
		return p, nil, nil
	}
	data, err := canon.Append(s.encoded[:0], p)
	if err != nil {
		return nil, nil, err
	}
	s.encoded = data
	cleaned, err := s.redactor.Outgoing(data)
	if err != nil || bytes.Equal(cleaned, data) {
		return p, data, err
	}
	clean := trajectory.NewPayload(p.Type())
	return clean, nil, canon.Unmarshal(cleaned, clean)
}

// outgoing takes the secrets of this case out of what goes on to a model or a tool.
func (s *Session) outgoing(data []byte) ([]byte, error) {
	s.mu.Lock()
	r := s.redactor
	s.mu.Unlock()
	return r.Outgoing(data)
}

// content stands for a text in an event and keeps the whole of it, without its
// secrets, when the event has only its beginning.
func (s *Session) content(text string, limit int) trajectory.Content {
	safe := s.safe(text)
	c := trajectory.NewRedacted([]byte(text), []byte(safe), limit)
	if s.cfg.Watch != nil {
		s.cfg.Watch(text, c.Digest, c.Redacted)
	}
	if c.Truncated {
		s.keepWhole(c.Digest, []byte(safe))
	}
	return c
}

func (s *Session) keepWhole(d digest.Content, text []byte) {
	if _, had := s.contents[d]; had {
		return
	}
	s.contents[d] = text
	s.keep(len(text))
}

// args stands for the arguments of a call. Whole is what to keep of them if
// the call is made: nil if the event has everything.
func (s *Session) args(data []byte) (a trajectory.Args, whole []byte) {
	safe := s.safe(string(data))
	a = trajectory.NewRedactedArgs(data, []byte(safe))
	if s.cfg.Watch != nil {
		s.cfg.Watch(string(spelling(data)), a.Digest, a.Redacted)
	}
	if len(a.Cut) == 0 && (a.Raw == nil || !a.Raw.Truncated) {
		return a, nil
	}
	// The digest is that of the canonical spelling, if there is one.
	whole, err := canon.Canonicalize([]byte(safe))
	if err != nil || digest.ContentOf(whole) != a.Digest {
		whole = []byte(safe)
	}
	return a, whole
}

// spelling is what the digest of arguments is of: their canonical JSON, if there is
// one.
func spelling(args []byte) []byte {
	if len(args) == 0 {
		return []byte("{}")
	}
	if whole, err := canon.Canonicalize(args); err == nil {
		return whole
	}
	return args
}

func (s *Session) nextCall() string {
	s.calls++
	return "c" + strconv.Itoa(s.calls)
}

// enter takes the lock for an action of the agent.
func (s *Session) enter() error {
	s.mu.Lock()
	if s.stop != nil || s.ended {
		defer s.mu.Unlock()
		return s.stopped()
	}
	return nil
}

func (s *Session) stopped() error {
	if s.stop != nil {
		return s.stop
	}
	return &Stop{Kind: Broken, Name: refusal.Failed, Err: errors.New("the case has ended")}
}

// StartTurn begins a turn with what the user says.
func (s *Session) StartTurn(agent, input string) error { return s.startTurn(agent, input, "") }

func (s *Session) startTurn(agent, input string, by trajectory.Speaker) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if max := s.cfg.Limits.Turns; max > 0 && int64(s.turn) >= max {
		return s.limit("turns", max)
	}
	c := s.content(input, trajectory.PromptHead)
	if err := s.event(&trajectory.TurnStarted{Agent: agent, By: by, Input: &c}); err != nil {
		return err
	}
	s.counts.Turns++
	return nil
}

// CompleteTurn ends a turn with what the agent says.
func (s *Session) CompleteTurn(answer string) error { return s.CompleteScored(answer, nil) }

// CompleteScored ends a turn with the agent's answer and the scores that its own
// process gave it.
func (s *Session) CompleteScored(answer string, scores []trajectory.ReportedScore) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := s.noteFolder(); err != nil {
		return err
	}
	c := s.content(answer, trajectory.ArgumentHead)
	s.answered = s.safe(answer)
	for i := range scores {
		scores[i].Reason = cutText(s.safe(scores[i].Reason), maxReason)
	}
	return s.event(&trajectory.TurnCompleted{Answer: &c, Scores: scores})
}

// maxReason bounds what a reported score says of itself.
const maxReason = 2000

// Case is the id of the case that runs.
func (s *Session) Case() string { return s.cfg.Run.Case }

// Plan records what the agent means to do.
func (s *Session) Plan(text string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.plan = s.safe(text)
	return s.event(&trajectory.Plan{Text: s.content(text, trajectory.ArgumentHead)})
}

// ContextCompiled records what the context compiler did.
func (s *Session) ContextCompiled(p trajectory.ContextCompiled) error { return s.Event(&p) }

// Security records a sign of an attack.
func (s *Session) Security(p trajectory.SecurityEvent) error { return s.Event(&p) }

// Event records anything that needs no decision. The crossing of the gateway
// that stopped a case is recorded after the stop.
func (s *Session) Event(p trajectory.Payload) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, crossing := p.(*trajectory.TransportRequest); s.ended || s.stop != nil && !crossing {
		return s.stopped()
	}
	if f, ok := p.(*trajectory.Failure); ok && f.Name == RetryName {
		s.counts.Retries++
	}
	return s.event(p)
}

// Note stands for a text in an event that a driver makes itself, and keeps the
// whole of it.
func (s *Session) Note(text string, limit int) trajectory.Content {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content(text, limit)
}

// Tools lists the tools as a model may see them.
func (s *Session) Tools() []tools.Definition {
	if s.cfg.Tools == nil {
		return nil
	}
	return s.cfg.Tools.Definitions()
}

// Folder is the working folder on the host, "" if there is none.
func (s *Session) Folder() string {
	if s.cfg.Folder == nil {
		return ""
	}
	return s.cfg.Folder.Dir
}

// Elapsed is the logical time since the case began.
func (s *Session) Elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elapsed
}

// Model makes one model call.
func (s *Session) Model(ctx context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	if err := s.reads(len(body)); err != nil {
		return nil, err
	}
	// Before the key is computed: a secret of this case is another one in every run.
	body, err := s.outgoing(body)
	if err != nil {
		return nil, err
	}
	request, err := cassette.ModelRequest(api, body, s.cfg.Redactor)
	if err == nil && request.Model == "" {
		err = refusal.Newf(refusal.Malformed, "the request to %s names no model", api)
	}
	if err != nil {
		return nil, err // the agent's mistake: it may try another request
	}
	id, err := s.startModel(api, request, body)
	if err != nil {
		return nil, err
	}
	it, err := s.answer(ctx, api, body, request, onChunk)
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err != nil {
		return nil, s.modelFailed(id, err)
	}
	return it, s.modelDone(id, it)
}

func (s *Session) startModel(api wire.API, request cassette.Request, body []byte) (string, error) {
	if err := s.enter(); err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	if err := s.checkLimits(); err != nil {
		return "", err
	}
	id := s.nextCall()
	s.lastModel = id
	offered, definitions := s.newTools(api, body)
	err := s.event(&trajectory.ModelCallStarted{Call: id, Definitions: definitions, Files: s.newFiles(request.Canonical()), Messages: request.Messages, Model: cutText(request.Model, 200), Provider: api.Provider().Name,
		Prompt: s.content(string(request.Canonical()), trajectory.PromptHead), Request: digest.ContentOf(request.Canonical()), Tools: offered})
	if err != nil {
		return "", err
	}
	return id, s.observeRequest(id, api, body)
}

// answer gets the reply. A replay is given the canonical request, so that it is
// made once.
func (s *Session) answer(ctx context.Context, api wire.API, body []byte, request cassette.Request, onChunk func(string) error) (*cassette.Interaction, error) {
	if r, ok := s.cfg.Models.(*Replay); ok {
		return r.next(request, onChunk)
	}
	if m, ok := s.cfg.Models.(TurnAware); ok {
		m.AtTurn(s.turn)
	}
	if script, ok := s.cfg.Models.(*Script); ok {
		return script.next(api, request, body, onChunk)
	}
	if s.cfg.Models == nil {
		return nil, errNoRecording()
	}
	return s.cfg.Models.Call(ctx, api, body, onChunk)
}

// SentError is the error of a model call that was sent: it may have been billed, and how
// much is not known.
type SentError struct{ Err error }

func (e *SentError) Error() string { return e.Err.Error() }

func (e *SentError) Unwrap() error { return e.Err }

func wasSent(err error) bool {
	var sent *SentError
	return errors.As(err, &sent)
}

// spend counts what an event says was spent, for the limits and the policy.
func (s *Session) spend(p trajectory.Spender) {
	tokens, of := p.Spent()
	s.counts.Tokens += tokens
	s.counts.Cost = s.counts.Cost.Plus(of)
}

func (s *Session) modelFailed(id string, err error) error {
	name, detail := nameOf(err)
	failed := &trajectory.Failure{Call: id, Name: string(name), Detail: cutText(s.safe(detail), maxDetail), Unpriced: wasSent(err)}
	if eerr := s.event(failed); eerr != nil {
		return eerr
	}
	s.spend(failed)
	var stop *Stop
	if errors.As(err, &stop) {
		s.stop = stop
		return stop
	}
	if name == refusal.LimitReached { // of what the whole attempt may spend
		return s.halt(Truncated, name, err)
	}
	if name == refusal.ReplyInvalid { // what the agent would have done with it is not known
		return s.halt(Broken, name, err)
	}
	return s.halt(Failed, name, err)
}

func (s *Session) modelDone(id string, it *cassette.Interaction) error {
	m := it.Model
	latency := time.Duration(it.LatencyMS) * time.Millisecond
	s.elapsed += latency
	text, finish := replyText(m)
	source := s.cfg.Source
	if it.FromLibrary {
		source = "library"
	}
	done := &trajectory.ModelCallCompleted{Call: id, Unpriced: m.CostMicrodollars == nil, FinishReason: finish, LatencyMS: it.LatencyMS,
		Output: s.content(text, trajectory.ResultHead), Source: source, TokensIn: m.Usage.In(), TokensOut: m.Usage.OutputTokens}
	if m.CostMicrodollars != nil {
		done.CostMicroUSD = *m.CostMicrodollars
	}
	if m.Response.Status >= 400 {
		done.Error = "status " + strconv.FormatInt(m.Response.Status, 10)
	}
	if err := s.event(done); err != nil {
		return err
	}
	if err := s.observeReply(id, m); err != nil {
		return err
	}
	s.spend(done)
	violations, err := s.enforcer.Charge(id, policy.Usage{Executed: true, CostMicroUSD: done.CostMicroUSD, Unpriced: done.Unpriced, Tokens: m.Usage.Total(), Latency: latency})
	if err != nil {
		return s.halt(Broken, refusal.Failed, err)
	}
	if err := s.violated(violations); err != nil {
		return err
	}
	return nil
}

func (s *Session) violated(violations []policy.Violation) error {
	for _, v := range violations {
		s.counts.Violations++
		if err := s.event(&trajectory.PolicyViolation{Call: v.CallID, Rule: v.Rule, Text: cutText(s.safe(v.Text), maxDetail), Unprevented: v.Unprevented}); err != nil {
			return err
		}
	}
	return nil
}

// checkLimits stops a case that has used up what it may.
func (s *Session) checkLimits() error {
	l := s.cfg.Limits
	switch {
	case l.Tokens > 0 && s.counts.Tokens >= l.Tokens:
		return s.limit("tokens", l.Tokens)
	case l.CostMicroUSD > 0 && s.counts.Cost.MicroUSD >= l.CostMicroUSD:
		return s.limit("cost_microdollars", l.CostMicroUSD)
	case l.Wall > 0 && s.elapsed >= l.Wall:
		return s.limit("wall_clock_ms", l.Wall.Milliseconds())
	}
	return nil
}

// Limit ends the case because a limit that the caller keeps is reached.
func (s *Session) Limit(name string, max int64) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	return s.limit(name, max)
}

func (s *Session) limit(name string, max int64) error {
	if err := s.event(&trajectory.LimitReached{Limit: name, Max: max}); err != nil {
		return err
	}
	return s.halt(Truncated, refusal.LimitReached, LimitError(name, max))
}

// settings are the members of a class's registration that set a limit.
var settings = map[string]string{"turns": "limits.turns", "tokens": "limits.tokens", "cost_microdollars": "limits.cost_microdollars", "wall_clock_ms": "limits.wall_clock_seconds",
	"kept_bytes": "limits.kept_bytes", "events": "limits.events", "read_bytes": "limits.read_bytes"}

// LimitError says which limit stopped a case, and where it is set: a short registration
// does not show its limits.
func LimitError(name string, max int64) error {
	if setting := settings[name]; setting != "" {
		return fmt.Errorf("the limit of %d %s is reached (%s in the class's registration.yaml sets it)", max, name, setting)
	}
	return fmt.Errorf("the limit of %d %s is reached", max, name)
}

func (s *Session) safe(text string) string {
	safe, _ := s.redactor.Text(text)
	return safe
}

// named is the name of something in an event.
func (s *Session) named(name string) string { return cutText(s.safe(name), 200) }

// Hide makes a secret known that was made for this case, such as the token of
// its gateway. It is taken out of whatever is recorded from now on.
func (s *Session) Hide(secret string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hides && s.redactor.Knows(secret) {
		return nil
	}
	r, err := s.redactor.With(secret)
	if err == nil {
		s.redactor, s.hides = r, true
	}
	return err
}

// Safe is a text of the agent without secrets, fit to be kept and shown. Redact
// before cutting: half a secret has no shape.
func (s *Session) Safe(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.safe(text)
}
