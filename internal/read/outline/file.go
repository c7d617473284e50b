package outline

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

const header = "tallystick golden outline v3\n"

// IsOutline reports whether a golden file holds an outline. Those of the level exact
// hold a trace of every event.
func IsOutline(file []byte) bool { return bytes.HasPrefix(file, []byte("tallystick golden outline ")) }

// Format writes an outline as text for people to review: the prompts, then a line for
// each step with what was said of it below. What cannot be seen is escaped.
func (o *Outline) Format() []byte {
	out := []byte(header)
	for _, p := range o.Prompts {
		out = fmt.Appendf(out, "\nprompt %s", text(p.Model))
		if p.Rest != "" {
			out = append(out, ' ')
			out = append(out, p.Rest...)
		}
		out = append(out, '\n')
		for l := range strings.Lines(p.Text) {
			out = fmt.Appendf(out, "    %s\n", text(l))
		}
	}
	turn := -1
	for i := range o.Moves {
		m := &o.Moves[i]
		if m.Turn != turn {
			turn = m.Turn
			out = fmt.Appendf(out, "\nturn %d\n", turn)
		}
		out = m.format(out)
	}
	return out
}

func (m *Move) format(out []byte) []byte {
	out = append(out, m.Kind...)
	if m.What != "" {
		out = append(append(out, ' '), text(m.What)...)
	}
	if m.Detail != "" {
		out = append(append(out, ' '), m.Detail...)
	}
	out = append(out, '\n')
	for l := range strings.SplitSeq(m.Outcome, "\n") {
		if l != "" {
			out = append(append(append(out, "    "...), l...), '\n')
		}
	}
	return out
}

const hint = "write golden files with the program and review them; do not edit them by hand"

// Parse reads what [Outline.Format] wrote, and nothing else.
func Parse(file []byte) (*Outline, error) {
	if len(file) > trajectory.MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "golden outline: %d bytes, at most %d are accepted", len(file), trajectory.MaxBytes)
	}
	if at := bytes.Index(file, []byte("\r\n")); at >= 0 {
		return nil, refusal.Newf(refusal.Malformed, "golden outline: line %d: it ends in CR LF, expected LF", 1+bytes.Count(file[:at], []byte("\n"))).
			WithHint(`git or an editor changed the line ends; "/golden/** -text" in .gitattributes stops git from it`)
	}
	if IsOutline(file) && !bytes.HasPrefix(file, []byte(header)) {
		found, _, _ := strings.Cut(string(file[:min(len(file), 80)]), "\n")
		return nil, refusal.Newf(refusal.Malformed, "golden outline: line 1: found %q, expected %q", found, strings.TrimSpace(header)).
			WithHint(`another version of the program wrote it; write it again with "tally golden update" and have it reviewed`)
	}
	o, at, err := parse(file)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "golden outline: line %d: %w", at, err).WithHint(hint)
	}
	// One outline has one text, or a diff could show changes that change nothing.
	if again := o.Format(); !bytes.Equal(again, file) {
		n := 0
		for n < min(len(again), len(file)) && again[n] == file[n] {
			n++
		}
		return nil, refusal.Newf(refusal.Malformed, "golden outline: line %d: not as the program writes it", 1+bytes.Count(file[:n], []byte("\n"))).WithHint(hint)
	}
	return o, nil
}

func parse(file []byte) (*Outline, int, error) {
	body, ok := strings.CutPrefix(string(file), header)
	if !ok {
		return nil, 1, fmt.Errorf("expected %q", strings.TrimSpace(header))
	}
	o, turn, at := &Outline{}, -1, 1
	for raw := range strings.Lines(body) {
		at++
		l := strings.TrimSuffix(raw, "\n")
		var err error
		switch rest, below := strings.CutPrefix(l, "    "); {
		case l == "":
		case below && turn < 0:
			err = o.addText(rest)
		case below:
			err = o.addOutcome(rest)
		case strings.HasPrefix(l, "prompt ") && turn < 0:
			err = o.addPrompt(l[len("prompt "):])
		case strings.HasPrefix(l, "turn "):
			turn, err = strconv.Atoi(l[len("turn "):])
		default:
			err = o.addMove(turn, l)
		}
		if err != nil {
			return nil, at, err
		}
	}
	return o, at, nil
}

func (o *Outline) addPrompt(l string) error {
	model, rest, err := leading(l)
	o.Prompts = append(o.Prompts, Prompt{Model: model, Rest: rest})
	return err
}

func (o *Outline) addText(l string) error {
	if len(o.Prompts) == 0 {
		return errors.New("a text stands before its prompt")
	}
	line, rest, err := leading(l)
	if err == nil && rest != "" {
		err = errors.New("something stands after a text")
	}
	o.Prompts[len(o.Prompts)-1].Text += line
	return err
}

func (o *Outline) addMove(turn int, l string) error {
	if turn < 0 || turn > trajectory.MaxEvents {
		return errors.New("expected a turn before the first step")
	}
	kind, rest, _ := strings.Cut(l, " ")
	if !isKind(kind) || strings.HasPrefix(rest, " ") {
		return fmt.Errorf("expected a step, found %.80q", l)
	}
	m := Move{Turn: turn, Kind: kind, Detail: rest}
	if strings.HasPrefix(rest, `"`) {
		var err error
		if m.What, m.Detail, err = leading(rest); err != nil {
			return err
		}
	}
	o.Moves = append(o.Moves, m)
	return nil
}

func (o *Outline) addOutcome(l string) error {
	if len(o.Moves) == 0 {
		return errors.New("a line stands before the first step")
	}
	m := &o.Moves[len(o.Moves)-1]
	if m.Outcome != "" {
		m.Outcome += "\n"
	}
	m.Outcome += l
	return nil
}

// leading takes a JSON string from the beginning of a line.
func leading(l string) (s, rest string, err error) {
	value, err := jsontext.NewDecoder(strings.NewReader(l)).ReadValue()
	if err != nil {
		return "", "", err
	}
	if err := canon.Unmarshal(value, &s); err != nil {
		return "", "", err
	}
	return s, strings.TrimPrefix(l[len(value):], " "), nil
}

// A Check is what came of comparing a run with its golden file.
type Check struct {
	Level Level
	// Differences are those of the behaviour or structure. Exact is the first event
	// that differs, if every event was compared.
	Differences []Difference
	Exact       *trajectory.Divergence
	// Prompts are what changed in the prompts. They fail nothing: what counts is
	// what the agent did.
	Prompts []PromptChange
}

// Equal reports whether the run is what the golden file says, prompts aside.
func (c *Check) Equal() bool { return c.Exact == nil && len(c.Differences) == 0 }

// Between compares two runs of a case at the level of behaviour.
func Between(golden, got *trajectory.Verified) *Check {
	a, b := Of(golden), Of(got)
	return &Check{Level: Behaviour, Differences: Compare(a, b, Behaviour), Prompts: Prompts(a, b)}
}

// maxTold bounds how many differences are told of one run.
const maxTold = 10

// First is the change of the first difference, its turn and its step if there is one.
func (c *Check) First() (change trajectory.Change, turn, step int) {
	if c.Exact != nil {
		return c.Exact.Change, c.Exact.Turn, c.Exact.Step
	}
	d := &c.Differences[0]
	return d.Change, d.Turn(), 0
}

// Detail tells the differences and prompts, on several lines that are safe to print.
func (c *Check) Detail() string {
	if c.Exact != nil {
		return c.Exact.String()
	}
	var b strings.Builder
	for i, d := range c.Differences {
		if i == maxTold {
			fmt.Fprintf(&b, "and %d more\n", len(c.Differences)-maxTold)
			break
		}
		b.WriteString(d.String())
	}
	for _, p := range c.Prompts {
		fmt.Fprintf(&b, "prompt of %s: %s\n", plain.Line(p.Model), p.Words)
	}
	return b.String()
}

// CheckGolden compares a run with its golden file: one with an outline at the level,
// behaviour if that is empty; one with a trace exactly.
func CheckGolden(file []byte, v *trajectory.Verified, level Level, opt trajectory.Options) (*Check, error) {
	if !IsOutline(file) {
		if level != "" && level != Exact {
			return nil, refusal.Newf(refusal.Usage, "the golden file holds every event and can only be compared exactly, not at the level %s", level).
				WithHint(`"tally golden update --level behaviour" writes one that can`)
		}
		d, err := trajectory.CheckGolden(file, v, opt)
		return &Check{Level: Exact, Exact: d}, err
	}
	if level == Exact {
		return nil, refusal.Newf(refusal.Usage, "the golden file holds what the agent did and not every event: it cannot be compared at the level %s", level).
			WithHint(`"tally golden update --level exact" writes one that can`)
	}
	if level == "" {
		level = Behaviour
	}
	golden, err := Parse(file)
	if err != nil {
		return nil, err
	}
	got := Of(v)
	return &Check{Level: level, Differences: Compare(golden, got, level), Prompts: Prompts(golden, got)}, nil
}
