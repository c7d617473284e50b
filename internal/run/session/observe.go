package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
	"tallystick/internal/run/wire"
)

// An observer sees tool calls in what the agent and its model say to each
// other. It is the only view of tools that an agent runs in its own process.
//
// It trusts neither side: an agent may send its history again as it was, cut it,
// or write it anew, with other ids, with the same id for two calls, or with
// results of calls that no model asked for. So every call of every reply is an
// event, and a result is one unless it was seen before.
type observer struct {
	offered  map[string]digest.Content // the last definition of each tool
	proposed map[string]int            // how often a call was asked for
	results  map[string]*known         // by call
	byID     map[string]wire.Call
	spans    map[string]int // how many spans told of a call
	files    map[digest.Content]bool
}

// known is what was seen of the results of one call: id, name and arguments.
type known struct {
	most     int // how many stood in one request
	reported int
	texts    map[digest.Content]bool
}

// maxOffered bounds the tools that one event lists, and maxDefinitions the heads of
// their definitions together: beyond it each has a few bytes and its digest.
const (
	maxOffered     = 4096
	maxDefinitions = 128 << 10
	leastHead      = 32
)

// newTools are the tools that a request offers and none before it did, and the
// definitions that no request before it had: a tool may be told of in other words
// later on. A second tool of the same name in one request counts as another one.
func (s *Session) newTools(api wire.API, request []byte) (names []string, definitions map[string]trajectory.Content) {
	offered, err := wire.OfferedTools(api, request)
	if err != nil {
		return nil, nil // observeRequest says so
	}
	o := &s.seen
	if o.offered == nil {
		o.offered = map[string]digest.Content{}
	}
	times, room := map[string]int{}, maxDefinitions
	for _, t := range offered {
		name := cutText(s.safe(t.Name), 200)
		times[name]++
		again := times[name] > 1
		if again {
			name = fmt.Sprintf("%s (%d)", name, times[name])
		}
		safe := []byte(s.safe(string(t.Definition)))
		was, known := o.offered[name]
		if known && was == digest.ContentOf(safe) || len(definitions) == maxOffered {
			continue
		}
		if !known && !again {
			names = append(names, name)
		}
		limit := trajectory.DefinitionHead
		if limit > room {
			limit = leastHead
		}
		c := trajectory.NewRedacted(t.Definition, safe, limit)
		room -= len(c.Head)
		if definitions == nil {
			definitions = map[string]trajectory.Content{}
		}
		o.offered[name], definitions[name] = c.Digest, c
	}
	return names, definitions
}

// maxFiles bounds the files that one event lists.
const maxFiles = 256

// newFiles are the images and documents that a request holds and none before it did.
// Each is kept once, however many requests repeat it.
func (s *Session) newFiles(request []byte) (files []trajectory.SentFile) {
	for _, f := range wire.FilesOf(request) {
		data := []byte(s.safe(string(f.Data)))
		d := digest.ContentOf(data)
		if s.seen.files[d] || len(files) == maxFiles {
			continue
		}
		if s.seen.files == nil {
			s.seen.files = map[digest.Content]bool{}
		}
		s.seen.files[d] = true
		kind := plain.Line(cutText(s.safe(f.Type), 200))
		files = append(files, trajectory.SentFile{Bytes: int64(len(data)), Digest: d, Type: cmp.Or(kind, "unknown")})
		s.keepWhole(d, data)
	}
	return files
}

// observeRequest records the results that the agent sends back. The built-in
// agent has nothing to report: whatever it does goes through the session.
func (s *Session) observeRequest(call string, api wire.API, body []byte) error {
	if s.cfg.Run.Vantage == vantage.Inside {
		return nil
	}
	_, results, err := wire.ToolsOf(api, body)
	if err != nil {
		return s.unread(call, "the request", err)
	}
	count := map[string]int{}
	for i := range results {
		r := &results[i]
		if c, ok := s.seen.byID[r.ID]; ok && r.Name == "" && r.ID != "" {
			r.Name, r.Args = c.Name, c.Args // the provider keeps the conversation
		}
		key := callKey(wire.Call{ID: r.ID, Name: r.Name, Args: r.Args})
		if count[key]++; !s.seen.isNews(key, r.Sent, count[key]) || s.own[r.Name] {
			continue
		}
		if err := s.observed(call, trajectory.Reported, wire.Call{ID: r.ID, Name: r.Name, Args: r.Args}, r); err != nil {
			return err
		}
	}
	return nil
}

// Reported records what an agent says by itself that it did, in a span of its own
// instrumentation. It is judged as a result is that the agent sends back to its
// model, and what was seen in one of these two ways is not recorded again in the
// other. Model calls are seen elsewhere, so that nobody need say anything of them.
func (s *Session) Reported(r wire.Result) error {
	if s.cfg.Run.Vantage == vantage.Inside {
		return nil
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	c := s.seen.askedFor(wire.Call{ID: r.ID, Name: r.Name, Args: r.Args})
	key := callKey(c)
	if s.seen.spans == nil {
		s.seen.spans = map[string]int{}
	}
	if s.seen.spans[key]++; !s.seen.isNews(key, r.Sent, s.seen.spans[key]) || s.own[c.Name] {
		return nil
	}
	return s.observed(cmp.Or(s.lastModel, spanCall), trajectory.Reported, c, &r)
}

// askedFor is a call of which a span tells, as the model asked for it. Many spans
// leave out the id or the arguments; what they tell of is then the first such call
// that no span before it told of.
func (o *observer) askedFor(c wire.Call) wire.Call {
	if c.ID == "" {
		for _, id := range slices.Sorted(maps.Keys(o.byID)) {
			asked := o.byID[id]
			same := wire.Call{Name: c.Name, Args: c.Args}
			if len(c.Args) == 0 {
				same.Args = asked.Args
			}
			if o.spans[callKey(asked)] == 0 && callKey(wire.Call{Name: asked.Name, Args: asked.Args}) == callKey(same) {
				return asked
			}
		}
		return c
	}
	if asked, ok := o.byID[c.ID]; ok && len(c.Args) == 0 {
		c.Name, c.Args = cmp.Or(c.Name, asked.Name), asked.Args
	}
	return c
}

// spanCall stands for the model call in which a report was seen, if there was none
// before it.
const spanCall = "span"

// isNews reports whether a result is one that was not seen before: there are
// more of its call in this request than in any before it, or the call was asked
// for again and this is another text. Another text alone is an old result that
// the agent shortened.
func (o *observer) isNews(key, text string, nth int) bool {
	if o.results == nil {
		o.results = map[string]*known{}
	}
	k := o.results[key]
	if k == nil {
		k = &known{texts: map[digest.Content]bool{}}
		o.results[key] = k
	}
	d := digest.ContentOf([]byte(text))
	news := nth > k.most || !k.texts[d] && o.proposed[key] > k.reported
	k.most, k.texts[d] = max(k.most, nth), true
	if news {
		k.reported++
	}
	return news
}

// observeReply records the calls that a reply asks for, and those that the
// provider carried out while it answered.
func (s *Session) observeReply(call string, m *cassette.ModelCall) error {
	r := &m.Response
	if r.Status >= 400 || string(r.Body) == "{}" || !m.API.Converses() {
		return nil // an error asks for nothing, nor does what says nothing
	}
	var reply wire.Reply
	var err error
	if r.Stream != nil {
		reply, err = wire.ReadStream(m.API, r.Stream)
	} else {
		reply, err = wire.ReadReply(m.API, r.Body)
	}
	if err != nil {
		if err := s.unread(call, "the reply", err); err != nil {
			return err
		}
	}
	for _, c := range reply.AllCalls() {
		s.seen.ask(c)
		if s.own[c.Name] {
			continue
		}
		if err := s.observed(call, trajectory.Proposed, c, nil); err != nil {
			return err
		}
	}
	for _, served := range reply.Served() {
		if err := s.observed(call, trajectory.Reported, wire.Call{ID: served.ID, Name: served.Name, Args: served.Args}, &served); err != nil {
			return err
		}
	}
	return nil
}

func (o *observer) ask(c wire.Call) {
	if o.proposed == nil {
		o.proposed, o.byID = map[string]int{}, map[string]wire.Call{}
	}
	o.proposed[callKey(c)]++
	if c.ID != "" {
		o.byID[c.ID] = c
	}
}

// callKey tells two calls apart. The same arguments in another spelling are the
// same.
func callKey(c wire.Call) string {
	args, ok := wire.ArgumentsObject(c.Args)
	if !ok {
		args = c.Args
	}
	key := c.ID + "\x00" + c.Name + "\x00" + string(args)
	if len(key) > 256 { // these are kept until the case ends
		return digest.ContentOf([]byte(key)).String()
	}
	return key
}

func (s *Session) observed(call string, v trajectory.Vantage, c wire.Call, r *wire.Result) error {
	args := c.Args
	if object, ok := wire.ArgumentsObject(args); ok {
		args = object
	}
	known, whole := s.args(args)
	s.keepArgs(whole)
	p := &trajectory.ToolObserved{Args: known, Call: call, ID: shortID(s.safe(c.ID)), Name: s.named(c.Name), Vantage: v}
	if r == nil {
		return s.event(p)
	}
	result := s.content(r.Sent, trajectory.ResultHead)
	p.Result, p.Error = &result, r.IsError
	made := s.joined.Report(&trajectory.Event{Seq: s.log.Len() + 1, Turn: s.turn, Payload: p}, p)
	return s.judge(c, args, p, &made)
}

// judge asks the policy about a call whose result the agent sent back, unless
// it was asked when the call came here. Whichever party made the call, it has
// happened: what is not permitted is a violation that was seen and not
// prevented.
func (s *Session) judge(c wire.Call, args []byte, p *trajectory.ToolObserved, made *trajectory.ToolCall) error {
	if made.Call != "" {
		if err := s.event(p); err != nil || !made.Defied() {
			return err
		}
		return s.violated([]policy.Violation{s.enforcer.Defied(made.Call, c.Name)})
	}
	p.Judged = s.nextCall()
	if err := s.event(p); err != nil {
		return err
	}
	call := s.policyCall(p.Judged, c.Name, args)
	// A result answers the call whose id it has, whatever the agent calls it now: what
	// the model asked for is judged if it is the worse of the two.
	if asked, ok := s.seen.byID[c.ID]; ok && c.ID != "" && s.enforcer.Would(call).Permits() {
		if first := s.policyCall(p.Judged, asked.Name, asked.Args); !s.enforcer.Would(first).Permits() {
			call = first
		}
	}
	d, violations := s.enforcer.Observe(call)
	decision := s.decided(call, d)
	decision.Name = cmp.Or(decision.Name, unnamed)
	if err := s.event(decision); err != nil {
		return err
	}
	return s.violated(violations)
}

// policyCall is a call of the agent's own, as the policy looks at it.
func (s *Session) policyCall(id, seen string, args []byte) policy.Call {
	name := s.caseTool(seen)
	class, known := s.classes[name]
	call := policy.Call{ID: id, Action: policy.Tool, Name: name, Class: class, Known: known, Turn: s.turn, At: s.elapsed}
	if object, ok := wire.ArgumentsObject(args); ok {
		call.Args = object
	}
	return call
}

// unnamed stands for the name of a tool that neither side named. The policy denies
// such a call: it may be of any tool.
const unnamed = "(not named)"

// caseTool is the name that the case has for a tool that a client shows under a
// longer one, or else the name as it is.
func (s *Session) caseTool(seen string) string {
	best := ""
	for name := range s.classes {
		if trajectory.SameTool(seen, name) && len(name) > len(best) {
			best = name
		}
	}
	return cmp.Or(best, seen)
}

// maxIDBytes is how much of a provider's id an event has. Real ones are shorter.
const maxIDBytes = 128

// shortID cuts an id so that two ids stay two.
func shortID(id string) string {
	if len(id) <= maxIDBytes {
		return id
	}
	return cutText(id, maxIDBytes) + " " + digest.ContentOf([]byte(id)).String()
}

// unread records that calls may have been made here that cannot be seen.
func (s *Session) unread(call, what string, err error) error {
	detail := "tool calls in " + what + " cannot be read: " + refusal.Of(err).Error()
	return s.event(&trajectory.Failure{Call: call, Name: trajectory.CallsUnread, Detail: cutText(s.safe(detail), maxDetail)})
}

// OwnTools names tools of the driver itself, such as the built-in agent's
// memory: a call of one is an action with events of its own, and no tool call.
// The driver must carry each of them out through the session.
func (s *Session) OwnTools(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.own[name] = true
	}
}
