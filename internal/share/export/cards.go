package export

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tallystick/internal/read/gate"
	"tallystick/internal/record/plain"
)

// Hub says how Hugging Face names the dataset of a bench.
type Hub struct {
	Dataset string // org/name; the class if it is ""
	Task    string // "default" if it is ""
}

var hfFormat = Format{Name: "hf", Is: "Hugging Face .eval_results, and snippets for the cards of model and dataset", Files: "`.eval_results/<attempt>.yaml`, `model-card.md`, `dataset-card.md`", Folder: true, Flags: []string{"dataset-id", "task-id"},
	Write: func(a *Facts, h Hub) ([]File, error) { return HuggingFace(a, h), nil }}

// HuggingFace writes the .eval_results file of a model repository and snippets for
// its card and for the dataset's. The Hub shows such a result as reported: its own
// badge is for runs on its own machines. The receipt is what proves it.
func HuggingFace(a *Facts, h Hub) []File {
	dataset, task := h.Dataset, h.Task
	if dataset == "" {
		dataset = a.Class
	}
	if task == "" {
		task = "default"
	}
	t := a.Totals()
	value := t.SolveRate
	at := a.Ended
	if at.IsZero() {
		at = a.Started
	}
	var y strings.Builder
	fmt.Fprintf(&y, "- dataset:\n    id: %s\n    task_id: %s\n  value: %s\n  date: %s\n", quoted(dataset), quoted(task), decimal(100*value), quoted(at.UTC().Format(time.DateOnly)))
	if a.Address != "" {
		fmt.Fprintf(&y, "  source:\n    url: %s\n    name: %s\n", quoted(a.Address), quoted("Tallystick receipt, ledger "+a.Origin))
	}
	fmt.Fprintf(&y, "  notes: %s\n", quoted(a.sentence()))
	return []File{
		{".eval_results/" + safeName(a.ID) + ".yaml", []byte(y.String())},
		{"model-card.md", []byte(a.card("Evaluation: "+a.Class, dataset))},
		{"dataset-card.md", []byte(a.card("Result of "+a.model(), dataset))},
	}
}

// quoted is a text in JSON's quotes, which YAML reads as it stands.
func quoted(s string) string {
	data, err := json.Marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return `""`
	}
	return string(data)
}

// sentence says in one line what was measured and how well it is vouched for.
func (a *Facts) sentence() string {
	t := a.Totals()
	said := fmt.Sprintf("solve rate: %d of %d cases of %s, attempt %d of %d, level %s, bench %s, ledger %s", t.Passed, t.Total, a.Class, a.Number, a.Of, a.Level, a.Bench, a.Origin)
	said += fmt.Sprintf("; gate %s: %s", a.Decision.State(), a.Decision.Reason)
	for _, q := range a.Qualifications {
		said += "; " + q
	}
	if text := a.correctionsText(); text != "" {
		said += "; these numbers are as recorded; beside them: " + text
	}
	return said
}

// card is a part of a model's or a dataset's card. What others wrote is in code
// spans, in which Markdown does nothing.
func (a *Facts) card(title, dataset string) string {
	t := a.Totals()
	low, high := wilson(t.Passed, t.Total)
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n| | |\n|---|---|\n", code(title))
	row := func(name, value string) { fmt.Fprintf(&b, "| %s | %s |\n", name, value) }
	row("dataset", code(dataset))
	row("model", code(a.model()))
	row("solve rate", fmt.Sprintf("%s (%d of %d), 95%% from %.4f to %.4f", plain.Score(t.SolveRate, 4), t.Passed, t.Total, low, high))
	if t.Mean != nil {
		row("mean score", fmt.Sprintf("%s over %d with a score", plain.Score(*t.Mean, 4), t.Scored))
	}
	row("attempt", fmt.Sprintf("%s, number %d of %d, level %s", code(a.ID), a.Number, a.Of, a.Level))
	row("gate", code(a.Decision.Text()))
	for _, q := range a.Qualifications {
		row("note", code(q))
	}
	for _, c := range a.Corrections() {
		row("corrected", code(c.Text()))
	}
	if now := a.AsCorrected(); now != nil {
		row("as corrected", code(now.text())+", the numbers above are as recorded")
	}
	row("bench", code(a.Bench))
	row("ledger", code(a.Origin))
	if a.Address != "" {
		row("receipt", code(a.Address))
	}
	row("check it with", code("tally-verify --key "+a.Key+" RECEIPT"))
	return b.String()
}

// code puts text into a code span that a table can hold.
func code(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '`' || r == '|' || r < ' ' {
			return ' '
		}
		return r
	}, s)
	return "`" + s + "`"
}

// wilson is the 95 % score interval of a share (Wilson 1927).
func wilson(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	p, m := float64(k)/float64(n), float64(n)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, middle-half), min(1, middle+half)
}

var cycloneDXFormat = Format{Name: "cyclonedx", Is: "a bill of materials with the model's metrics", Files: "a bill of materials, CycloneDX 1.6",
	Write: func(a *Facts, _ Hub) ([]File, error) { return CycloneDX(a) }}

// CycloneDX writes a bill of materials with the model and how it performed.
func CycloneDX(a *Facts) ([]File, error) {
	t := a.Totals()
	low, high := wilson(t.Passed, t.Total)
	metrics := []any{map[string]any{"type": "solve_rate", "value": decimal(t.SolveRate), "slice": a.Class,
		"confidenceInterval": map[string]string{"lowerBound": decimal(low), "upperBound": decimal(high)}}}
	if t.Mean != nil {
		metrics = append(metrics, map[string]any{"type": "mean_score", "value": decimal(*t.Mean), "slice": a.Class})
	}
	properties := []any{}
	said := a.proof()
	for _, name := range slices.Sorted(maps.Keys(said)) {
		properties = append(properties, map[string]string{"name": "tallystick:" + name, "value": said[name]})
	}
	at := a.Ended
	if at.IsZero() {
		at = a.Started
	}
	component := map[string]any{
		"type": "machine-learning-model", "bom-ref": "model", "name": a.model(),
		"modelCard":  map[string]any{"quantitativeAnalysis": map[string]any{"performanceMetrics": metrics}},
		"properties": properties,
	}
	if a.Address != "" {
		component["externalReferences"] = []any{map[string]string{"type": "attestation", "url": a.Address}}
	}
	f, err := file("bom.cdx.json", map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": map[string]any{"timestamp": at.UTC().Format(time.RFC3339),
			"tools": map[string]any{"components": []any{map[string]string{"type": "application", "name": "tallystick", "version": orUnknown(a.Version)}}}},
		"components": []any{component},
	})
	return []File{f}, err
}

var croissantFormat = Format{Name: "croissant", Is: "Croissant Tasks", Files: "Croissant Tasks, JSON-LD", Flags: []string{"dataset-id", "task-id"}, Write: Croissant}

// Croissant writes the attempt in the vocabulary of Croissant Tasks: the bench is a
// problem, the target solves it, the attempt evaluates the solution.
func Croissant(a *Facts, h Hub) ([]File, error) {
	t := a.Totals()
	base := "urn:tallystick:" + hexOf(a.Registration)
	result := func(metric string, value float64) map[string]any {
		return map[string]any{"@type": "croissant:EvaluationResult", "croissant:metric": metric, "croissant:value": value}
	}
	results := []any{result("solve_rate", t.SolveRate)}
	if t.Mean != nil {
		results = append(results, result("mean_score", *t.Mean))
	}
	dataset := map[string]any{"@type": "schema:Dataset", "@id": base + "#cases", "schema:name": a.Class, "schema:identifier": a.Bench}
	if h.Dataset != "" {
		dataset["schema:sameAs"] = "https://huggingface.co/datasets/" + h.Dataset
	}
	f, err := file("croissant-task.jsonld", map[string]any{
		"@context": map[string]string{"croissant": "http://mlcommons.org/croissant/", "schema": "https://schema.org/"},
		"@graph": []any{
			map[string]any{"@type": "croissant:TaskProblem", "@id": base + "#problem", "schema:name": a.Class, "croissant:input": dataset,
				"croissant:output": map[string]any{"@type": "croissant:OutputSpec", "croissant:schema": map[string]any{
					"@type": "croissant:RecordSet", "@id": base + "#answers", "schema:name": "answers",
					"croissant:field": map[string]any{"@type": "croissant:Field", "@id": base + "#answer", "schema:name": "answer", "croissant:dataType": "schema:Text"}}}},
			map[string]any{"@type": "croissant:TaskSolution", "@id": base + "#solution", "schema:isBasedOn": map[string]string{"@id": base + "#problem"},
				"croissant:implementation": map[string]any{"@type": "schema:SoftwareApplication", "@id": base + "#target", "schema:name": a.Target + " with " + a.model()}},
			map[string]any{"@type": "croissant:EvaluationTask", "@id": base + "#evaluation", "croissant:evaluatedSolution": map[string]string{"@id": base + "#solution"},
				"croissant:evaluationResults": results, "schema:identifier": a.proof(), "schema:description": a.sentence()},
		},
	})
	return []File{f}, err
}

// A Label is what a badge says.
type Label struct {
	Name, Value string
	Imported    bool       // imported, not observed
	State       gate.State // of the attempt's gates, "" if imported
	Title       string
}

// LabelOf is the badge of an attempt.
func LabelOf(a *Facts) Label {
	t := a.Totals()
	value := fmt.Sprintf("%d of %d solved, gate %s, %s", t.Passed, t.Total, a.Decision.State(), a.Level)
	if len(a.Qualifications) > 0 {
		value += ", qualified" // the title says how
	}
	if now := a.AsCorrected(); now != nil {
		value += fmt.Sprintf(", as corrected %d of %d", now.Passed, now.Total) // by whom is in the title
	}
	return Label{Name: a.Class, Value: value, State: a.Decision.State(), Title: a.sentence()}
}

var badgeFormat = Format{Name: "badge", Is: "an SVG; ATTEMPT may also be a result file, whose badge says that it was imported, not observed", Files: "an SVG",
	Write: func(a *Facts, _ Hub) ([]File, error) { return Badge(LabelOf(a)), nil }}

// Badge draws a label as SVG. Everything in it is escaped text: it loads nothing
// and runs nothing.
func Badge(l Label) []File {
	value, colour := l.Value, "#6a6a6a"
	switch {
	case l.Imported:
		value += ", imported, not observed"
	case l.State == gate.IsMet:
		colour = "#2f6f44"
	case l.State == gate.IsNotMet:
		colour = "#8f1d1d"
	}
	// Verdana at 11 pixels is about 6.5 wide; textLength makes it fit exactly.
	left, right := 10+int(6.5*float64(len([]rune(l.Name)))), 10+int(6.5*float64(len([]rune(value))))
	text := func(x, width int, s string) string {
		return fmt.Sprintf(`<text x="%d" y="14" textLength="%d">%s</text>`, x, width-10, escapeXML(s))
	}
	svg := `<svg xmlns="http://www.w3.org/2000/svg" width="` + strconv.Itoa(left+right) + `" height="20" role="img">` +
		"<title>" + escapeXML(l.Title) + "</title>" +
		fmt.Sprintf(`<rect width="%d" height="20" fill="#444"/><rect x="%d" width="%d" height="20" fill="%s"/>`, left, left, right, colour) +
		`<g fill="#fff" font-family="Verdana,sans-serif" font-size="11">` + text(5, left, l.Name) + text(left+5, right, value) + "</g></svg>\n"
	return []File{{"badge.svg", []byte(svg)}}
}

// escapeXML escapes text and drops what XML cannot hold.
func escapeXML(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(s)
}
