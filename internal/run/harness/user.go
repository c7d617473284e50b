package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/user"
)

// A UserRecording is a recording that keeps the calls of the model apart that plays the
// user.
type UserRecording interface{ UserModels() session.Models }

// scripts runs the scripts of users, each in a sandbox that is opened when a case needs
// it first.
type scripts struct {
	accept []sandbox.Class
	free   chan struct{} // one for each reply that the machine has a core for

	mu    sync.Mutex
	boxes map[digest.Content]*sandbox.Sandbox
}

func newScripts(accept []sandbox.Class) *scripts {
	return &scripts{accept: accept, free: make(chan struct{}, runtime.NumCPU()), boxes: map[digest.Content]*sandbox.Sandbox{}}
}

func (s *scripts) open(ctx context.Context, script string) (*sandbox.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := digest.ContentOf([]byte(script))
	if box := s.boxes[name]; box != nil {
		return box, nil
	}
	box, err := sandbox.Open(context.WithoutCancel(ctx), user.ScriptOptions(script, s.accept))
	if err != nil {
		return nil, fmt.Errorf("opening the sandbox of the user's script: %w", err)
	}
	s.boxes[name] = box
	return box, nil
}

// of runs one script.
func (s *scripts) of(script string) func(context.Context, sandbox.Job) (sandbox.Result, error) {
	return func(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
		box, err := s.open(ctx, script)
		if err != nil {
			return sandbox.Result{}, err
		}
		s.free <- struct{}{}
		defer func() { <-s.free }()
		return box.Run(ctx, job)
	}
}

func (s *scripts) close() {
	if s == nil {
		return
	}
	for _, box := range s.boxes {
		_ = box.Close()
	}
}

// needUser refuses a class of which a case needs a model for its user, and a workspace
// that names none, or another than the registration pins.
func (w *Worker) needUser(p *evidence.Plan) error {
	if !w.modelUser {
		return nil
	}
	settings := w.cfg.User
	if settings == nil {
		return refusal.Newf(refusal.NotFound, "class %s has cases whose user is played by a model, and there is no %s", w.class, user.SettingsFile).
			WithHint("say in %s which model plays users, or give the cases a %s; docs/users.md has both", user.SettingsFile, scenario.UserFile)
	}
	prompt := user.PromptDigest()
	p.UserDigest, p.UserPrompt = &settings.Digest, &prompt
	return checkUser(w.reg, settings.Digest)
}

// checkUser refuses another user than the class pins.
func checkUser(reg bench.Registration, settings digest.Content) error {
	if reg.UserDigest == nil || settings == *reg.UserDigest {
		return nil
	}
	return refusal.Newf(refusal.UserDigestMismatch, "class %s: %s with this program's prompt is %s, the registration says %s", reg.Class, user.SettingsFile, settings, reg.UserDigest).
		WithHint("restore %s, and run the version of the program that the class was signed with; if the change is meant, put this digest into the registration as user_digest and have two people sign", user.SettingsFile)
}

// hear gives the session the user of the case.
func (r *run) hear(cfg *session.Config) {
	if r.c.Scenario.User == nil {
		return
	}
	cfg.User = func(ctx context.Context, answer string) (session.UserTurn, error) { return r.user.Next(ctx, answer) }
}

// openUser makes the user of the case, for the session that there is now.
func (r *run) openUser() error {
	s := &r.c.Scenario
	if s.User == nil {
		return nil
	}
	expected, err := r.expectedOfAgent()
	if err != nil {
		return err
	}
	if s.User.IsScripted() {
		r.user, err = user.New(r.s, s, expected, nil, user.NewScript(s, r.w.scripts.of(s.User.Script)))
		return err
	}
	models, source := r.userModels()
	model, err := user.NewModel(r.w.cfg.User, models, source, s)
	if err == nil {
		r.user, err = user.New(r.s, s, expected, model, nil)
	}
	return err
}

// userModels answers the model that plays the user: from calls that are recorded as the
// user's, which neither the agent nor the judge can ask for; nil if the case has nothing.
func (r *run) userModels() (session.Models, string) {
	if r.live != nil {
		if live, apart := r.live.(UserRecording); apart {
			return live.UserModels(), "live"
		}
		return nil, "live"
	}
	if own := r.c.Scenario.RepliesFor(cassette.ForUser).To(r.w.cfg.User.Model); own.Len() > 0 {
		return session.NewScript(own), "authored"
	}
	if r.users != nil || r.userKept != nil {
		return &session.Replay{Player: r.users, Kept: r.userKept}, "cassette"
	}
	return nil, "cassette"
}

// expectedOfAgent are the values that the case wants of the agent, which its user must
// not say.
func (r *run) expectedOfAgent() ([]string, error) {
	grader, err := r.w.graderOf(r.c, nil)
	if err != nil {
		return nil, err
	}
	values := grader.Gold()
	if len(r.c.Expected) > 0 {
		var expected any
		if err := json.Unmarshal(r.c.Expected, &expected); err != nil {
			return nil, err
		}
		values = appendValues(values, expected)
	}
	return values, nil
}

// appendValues adds every text and number of a JSON value.
func appendValues(list []string, v any) []string {
	switch v := v.(type) {
	case string:
		list = append(list, v)
	case float64:
		list = append(list, strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		for _, x := range v {
			list = appendValues(list, x)
		}
	case map[string]any:
		for _, x := range v {
			list = appendValues(list, x)
		}
	}
	return list
}

// userBroke says which rules the user of the case broke; "" if it kept to them all, or
// there is none. It is found in the trajectory, so a case that is graded again is held
// to the same.
func (r *run) userBroke() (string, error) {
	s := &r.c.Scenario
	if s.User == nil {
		return "", nil
	}
	expected, err := r.expectedOfAgent()
	if err != nil {
		return "", err
	}
	found, err := user.Broken(s, expected, r.result.Verified, r.wholeText)
	if err != nil || len(found) == 0 {
		return "", err
	}
	var list []string
	for _, b := range found {
		list = append(list, b.String())
	}
	return "the simulated user broke its own rules, so the case says nothing about the agent: " + strings.Join(list, "; "), nil
}

// wholeText is the text that an event stands for.
func (r *run) wholeText(c *trajectory.Content) (string, error) {
	if !c.Truncated {
		return c.Head, nil
	}
	text, ok := r.result.Contents[c.Digest]
	if !ok {
		return "", refusal.Newf(refusal.NotFound, "the evidence lacks the text %s", c.Digest)
	}
	return string(text), nil
}

// userOf is what the record of a case says of its user.
func userOf(v *trajectory.Verified) *evidence.User {
	s := user.SpentIn(v)
	if s == nil {
		return nil
	}
	out := &evidence.User{By: string(s.By), CostMicroUSD: s.CostMicroUSD, Ended: s.Why, Model: s.Model, Moves: s.Moves, Prompt: s.Prompt, Tokens: s.TokensIn + s.TokensOut, ToolCalls: s.Tools, Turns: s.Turns, Unpriced: s.Unpriced}
	return out
}
