package site

import (
	"context"
	"encoding/json"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/viewer/layout"
	"tallystick/internal/share/browser"
)

// A row is a line of a list, as the API gives it, with where its page is.
type row struct {
	ID         string           `json:"proposalId"`
	IPPath     string           `json:"ipPath"`
	Thing      registry.Thing   `json:"kind"`
	Artifact   string           `json:"artifactPath"`
	Harness    string           `json:"evalHarnessPath"`
	Dataset    string           `json:"datasetPath"`
	Metrics    canon.RawMessage `json:"metrics"`
	Status     string           `json:"status"`
	Note       string           `json:"note"`
	ProposedAt evidence.Time    `json:"proposedAt"`
	Agent      string           `json:"agent"`
	Runner     string           `json:"runner"`
	Attempt    *attempt         `json:"attempt"`
	Judges     registry.Judges  `json:"judges"`
	Earlier    int              `json:"earlier"`
	Credential string           `json:"credential"`
	Imported   bool             `json:"imported"`

	Attested *registry.Attested `json:"attested"`

	TakenDown bool   `json:"takenDown"`
	Entry     int64  `json:"entry"`
	Decision  *int64 `json:"decision"`

	URL, ArtifactURL, DatasetURL string        `json:"-"`
	Values                       []value       `json:"-"`
	StatusCell                   template.HTML `json:"-"`
}

// An attempt says which of how many runs a score is of.
type attempt struct {
	Number int64 `json:"number"`
	Of     int64 `json:"of"`
}

// A value is one number of a manifest's metrics.
type value struct {
	Name   string // JSON pointer below metrics, without the first slash
	Number float64
	Cell   template.HTML
}

// maxValues bounds the metrics of one row that are shown.
const maxValues = 200

// valuesOf finds the numbers among metrics, which may lie in objects.
func valuesOf(entry int64, metrics []byte) []value {
	doc, err := layout.Decode(metrics)
	if err != nil {
		return nil
	}
	var out []value
	var walk func(v any, name string, depth int)
	walk = func(v any, name string, depth int) {
		switch x := v.(type) {
		case map[string]any:
			if depth > 4 {
				return
			}
			for _, key := range slices.Sorted(maps.Keys(x)) {
				if key == "" {
					continue
				}
				below := strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
				if name != "" {
					below = name + "/" + below
				}
				walk(x[key], below, depth+1)
			}
		case json.Number:
			n, err := x.Float64()
			if err != nil || len(out) >= maxValues || name == "" {
				return
			}
			as := browser.AsNumber
			if n == math.Trunc(n) && math.Abs(n) >= 2 {
				as = browser.AsText // a count
			}
			cell := layout.Cell{Entry: entry, Blob: "/manifest", Field: "/metrics/" + name, As: as}
			raw, _ := as.Show([]byte(x))
			out = append(out, value{name, n, cell.HTML(raw)})
		}
	}
	walk(doc, "", 0)
	return out
}

// find gives the value of a metric.
func (r *row) find(metric string) (value, bool) {
	for _, v := range r.Values {
		if v.Name == metric {
			return v, true
		}
	}
	return value{}, false
}

// Main is the value that stands for a row in a list, if there is one.
func (r *row) Main() *value {
	for _, wanted := range []func(string) bool{isRate, func(name string) bool { return !isError(name) }} {
		for _, v := range r.Values {
			if wanted(v.Name) {
				return &v
			}
		}
	}
	return nil
}

// rates are metrics that count how many samples of all came out right.
var rates = []string{"accuracy", "acc", "acc_norm", "exact_match", "em", "solve_rate", "pass_rate", "success_rate", "resolve_rate", "resolved_rate", "pass@1", "pass_at_1"}

// isRate tells such a metric by its name: "acc,none" is lm-eval's way to name "acc".
func isRate(name string) bool {
	_, last := splitMetric(name)
	base, _, _ := strings.Cut(last, ",")
	return slices.Contains(rates, base)
}

// splitMetric takes the last name of a metric off. A slash may stand in a member's
// name too, where a pointer spells it ~1: Inspect has "SCORER/accuracy".
func splitMetric(name string) (folder, last string) {
	i, inside := strings.LastIndexByte(name, '/')+1, strings.LastIndex(name, "~1")
	if inside >= 0 {
		i = max(i, inside+len("~1"))
	}
	return name[:i], name[i:]
}

// isError tells the name of a standard error from that of a measure.
func isError(name string) bool {
	_, last := splitMetric(name)
	return strings.Contains(last, "stderr")
}

// read decodes rows of a list.
func (s *Site) read(page *registry.Page) ([]*row, error) {
	out := make([]*row, 0, len(page.Rows))
	for _, raw := range page.Rows {
		r := new(row)
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, refusal.Newf(refusal.IndexDiffers, "a row of the database: %w", err)
		}
		r.URL, r.ArtifactURL = s.evaluationURL(r.ID), s.artifactURL(r.Artifact)
		if r.Dataset != "" {
			r.DatasetURL = s.artifactURL(r.Dataset)
		}
		r.Values, r.StatusCell = valuesOf(r.Entry, r.Metrics), statusOf(r.Status, r.Decision)
		out = append(out, r)
	}
	return out, nil
}

// A look is what was found in a part of a list.
type look struct {
	Rows    []*row // those that were wanted
	Looked  int    // at how many rows
	Partial bool   // there are more
}

// scan looks at the newest rows of a list, up to a bound, for those that are wanted.
func (s *Site) scan(ctx context.Context, q registry.Query, most int, want func(*row) bool) (*look, error) {
	out := &look{}
	q.Limit = 200
	for {
		page, err := s.source.List(ctx, q)
		if err != nil {
			return nil, err
		}
		rows, err := s.read(page)
		if err != nil {
			return nil, err
		}
		out.Looked += len(rows)
		for _, r := range rows {
			if want(r) {
				out.Rows = append(out.Rows, r)
			}
		}
		if page.Next == "" {
			return out, nil
		}
		if out.Looked >= most {
			out.Partial = true
			return out, nil
		}
		q.After = page.Next
	}
}
