package extract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// A Source is what a case left behind. It is for one goroutine at a time: it
// remembers what several extractors need.
type Source struct {
	Trajectory *trajectory.Verified

	// Answer is the whole final answer, for a caller who still has it. It must
	// be the one whose digest the trajectory names.
	Answer    string
	HasAnswer bool

	// Content gives the whole text that has a digest, if it was kept. It may
	// be nil.
	Content func(digest.Content) ([]byte, bool)

	// File gives a file of the final working folder. It may be nil if the
	// folder is not at hand; then extracting a file is an error. If something
	// is there, an error says why it is not a file that can be graded; else,
	// why that is unknown.
	File func(path string) (data []byte, there bool, err error)

	// Names lists the files that the case began with or the agent changed. It may
	// be nil if the folder is not at hand.
	Names func() ([]string, error)

	// Tools are the names of tools that the case and its class tell of. With
	// it, a name that neither they nor the run know is an error: nothing is
	// ever counted under a name that is misspelled. It may be nil.
	Tools []string

	// Context ends what takes long: large expressions and searches. It may be nil.
	Context context.Context

	answer  *digest.Content
	calls   *trajectory.CallView
	state   *trajectory.State
	events  []any // as expressions see them
	probing []probe
	stage   *stage // at the end of the run
}

// Lasting is the context under which work on the source is done.
func (s *Source) Lasting() context.Context {
	if s.Context == nil {
		return context.Background()
	}
	return s.Context
}

// Stopped reports whether the caller ended the context: what failed after that says
// nothing of the run.
func (s *Source) Stopped() bool { return s.Lasting().Err() != nil }

// sees says how much of what a name stands for can be seen in this run: what its
// vantage shows, less what could not be read of it.
func (s *Source) sees(k vantage.Kind, name string) vantage.View {
	sight := s.Trajectory.Vantage().SeesName(k, name)
	matters, _ := vantage.Matters(k, name)
	if why := s.Calls().Unseen; sight.Sight == vantage.Seen && why != "" && slices.Contains(matters, vantage.ToolCalls) {
		return vantage.View{Sight: vantage.Partly, Why: why}
	}
	return sight
}

// unseen refuses to conclude anything from what cannot be seen.
func unseen(what, why string) error {
	return refusal.Newf(refusal.NotFound, "%s cannot be seen: %s", what, why).
		WithHint("docs/vantage.md says what each kind of target shows; leave the check out, or drive the agent another way")
}

// notKnown refuses to conclude anything from a total of which a part is not known.
func notKnown(what, found string) error {
	return refusal.Newf(refusal.NotFound, "%s not known: %s", what, found).
		WithHint("give the model's price in providers.yaml and let the provider tell the usage (of a stream: stream_options.include_usage), then record again; or leave the check out")
}

func uncountedText(n int64) string { return plain.Plural(int(n), "model call") + " without usage" }

// Calls are the tool calls of the run.
func (s *Source) Calls() *trajectory.CallView {
	if s.calls == nil {
		s.calls = trajectory.CallsOf(s.Trajectory)
	}
	return s.calls
}

func (s *Source) answerDigest() digest.Content {
	if s.answer == nil {
		d := digest.ContentOf([]byte(s.Answer))
		s.answer = &d
	}
	return *s.answer
}

// final is the state at the end of the run.
func (s *Source) final() (*trajectory.State, error) {
	if s.state != nil {
		return s.state, nil
	}
	state, err := trajectory.Replay(s.Trajectory, s.Trajectory.Turns())
	if err != nil {
		return nil, err
	}
	s.state = state
	return state, nil
}

// at is the state at the end of a turn.
func (s *Source) at(turn int) (*trajectory.State, error) {
	if turn == s.Trajectory.Turns() {
		return s.final()
	}
	return trajectory.Replay(s.Trajectory, turn)
}

// A reading is the text of a content.
type reading struct {
	text     string
	redacted bool   // secrets were taken out, and the text with them is not at hand
	problem  string // why there is none, if that is the agent's doing
}

// read gives the whole of a content. An error says that the evidence is not
// whole. That a text was redacted is the agent's doing, who wrote a secret, so
// it is never an error: the text without the secrets stands for it.
func (s *Source) read(what string, c *trajectory.Content) (reading, error) {
	if !c.Lossy && !c.Redacted && !c.Truncated {
		return reading{text: c.Head}, nil
	}
	if c.Lossy {
		return reading{problem: what + " is not UTF-8 text"}, nil
	}
	whole, err := s.whole(what, c.Digest)
	switch {
	case err == nil && !utf8.Valid(whole):
		return reading{problem: what + " is not UTF-8 text"}, nil
	case err == nil:
		return reading{text: string(whole), redacted: c.Redacted}, nil
	case !c.Redacted || !refusal.Is(err, refusal.NotFound):
		return reading{}, err
	case c.Truncated:
		return reading{problem: what + " held secrets and is too long to be kept without them"}, nil
	}
	return reading{text: c.Head, redacted: true}, nil
}

// whole gives the bytes that have a digest.
func (s *Source) whole(what string, d digest.Content) ([]byte, error) {
	if s.HasAnswer && s.answerDigest() == d {
		return []byte(s.Answer), nil
	}
	if s.Content != nil {
		if data, ok := s.Content(d); ok {
			if got := digest.ContentOf(data); got != d {
				return nil, refusal.Newf(refusal.DigestMismatch, "%s: the text that was kept is %s, the trajectory says %s", what, got, d).
					WithHint("the evidence was changed or mixed up; do not grade it")
			}
			return data, nil
		}
	}
	return nil, refusal.Newf(refusal.NotFound, "%s: only its beginning is in the trajectory, and the whole text (%s) was not kept", what, d).
		WithHint("grade while the case runs, or keep the contents that the trajectory names")
}

// args gives the arguments of a tool's call in canonical JSON, or what the
// agent wrote instead.
func (s *Source) args(tool string, seq int, a *trajectory.Args) (args canon.RawMessage, raw reading, err error) {
	what := func() string { return fmt.Sprintf("arguments of %s in event %d", tool, seq) }
	if a.Raw != nil {
		raw, err := s.read(what(), a.Raw)
		if raw.problem != "" {
			raw.text = a.Raw.Head
		}
		return nil, raw, err
	}
	if a.Redacted || len(a.Cut) > 0 {
		data, err := s.whole(what(), a.Digest)
		switch {
		case err == nil:
			raw.redacted = a.Redacted
			return data, raw, canon.Validate(data)
		case !a.Redacted || !refusal.Is(err, refusal.NotFound):
			return nil, raw, err
		}
		raw.redacted = true
	}
	if len(a.Values) == 0 {
		return canon.RawMessage("{}"), raw, nil
	}
	args, err = canon.Marshal(a.Values)
	return args, raw, err
}

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }
