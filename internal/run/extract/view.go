package extract

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// Bounds of what a judge is shown beside the answer. What is over them is left
// out, and the view says so where it was.
const (
	MaxViewBytes = 96 << 10 // of a view
	maxViewText  = 8 << 10  // of each text in it
)

// A View is what a judge is shown of a run beside the answer.
type View struct {
	// Text is a JSON list with an element a line, within bounds.
	Text string
	// Items is how many elements there are, and LeftOut how many of them are not
	// in the text; CutBytes is how much is missing from texts that are.
	Items    int
	LeftOut  int
	CutBytes int64
}

// A viewer gathers the elements of a view.
type viewer struct {
	s     *Source
	items []canon.RawMessage
	cut   int64
}

// add appends an element. Its texts are shortened by [viewer.text] before.
func (v *viewer) add(item map[string]any) error {
	data, err := canon.Marshal(item)
	if err != nil {
		return err
	}
	v.items = append(v.items, data)
	return nil
}

// text puts a text into an element, as much as is shown of it.
func (v *viewer) text(item map[string]any, name, s string) {
	short := s
	if len(short) > maxViewText {
		n := maxViewText
		for n > 0 && !utf8.RuneStart(short[n]) {
			n--
		}
		short = short[:n]
		item[name+"_bytes_left_out"] = len(s) - n
		v.cut += int64(len(s) - n)
	}
	item[name] = short
}

// content is text for what a trajectory names.
func (v *viewer) content(item map[string]any, name, what string, c *trajectory.Content) error {
	s, err := v.s.visible(what, c)
	if err == nil {
		v.text(item, name, s)
	}
	return err
}

// view writes the elements. Of too many, those in the middle are left out: how a
// run began and how it ended matter most.
func (v *viewer) view() (View, error) {
	total := 0
	for _, i := range v.items {
		total += len(i) + 2
	}
	out := View{Items: len(v.items), CutBytes: v.cut}
	head, tail := len(v.items), len(v.items)
	if total > MaxViewBytes {
		head, tail = 0, len(v.items)
		room := MaxViewBytes / 2
		for head < tail && room >= len(v.items[head])+2 {
			room -= len(v.items[head]) + 2
			head++
		}
		for room = MaxViewBytes / 2; tail > head && room >= len(v.items[tail-1])+2; tail-- {
			room -= len(v.items[tail-1]) + 2
		}
		out.LeftOut = tail - head
	}
	lines := slices.Clone(v.items[:head])
	if out.LeftOut > 0 {
		note, err := canon.Marshal(map[string]any{"left_out": fmt.Sprintf("%d of %d elements, because the whole is longer than %d bytes", out.LeftOut, out.Items, MaxViewBytes)})
		if err != nil {
			return View{}, err
		}
		lines = append(append(lines, note), v.items[tail:]...)
	}
	var b bytes.Buffer
	b.WriteString("[")
	for i, line := range lines {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n")
		b.Write(line)
	}
	b.WriteString("\n]")
	out.Text = b.String()
	return out, nil
}

// Transcript shows what the user, the agent and its tools said and did, in order.
func (s *Source) Transcript() (View, error) {
	v := &viewer{s: s}
	calls := s.Calls()
	next := 0
	before := func(seq int) error { // the calls up to an event
		for ; next < len(calls.Calls) && calls.Calls[next].Seq <= seq; next++ {
			if err := v.call(&calls.Calls[next], true); err != nil {
				return err
			}
		}
		return nil
	}
	said := "" // the agent's last words
	for ev := range s.Trajectory.Events() {
		if err := before(ev.Seq - 1); err != nil {
			return View{}, err
		}
		item := map[string]any{"turn": ev.Turn}
		var err error
		switch p := ev.Payload.(type) {
		case *trajectory.TurnStarted:
			if p.Input != nil {
				if err = v.content(item, "user", fmt.Sprintf("input of turn %d", ev.Turn), p.Input); err == nil {
					err = v.add(item)
				}
			}
		case *trajectory.ModelCallCompleted:
			var output string
			if output, err = s.visible("output of "+p.Call, &p.Output); err == nil {
				if text := trajectory.ParseSaid(output).Text; !isBlank(text) {
					said = text
					v.text(item, "agent", text)
					err = v.add(item)
				}
			}
		case *trajectory.TurnCompleted:
			if p.Answer != nil {
				var text string
				if text, err = s.visible(fmt.Sprintf("answer of turn %d", ev.Turn), p.Answer); err == nil && text != said {
					v.text(item, "agent", text)
					err = v.add(item)
				}
			}
		case *trajectory.PolicyViolation:
			v.text(item, "policy_violation", p.Summary())
			err = v.add(item)
		}
		if err != nil {
			return View{}, err
		}
	}
	if len(calls.Calls) > 0 {
		if err := before(calls.Calls[len(calls.Calls)-1].Seq); err != nil {
			return View{}, err
		}
	}
	if calls.Unseen != "" {
		if err := v.add(map[string]any{"not_seen": "there may be tool calls that nobody saw: " + calls.Unseen}); err != nil {
			return View{}, err
		}
	}
	return v.view()
}

// call shows a tool call that was made or may have been; what a policy stopped is
// shown as such.
func (v *viewer) call(c *trajectory.ToolCall, withArgs bool) error {
	item := map[string]any{"turn": c.Turn, "tool": c.Name}
	if c.Vantage != trajectory.Executed {
		item["seen_as"] = string(c.Vantage)
	}
	if withArgs {
		args, raw, err := v.s.args(c.Name, c.Seq, &c.Args)
		switch {
		case refusal.Is(err, refusal.NotFound):
			item["args"] = "too long to be kept"
		case err != nil:
			return err
		case args != nil:
			v.text(item, "args", string(args))
		default:
			v.text(item, "args", raw.text)
		}
	}
	switch {
	case c.Denied:
		item["denied"] = true
	case c.Made != nil && c.Made.Error != "":
		v.text(item, "error", c.Made.Error)
	case c.Made != nil:
		if err := v.content(item, "result", "result of "+c.Name, &c.Made.Result); err != nil {
			return err
		}
	case c.Report != nil && c.Report.Result != nil:
		name := "result"
		if c.Failed {
			name = "error"
		}
		if err := v.content(item, name, "result of "+c.Name, c.Report.Result); err != nil {
			return err
		}
	}
	return v.add(item)
}

// ToolResults shows what the tools gave, in order.
func (s *Source) ToolResults() (View, error) {
	if err := s.callsSeen(); err != nil {
		return View{}, err
	}
	v := &viewer{s: s}
	for i := range s.Calls().Calls {
		if c := &s.Calls().Calls[i]; hasResult(c) {
			if err := v.call(c, false); err != nil {
				return View{}, err
			}
		}
	}
	return v.view()
}

func hasResult(c *trajectory.ToolCall) bool {
	return c.Made != nil || c.Report != nil && c.Report.Result != nil
}

// callsSeen refuses to take the calls that were seen for all.
func (s *Source) callsSeen() error {
	why := s.Calls().Unseen
	if sight := s.sees(vantage.Shown, "tool_results"); sight.Sight == vantage.Not {
		why = sight.Why
	}
	if why != "" {
		return refusal.Newf(refusal.NotFound, "there may be tool calls that nobody saw: %s", why)
	}
	return nil
}

// FoundBy lists what a tool gave, for a judge that asks whether an answer rests on
// it: a result that is a JSON list is a passage for each element.
func (s *Source) FoundBy(tool string) ([]string, error) {
	if err := s.callsSeen(); err != nil {
		return nil, err
	}
	var passages []string
	for i := range s.Calls().Calls {
		c := &s.Calls().Calls[i]
		if !c.Is(tool) || !hasResult(c) || c.Failed {
			continue
		}
		content := &trajectory.Content{}
		if c.Made != nil {
			content = &c.Made.Result
		} else {
			content = c.Report.Result
		}
		text, err := s.visible("result of "+c.Name, content)
		if err != nil {
			return nil, err
		}
		passages = append(passages, passagesOf(text)...)
	}
	return passages, nil
}

func passagesOf(text string) []string {
	var items []canon.RawMessage
	if canon.Unmarshal([]byte(text), &items) != nil {
		return []string{text}
	}
	var passages []string
	for _, item := range items {
		var s string
		if canon.Unmarshal(item, &s) != nil {
			s = string(item)
		}
		passages = append(passages, s)
	}
	return passages
}

// FilesLike shows the files of the working folder whose names are given, or match
// a pattern of path.Match.
func (s *Source) FilesLike(patterns []string) (View, error) {
	if sight := s.sees(vantage.Shown, "files"); sight.Sight == vantage.Not {
		return View{}, unseen("files of the working folder", sight.Why)
	}
	if s.File == nil || s.Names == nil {
		return View{}, refusal.Newf(refusal.NotFound, "the working folder is not at hand").
			WithHint("files can be judged while the case runs, and again if the evidence has them")
	}
	names, err := s.Names()
	if err != nil {
		return View{}, err
	}
	for _, p := range patterns { // one that is not there is told
		if !isPattern(p) && !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	slices.Sort(names)
	v := &viewer{s: s}
	for _, name := range slices.Compact(names) {
		if !slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return p == name || ok }) {
			continue
		}
		item := map[string]any{"path": name}
		data, there, err := s.File(name)
		switch {
		case !there && err != nil:
			return View{}, err
		case !there:
			item["missing"] = true
		case err != nil:
			item["unreadable"] = err.Error()
		case !utf8.Valid(data):
			item["binary_bytes"] = len(data)
		default:
			v.text(item, "text", string(data))
		}
		if err := v.add(item); err != nil {
			return View{}, err
		}
	}
	return v.view()
}

func isPattern(p string) bool { return bytes.ContainsAny([]byte(p), `*?[\`) }
