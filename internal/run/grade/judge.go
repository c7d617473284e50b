package grade

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/question"
)

// A JudgeSpec is what a model is asked to judge by.
type JudgeSpec struct {
	Criteria  string
	Expected  canon.RawMessage // canonical; nothing if there is none
	Votes     int
	Threshold float64 // the score from which on a value passes

	Form      question.Form
	Template  *question.Template // of the class; nil for that of the program
	Scale     question.Scale
	Reference canon.RawMessage // of a comparison: the other answer
	Context   []string         // passages
	Views     []View           // what the judge is shown of the run besides
	Judge     string           // its name in judge.yaml; "" is the one at the top

	sees        []string
	files       []string
	contextTool string
	panel       []string
	combine     string
	quorum      int
}

// A View is a part of the run that a judge is shown.
type View struct {
	Part string // as templates name it
	extract.View
}

// A JudgeOutcome is what a judge said.
type JudgeOutcome struct {
	Score    float64 // 0 to 1
	Votes    []float64
	Reason   string
	Unscored string // why there is no score; Score then means nothing
	Choice   string // of a scale
	Marked   *Marked
	Position *Position

	Events []evidence.IntegrityEvent
}

// Marked counts the claims or passages that a judge marked.
type Marked struct {
	Held int `json:"held"`
	Of   int `json:"of"`
}

// Position counts the comparisons in which a judge preferred the same place in
// both orders, whatever stood there.
type Position struct {
	First  int `json:"first"`
	Second int `json:"second"`
	Of     int `json:"of"`
}

// A PanelDetail is what the judges of a panel said.
type PanelDetail struct {
	Combine string `json:"combine"`
	// Differ is the share of pairs of judges that differ, and Range the distance
	// between the highest score and the lowest.
	Differ  *float64       `json:"differ,omitempty"`
	Members []MemberDetail `json:"members"`
	Quorum  int            `json:"quorum"`
	Range   *float64       `json:"range,omitempty"`
}

// A MemberDetail is what one judge of a panel said.
type MemberDetail struct {
	Choice   string    `json:"choice,omitempty"`
	Judge    string    `json:"judge"`
	Marked   *Marked   `json:"marked,omitempty"`
	Position *Position `json:"position,omitempty"`
	Score    *float64  `json:"score,omitempty"`
	Unscored string    `json:"unscored,omitempty"`
	Votes    []float64 `json:"votes,omitempty"`
	Why      string    `json:"why,omitempty"`
}

// Bounds of what a judge is given.
const (
	maxPassages     = 200
	maxContextBytes = 256 << 10
	maxFilePatterns = 50
	maxPanel        = 16
)

// Seeable lists what a judge can be shown, besides the answer, which it always is.
func Seeable() []string { return seeable }

var seeable = []string{question.Answer, question.Transcript, question.ToolResults, question.Files, question.Context}

func validateJudge(at place, r *Rule) error {
	if r.Kind == ByJudge || r.Kind == Prefer {
		if r.Criteria != "" && r.CriteriaFile != "" {
			return at.bad("a grader of kind %s needs criteria or criteria_file, and not both", r.Kind)
		}
		if r.Criteria == "" && r.CriteriaFile == "" && r.Template == "" {
			return at.bad("a grader of kind %s needs criteria or criteria_file, and not both; with a template of its own it can do without", r.Kind)
		}
	}
	for i, part := range r.Sees {
		if !slices.Contains(seeable, part) || slices.Contains(r.Sees[:i], part) {
			return at.in("sees", fmt.Sprint(i)).bad("is %.40q, expected each of %s at most once", part, strings.Join(seeable, ", "))
		}
	}
	if slices.Contains(r.Sees, question.Files) != (len(r.Files) > 0) {
		return at.in("files").bad("the names or patterns of files belong with sees: [files], and the other way round")
	}
	if len(r.Files) > maxFilePatterns {
		return at.in("files").bad("has %d, expected at most %d", len(r.Files), maxFilePatterns)
	}
	for i, p := range r.Files {
		if _, err := path.Match(p, ""); err != nil || p == "" || path.IsAbs(p) {
			return at.in("files", fmt.Sprint(i)).bad("is %.100q, expected a name or a pattern such as src/*.go", p)
		}
	}
	if r.Scale != nil && len(r.Choices) > 0 {
		return at.in("choices").bad("there is a scale too, expected one of them")
	}
	if r.ContextTool != "" && r.Kind != Faithful && r.Kind != Precise && r.Kind != Recalled && !slices.Contains(r.Sees, question.Context) {
		return at.in("context_tool").bad("the judge is not shown the context: add it to sees")
	}
	return validatePanel(at, r)
}

func validatePanel(at place, r *Rule) error {
	switch {
	case len(r.Panel) == 0 && (r.Combine != "" || r.Quorum != 0):
		return at.bad("combine and quorum are for a panel, and there is none")
	case len(r.Panel) == 0:
		return nil
	case len(r.Panel) < 2 || len(r.Panel) > maxPanel:
		return at.in("panel").bad("has %d judges, expected 2 to %d", len(r.Panel), maxPanel)
	case !slices.Contains(question.Combinations(), r.Combine):
		return at.in("combine").bad("is %.40q, expected %s", r.Combine, strings.Join(question.Combinations(), ", "))
	case r.Quorum < 0 || r.Quorum > len(r.Panel):
		return at.in("quorum").bad("is %d, expected 1 to %d, the judges of the panel", r.Quorum, len(r.Panel))
	}
	for i, name := range r.Panel {
		if name == "" || slices.Contains(r.Panel[:i], name) {
			return at.in("panel", fmt.Sprint(i)).bad("is %.80q, expected the names of different judges of judge.yaml", name)
		}
	}
	return nil
}

// checkContext bounds the passages of a case.
func (s *Spec) checkContext(at place) error {
	if len(s.Context) > maxPassages {
		return at.bad("has %d passages, expected at most %d", len(s.Context), maxPassages)
	}
	total := 0
	for i, p := range s.Context {
		if total += len(p); strings.TrimSpace(p) == "" || !utf8.ValidString(p) {
			return at.in(fmt.Sprint(i)).bad("is empty, expected a passage")
		}
	}
	if total > maxContextBytes {
		return at.bad("has %d bytes, expected at most %d", total, maxContextBytes)
	}
	return nil
}

func (c *compiler) judge(at place, n *node, r *Rule) error {
	c.grader.judge = true
	spec := &JudgeSpec{Criteria: r.Criteria, Votes: max(1, r.Votes), Threshold: 0.5, sees: r.Sees, files: r.Files, contextTool: r.ContextTool,
		panel: r.Panel, combine: r.Combine, quorum: r.Quorum}
	n.judge = spec
	if r.Threshold != nil {
		spec.Threshold = *r.Threshold
	}
	if spec.quorum == 0 {
		spec.quorum = len(spec.panel)
	}
	for _, name := range r.Panel {
		if !slices.Contains(c.grader.panel, name) {
			c.grader.panel = append(c.grader.panel, name)
		}
	}
	if r.CriteriaFile != "" {
		data, err := c.file(at.in("criteria_file"), r.CriteriaFile)
		if err != nil {
			return err
		}
		spec.Criteria = string(data)
	}
	if (r.Criteria != "" || r.CriteriaFile != "") && strings.TrimSpace(spec.Criteria) == "" {
		return at.bad("the criteria are empty")
	}
	if err := c.judgeForm(at, spec, r); err != nil {
		return err
	}
	if err := c.judgeContext(at, spec, r); err != nil {
		return err
	}
	if err := c.judgeExpected(at, n, r); err != nil {
		return err
	}
	return c.judgeTemplate(at, spec, r)
}

// judgeForm says what a judge replies with.
func (c *compiler) judgeForm(at place, spec *JudgeSpec, r *Rule) (err error) {
	switch {
	case r.Scale != nil:
		spec.Form = question.OfScale
		spec.Scale, err = question.Anchored(r.Scale.Anchors)
		at = at.in("scale")
	case len(r.Choices) > 0:
		spec.Form = question.OfScale
		spec.Scale, err = question.Labelled(r.Choices)
		at = at.in("choices")
	case r.Kind != ByJudge:
		spec.Form = question.Form(r.Kind)
	}
	if err != nil {
		return &placed{at, err}
	}
	return nil
}

// judgeContext finds the passages, unless a tool gives them while the case runs.
func (c *compiler) judgeContext(at place, spec *JudgeSpec, r *Rule) error {
	needs := slices.Contains(r.Sees, question.Context) || r.Kind == Faithful || r.Kind == Precise || r.Kind == Recalled
	switch {
	case !needs:
		return nil
	case r.ContextTool != "":
		if err := c.toolName(r.ContextTool); err != nil {
			return &placed{at.in("context_tool"), err}
		}
	case len(c.context) == 0:
		return at.bad("the judge is to see the context, and the case gives none: add context, a list of passages, or context_tool")
	}
	if r.ContextTool == "" {
		spec.Context = c.context
	}
	return nil
}

// judgeExpected finds the expected answer, and the one to compare with.
func (c *compiler) judgeExpected(at place, n *node, r *Rule) (err error) {
	// A judge may do without an expected answer; one that the rule names must
	// be there, and so must the one that an answer is compared with.
	must := r.Kind == Prefer || r.Kind == Precise || r.Kind == Recalled
	named := r.Expected != nil || r.ExpectedPointer != nil || r.ExpectedFile != ""
	if !must && (r.Kind != ByJudge || !named && len(c.m.Expected) == 0) {
		return nil
	}
	if n.expected, err = c.expected(at, r, false); err != nil {
		return err
	}
	if r.Kind == Prefer {
		n.judge.Reference = n.expected
	} else {
		n.judge.Expected = n.expected
	}
	return nil
}

// judgeTemplate reads the template of the class, and holds it against what the
// judge is shown.
func (c *compiler) judgeTemplate(at place, spec *JudgeSpec, r *Rule) error {
	if r.Template == "" {
		return nil
	}
	file := path.Join(bench.JudgesDir, r.Template+".md")
	text, ok := c.m.Judges[r.Template+".md"]
	if !ok {
		return at.in("template").bad("the class has no file %.200s", file)
	}
	t, err := question.ParseTemplate(file, text)
	if err != nil {
		return &placed{at.in("template"), err}
	}
	must, may := []string{question.Answer}, []string{question.Task, question.Expected}
	if r.Kind == Prefer {
		must, may = []string{question.First, question.Second}, []string{question.Task}
	}
	for _, part := range r.Sees {
		if part != question.Answer {
			must = append(must, part)
		}
	}
	if spec.Criteria != "" {
		must = append(must, question.Criteria)
	}
	if len(spec.Scale) > 0 {
		must = append(must, question.ScalePart)
	}
	if err := t.Needs(must, may); err != nil {
		return &placed{at.in("template"), err}
	}
	spec.Template = t
	return nil
}

// judge asks a model, or a panel of some. A judge that failed gives no score,
// which is not zero.
func (r *run) judge(n *node, d *Detail, v extract.Value, counts bool) tally {
	if !v.Found {
		return notFound(v)
	}
	r.judged = r.judged || counts
	if r.in.Judge == nil {
		return single(unscored("there is no judge to ask: no judge.yaml names one"))
	}
	spec := *n.judge
	if why := r.look(&spec); why != "" {
		return single(unscored("the judge cannot be shown what it is to see: %s", why))
	}
	if len(spec.panel) > 0 {
		return r.panel(n, &spec, d, v)
	}
	o, why := r.ask(&spec, v)
	d.Votes, d.Choice, d.Marked, d.Position = o.Votes, o.Choice, o.Marked, o.Position
	if why != "" {
		return single(unscored("%s", why))
	}
	return spec.decide(o.Score, decimal(o.Score).Cmp(decimal(spec.Threshold)) >= 0, o.says())
}

// says tells what a judge said in a line.
func (o *JudgeOutcome) says() string {
	if o.Choice != "" {
		return "the judge chose " + quoted(o.Choice) + ": " + quoted(o.Reason)
	}
	return "the judge says " + quoted(o.Reason)
}

// decide makes a tally of a score.
func (s *JudgeSpec) decide(score float64, pass bool, why string) tally {
	if pass {
		return tally{verdict: verdict{Passed, score, "", why}}
	}
	return single(verdict{Mismatch, score, CodeBelowThreshold, why})
}

// look finds what a judge is shown. Why says what is not there.
func (r *run) look(spec *JudgeSpec) (why string) {
	s := r.in.Source
	for _, part := range spec.sees {
		var view extract.View
		var err error
		switch part {
		case question.Transcript:
			view, err = s.Transcript()
		case question.ToolResults:
			view, err = s.ToolResults()
		case question.Files:
			view, err = s.FilesLike(spec.files)
		default:
			continue
		}
		if err != nil {
			return part + ": " + reasonOf(err)
		}
		spec.Views = append(spec.Views, View{Part: part, View: view})
	}
	if spec.contextTool == "" {
		return ""
	}
	found, err := s.FoundBy(spec.contextTool)
	switch {
	case err != nil:
		return "context: " + reasonOf(err)
	case len(found) == 0:
		return "context: the tool " + spec.contextTool + " gave nothing"
	case len(found) > maxPassages || len(strings.Join(found, "")) > maxContextBytes:
		return fmt.Sprintf("context: the tool %s gave more than %d passages or %d bytes", spec.contextTool, maxPassages, maxContextBytes)
	}
	spec.Context = found
	return ""
}

// ask asks one judge. Why says why there is no score.
func (r *run) ask(spec *JudgeSpec, v extract.Value) (o JudgeOutcome, why string) {
	o, err := r.in.Judge(*spec, v)
	r.events = append(r.events, o.Events...)
	switch {
	case err != nil:
		why = fmt.Sprintf("the judge failed: %v", err)
	case o.Unscored != "":
		why = "the judge: " + o.Unscored
	case !(o.Score >= 0 && o.Score <= 1): // also refuses NaN
		why = fmt.Sprintf("the judge gave %v, expected 0 to 1", o.Score)
	}
	return o, why
}

// panel asks every judge of a panel and combines what they say.
func (r *run) panel(n *node, spec *JudgeSpec, d *Detail, v extract.Value) tally {
	p := &PanelDetail{Combine: spec.combine, Quorum: spec.quorum, Members: []MemberDetail{}}
	d.Panel = p
	var opinions []question.Opinion
	first := ""
	for _, name := range spec.panel {
		one := *spec
		one.Judge = name
		o, why := r.ask(&one, v)
		m := MemberDetail{Judge: name, Choice: o.Choice, Marked: o.Marked, Position: o.Position, Votes: o.Votes, Unscored: r.safe(why)}
		if why == "" {
			score := o.Score
			m.Score, m.Why = &score, r.safe(quoted(o.Reason))
			opinions = append(opinions, question.Opinion{Score: o.Score, Choice: o.Choice})
		} else if first == "" {
			first = name + ": " + why
		}
		p.Members = append(p.Members, m)
	}
	if len(opinions) < spec.quorum || len(opinions) == 0 {
		return single(unscored("%d of %d judges gave a verdict, needed %d; %s", len(opinions), len(spec.panel), spec.quorum, first))
	}
	sum, err := question.Combine(spec.combine, opinions, spec.Threshold)
	if err != nil {
		return single(unscored("%v", err))
	}
	p.Differ, p.Range = &sum.Differ, &sum.Range
	r.breakdown[n.part("disagreement")], r.breakdown[n.part("range")] = sum.Differ, sum.Range
	why := fmt.Sprintf("%d of %d judges gave a verdict, by %s it is %v; %v of the pairs differ, the scores range over %v",
		len(opinions), len(spec.panel), spec.combine, short(sum.Score), short(sum.Differ), short(sum.Range))
	return spec.decide(sum.Score, sum.Passed, why)
}

// part is the key in a breakdown of something about a check.
func (n *node) part(what string) string {
	if n.name == "" {
		return "panel." + what
	}
	return n.name + "." + what
}

// short shows a share in a sentence.
func short(x float64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.4f", x), "0"), ".")
}

// IsJudged reports whether a grader asks a model.
func IsJudged(k Kind) bool {
	row := rows[k]
	return row != nil && isIn(row.members, "panel")
}
