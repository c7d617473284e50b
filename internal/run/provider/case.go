package provider

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/egress"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/replies"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/wire"
)

// CaseOptions say how the live side of one case is made.
type CaseOptions struct {
	// Base is a cassette to which only what it misses is added; nil to record
	// everything.
	Base *cassette.Cassette
	// Matching is how the agent's calls are looked up in it.
	Matching cassette.Matching

	// Cached, if not nil, is asked before a provider or an MCP server is. The
	// answer that it gives is kept in the recording as if it had come now; an
	// error, such as a miss, is the end of it.
	Cached func(cassette.Request) (cassette.Borrowed, error)
	// JudgeCached is the same for the judge.
	JudgeCached func(cassette.Request) (cassette.Borrowed, error)
	// UserCached is the same for the simulated user.
	UserCached func(cassette.Request) (cassette.Borrowed, error)

	// Kept, JudgeKept and UserKept are the library of replies, for the agent, the judge
	// and the simulated user: what neither a recording nor Cached answers is looked for
	// there, and what is paid for is put there. Nil for none.
	Kept, JudgeKept, UserKept *replies.Shelf

	Budget  *Budget
	Journal *journal.Running // nil for none
	OnRetry func(Retry)
	Now     time.Time    // when the recording began; left out if zero
	Egress  egress.Rules // servers that the agent's program may ask
	Dir     string       // that MCP servers start in; the settings' own if empty
}

// A LiveSide is the live side of one case: models and MCP servers, recorded into
// one cassette. It is what package harness calls a Recording.
type LiveSide struct {
	*Live
	Tools  *LiveTools
	web    *Web
	Judges *Live // the same for the judge of the case, in the same cassette
	Users  *Live // and for its simulated user
}

// Case makes the live side of a case. Nothing is contacted yet.
func (a *Access) Case(o CaseOptions) (*LiveSide, error) {
	recorder, err := cassette.NewRecorder(cassette.RecorderOptions{Redactor: a.Redactor(), Prices: a.Settings.Prices(), RecordedAt: o.Now, Base: o.Base})
	if err != nil {
		return nil, err
	}
	var player, judges, users *cassette.Player
	if o.Base != nil {
		player, judges, users = cassette.NewMatchingPlayer(o.Base, o.Matching), cassette.NewJudgePlayer(o.Base), cassette.NewUserPlayer(o.Base)
	}
	c := &LiveSide{}
	cfg := Config{Access: a, Recorder: recorder, OnlyMissing: player, Cached: o.Cached, Kept: o.Kept, Budget: o.Budget, Journal: o.Journal, OnRetry: o.OnRetry}
	if c.Live, err = New(cfg); err != nil {
		return nil, err
	}
	cfg.OnlyMissing, cfg.Cached, cfg.Kept, cfg.Purpose = judges, o.JudgeCached, o.JudgeKept, cassette.ForJudge
	if c.Judges, err = New(cfg); err != nil {
		return nil, err
	}
	cfg.OnlyMissing, cfg.Cached, cfg.Kept, cfg.Purpose = users, o.UserCached, o.UserKept, cassette.ForUser
	if c.Users, err = New(cfg); err != nil {
		return nil, err
	}
	c.web = NewWeb(WebConfig{Access: a, Recorder: recorder, Rules: o.Egress, OnlyMissing: player, Cached: o.Cached, Journal: o.Journal})
	c.Tools, err = NewTools(ToolsConfig{Access: a, Recorder: recorder, OnlyMissing: player, Cached: o.Cached, Journal: o.Journal, Dir: o.Dir})
	return c, err
}

// Unused counts the recordings of the base that were not asked for.
func (c *LiveSide) Unused() int {
	if c.cfg.OnlyMissing == nil {
		return 0
	}
	return len(c.cfg.OnlyMissing.Unused()) + len(c.Judges.cfg.OnlyMissing.Unused()) + len(c.Users.cfg.OnlyMissing.Unused())
}

// Stats counts what was done for the agent, for the judge and for the user.
func (c *LiveSide) Stats() Stats {
	s := Stats{Replayed: int(c.web.replayed.Load())}
	for _, l := range []*Live{c.Live, c.Judges, c.Users} {
		n := l.Stats()
		s = Stats{s.Calls + n.Calls, s.Replayed + n.Replayed, s.Recalled + n.Recalled, s.Retries + n.Retries, s.Unanswered + n.Unanswered, s.Refused + n.Refused, s.Broken + n.Broken, s.Failed + n.Failed}
	}
	return s
}

// Reused says how many replies came from the library, nil if none.
func (c *LiveSide) Reused() *evidence.Reused {
	return replies.Reused(c.cfg.Kept, c.Judges.cfg.Kept, c.Users.cfg.Kept)
}

// JudgeModels answers the judge of the case.
func (c *LiveSide) JudgeModels() session.Models { return c.Judges }

// UserModels answers the model that plays the user of the case.
func (c *LiveSide) UserModels() session.Models { return c.Users }

// ToolBox answers the tools of a case: those of MCP servers live, all others
// from state.
func (c *LiveSide) ToolBox(state *tools.State) session.ToolBox { return c.Tools.ToolBox(state) }

// RecordWorld keeps what the world of the case did.
func (c *LiveSide) RecordWorld(t cassette.MCPTraffic) error {
	_, err := c.Tools.record(t)
	return err
}

// RecordedWorld is what an earlier recording has of it, to which only what is missing is
// added; nil for none.
func (c *LiveSide) RecordedWorld() *cassette.Player { return c.cfg.OnlyMissing }

// Web answers the HTTP requests of the agent's program.
func (c *LiveSide) Web() session.Web { return c.web }

// Close stops the MCP servers that were started for the case.
func (c *LiveSide) Close() { c.Tools.Close() }

// ToolBox answers the tools of a case: those of MCP servers live, all others
// from state.
func (t *LiveTools) ToolBox(state *tools.State) session.ToolBox { return &toolBox{state, t} }

type toolBox struct {
	*tools.State
	live *LiveTools
}

// Call answers a call. What comes from a server is cleaned and bounded as it
// is in a replay.
func (b *toolBox) Call(ctx context.Context, name string, args []byte) (tools.Result, error) {
	d, ok := b.Lookup(name)
	server, isMCP := strings.CutPrefix(d.Source, tools.MCPPrefix)
	if !ok || !isMCP {
		return b.State.Call(ctx, name, args)
	}
	if wrong := b.Check(name, args); wrong != nil {
		return *wrong, nil
	}
	how := manner{harmless: d.Class == policy.Read}
	if d.Pinned != "" {
		how.unlike = func(l tools.Listing) *tools.Result { return d.Unlike(l, "live") }
	}
	it, err := b.live.call(ctx, server, cmp.Or(d.Remote, d.Name), args, how)
	if unlike := (*unlikeError)(nil); errors.As(err, &unlike) {
		return *unlike.result, nil
	}
	if err != nil {
		return tools.Result{}, err
	}
	r := d.AdmitMCP("live", it.MCP.Result, it.MCP.Error)
	r.Latency = time.Duration(it.LatencyMS) * time.Millisecond
	return r, nil
}

// CheckModel says, before anything is sent, whether calls of a model can be
// made within a budget: the provider is known, its key is there, the price and
// the longest answer are known. MaxOutput is what each request will ask for, 0
// if it will not say.
func (a *Access) CheckModel(api wire.API, model string, maxOutput int64) error {
	e, err := a.Settings.endpoint(api)
	if err != nil {
		return err
	}
	if _, err := a.credentials(e); err != nil {
		return err
	}
	m, ok := e.model(model)
	switch {
	case !ok:
		return refusal.Newf(refusal.NotFound, "%s: %s %w for the model %.60q, so what it costs is not bounded", SettingsFile, e.Provider, ErrNoPrice, model).
			WithHint("add it under %s: prices:, in micro-dollars for a million tokens, or give a limit of calls with --max-calls", e.Provider)
	case m.MaxOutput == 0 && maxOutput == 0 && api.Converses():
		return refusal.Newf(refusal.NotFound, "%s: how long an answer of %.60q can be is not known, so what it costs is not bounded", SettingsFile, model).
			WithHint("add max_output_tokens to the model in %s, or to the target", SettingsFile)
	}
	return nil
}

// Destinations lists, for a person to confirm, where requests of an API go and
// which key they carry; all of them if api is "".
func (s *Settings) Destinations(api wire.API) []string {
	var lines []string
	for _, e := range s.Endpoints {
		if api != "" && api.Provider().Name != e.Provider {
			continue
		}
		key := "no key"
		if name := e.KeyEnv + e.KeyFile; name != "" {
			key = "key from " + name
		}
		if s := e.Signing; s != nil {
			key = "signed with the keys from " + s.AccessKeyEnv + " and " + s.SecretKeyEnv
		}
		lines = append(lines, e.Provider+" at "+e.BaseURL+", "+key)
	}
	return lines
}

// Destination says where an MCP server is and what it is given, for a person to confirm.
// Servers that run, are given or are asked something else have another text.
func (s Server) Destination() string {
	if s.URL != "" {
		key := ""
		if name := keyNames(s.KeyEnv, s.KeyFile); name != "" {
			key = ", with the key in " + name
		}
		return s.URL + key
	}
	words := make([]string, len(s.Command))
	for i, w := range s.Command {
		words[i] = plain.ShellWord(w)
	}
	text := "the command " + strings.Join(words, " ")
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		text += ", " + name + "=" + plain.ShellWord(s.Env[name])
	}
	if len(s.Secrets) > 0 {
		text += ", with the keys in " + strings.Join(slices.Sorted(slices.Values(s.Secrets)), ", ")
	}
	return text
}

// KeyNames says where the key of an endpoint is, never the key; "" for none.
func (e *Endpoint) KeyNames() string {
	if s := e.Signing; s != nil {
		return strings.Join(s.variables(), ", ")
	}
	return keyNames(e.KeyEnv, e.KeyFile)
}

func keyNames(variable, file string) string {
	if file != "" {
		return "the file " + file
	}
	return variable
}

// HasKey reports whether the variables with the keys of an endpoint are set.
func (e *Endpoint) HasKey(getenv func(string) string) bool {
	if s := e.Signing; s != nil {
		return getenv(s.AccessKeyEnv) != "" && getenv(s.SecretKeyEnv) != ""
	}
	return e.KeyEnv == "" || getenv(e.KeyEnv) != ""
}
