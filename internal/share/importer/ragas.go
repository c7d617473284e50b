package importer

import (
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
)

// The kinds of files.
const (
	ragasJSON kind = "ragas:json"
	ragasCSV  kind = "ragas:csv"
)

var ragasHarness = harness{
	name:       "RAGAS",
	recognised: "columns `user_input` with `response`, `reference` or `retrieved_contexts`, or the older names; CSV, records, lines, columns, annotations",
	runs:       "a file",
	scores:     "each column that holds numbers",
	parts: []part{
		{kind: ragasJSON, fits: func(s *Shape) bool {
			return s.Has("user_input") && s.HasAny("response", "reference", "retrieved_contexts") ||
				s.Has("question", "answer") && s.HasAny("contexts", "ground_truth", "ground_truths") || s.Below("", "[].metric_input")
		}},
		{kind: ragasCSV, columns: isRAGAS, called: "a table with RAGAS columns"},
	},
	read: alone(map[kind]func(*session, *file) error{ragasJSON: (*session).ragasJSON, ragasCSV: (*session).ragasCSV}),
}

// maxRecord bounds one record of a table: an open quote would swallow the file.
const maxRecord = 64 << 20

// ragasText are the columns that hold texts, by what they are here. Other
// columns are metrics if they hold numbers.
var ragasText = map[string]string{
	"user_input": "input", "question": "input",
	"response": "answer", "answer": "answer",
	"reference": "expected", "ground_truth": "expected", "ground_truths": "expected",
	"retrieved_contexts": "", "contexts": "", "reference_contexts": "", "rubrics": "", "rubric": "", "multi_responses": "", "reference_topics": "",
	"reference_tool_calls": "", "persona_name": "", "query_style": "", "query_length": "", "synthesizer_name": "", "": "",
}

func isRAGAS(columns []string) bool {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(columns, n) })
	}
	return has("user_input") && has("response", "reference", "retrieved_contexts") ||
		has("question") && has("answer") && has("contexts", "ground_truth", "ground_truths")
}

// ragasRun is a table while it is read.
type ragasRun struct {
	run  *run
	rows int
	text map[string]bool // columns that hold text that is not a number
}

func (s *session) newRAGAS() *ragasRun {
	return &ragasRun{run: s.begin("ragas"), text: map[string]bool{}}
}

// ragasCSV reads what EvaluationResult.to_pandas().to_csv() writes. A blank cell
// is a metric that failed, not a zero.
func (s *session) ragasCSV(f *file) error {
	g := s.newRAGAS()
	err := s.bytes(f, func(src io.Reader) error {
		bounded := &recordBound{src: src, left: maxRecord}
		r := csv.NewReader(bounded)
		r.ReuseRecord = true
		header, err := r.Read()
		if err != nil {
			return csvRefusal(err)
		}
		if err := checkCells(r, header); err != nil {
			return err
		}
		columns := slices.Clone(header)
		columns[0] = strings.TrimPrefix(columns[0], "\xef\xbb\xbf")
		if err := checkColumns(columns); err != nil {
			return refusal.Newf(refusal.Malformed, "line 1: %w", err).WithHint("%s", refusal.Of(err).Hint)
		}
		for {
			bounded.left = maxRecord
			record, err := r.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return csvRefusal(err)
			}
			if err := checkCells(r, record); err != nil {
				return err
			}
			if err := g.row(columns, record); err != nil {
				line, _ := r.FieldPos(0)
				return refusal.Newf(refusal.Malformed, "line %d: %w", line, err)
			}
		}
	})
	if err != nil {
		return err
	}
	return g.finish(f)
}

// checkCells refuses text in another encoding: the names of columns become those
// of metrics.
func checkCells(r *csv.Reader, record []string) error {
	for i, cell := range record {
		if !utf8.ValidString(cell) {
			line, column := r.FieldPos(i)
			return refusal.Newf(refusal.Malformed, "line %d, column %d: not UTF-8", line, column)
		}
	}
	return nil
}

func csvRefusal(err error) error {
	var named *refusal.Error
	if errors.As(err, &named) {
		return err
	}
	return refusal.Newf(refusal.Malformed, "reading the table: %v", err)
}

// recordBound gives an error when one record is too long.
type recordBound struct {
	src  io.Reader
	left int
}

func (b *recordBound) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, refusal.Newf(refusal.TooLarge, "one record has more than %d bytes: a quote may be missing", maxRecord)
	}
	n, err := b.src.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (g *ragasRun) row(columns, record []string) error {
	row := g.begin()
	for i, cell := range record {
		if i >= len(columns) {
			break
		}
		if part, isText := ragasText[columns[i]]; isText {
			if cell != "" {
				row.put(part, results.TextOf(cell))
			}
			continue
		}
		score, err := results.TextScore(cell)
		if err != nil {
			return err
		}
		g.score(row, columns[i], score)
	}
	return g.run.Add(row.Sample, "")
}

// ragasRow is one sample while it is read.
type ragasRow struct{ results.Sample }

func (g *ragasRun) begin() *ragasRow {
	g.rows++
	return &ragasRow{results.Sample{ID: strconv.Itoa(g.rows), Attempt: 1, Scores: map[string]results.Score{}}}
}

func (row *ragasRow) put(part string, t results.Text) {
	switch part {
	case "input":
		row.Input = t
	case "answer":
		row.Answer = t
	case "expected":
		row.Expected = t
	}
}

// score notes a score. Text that is not a number, nor a word for none, makes
// its column one of text.
func (g *ragasRun) score(row *ragasRow, column string, s results.Score) {
	if s.Value == nil && !slices.Contains([]string{"", "nan", "none", "null", "n/a"}, strings.ToLower(strings.TrimSpace(s.Said))) {
		g.text[column] = true
	}
	if !g.text[column] {
		row.Scores[column] = s
	}
}

// ragasJSON reads records, lines of them, a table by columns as pandas writes
// by default, or annotations of metrics.
func (s *session) ragasJSON(f *file) error {
	g := s.newRAGAS()
	err := s.json(f, func(r *jsonstream.Reader) error {
		for name, k := range f.shape.Kinds {
			if k == jsonstream.Array && f.shape.Has(name+"[].metric_input") {
				return g.annotations(r)
			}
		}
		if f.shape.Kinds["user_input"] == jsonstream.Object || f.shape.Kinds["question"] == jsonstream.Object {
			return g.columns(r)
		}
		return f.rows(r, "", func() error {
			row := g.begin()
			if err := r.Object(func(name string) error { return g.value(r, row, name) }); err != nil {
				return err
			}
			return g.run.Add(row.Sample, "")
		})
	})
	if err != nil {
		return err
	}
	return g.finish(f)
}

func (g *ragasRun) value(r *jsonstream.Reader, row *ragasRow, name string) error {
	if part, isText := ragasText[name]; isText {
		var t results.Text
		err := text(r, &t)()
		if t != (results.Text{}) {
			row.put(part, t)
		}
		return err
	}
	k, err := r.Peek()
	if err != nil || k == jsonstream.Object || k == jsonstream.Array {
		return err
	}
	score, err := readScore(r)
	if err == nil {
		g.score(row, name, score)
	}
	return err
}

// columns reads {"column":{"0":value,...},...}.
func (g *ragasRun) columns(r *jsonstream.Reader) error {
	rows := map[string]*ragasRow{}
	var order []string
	err := r.Object(func(column string) error {
		k, err := r.Peek()
		if err != nil || k != jsonstream.Object {
			return err
		}
		return r.Object(func(index string) error {
			row := rows[index]
			if row == nil {
				if len(rows) == maxHeld {
					return refusal.Newf(refusal.TooLarge, "more than %d rows in a table by columns", maxHeld)
				}
				row = g.begin()
				row.ID = index
				rows[index] = row
				order = append(order, index)
			}
			return g.value(r, row, column)
		})
	})
	if err != nil {
		return err
	}
	for _, index := range order {
		if err := g.run.Add(rows[index].Sample, ""); err != nil {
			return err
		}
	}
	return nil
}

// annotations reads {"metric":[{metric_input, metric_output, is_accepted}]}.
func (g *ragasRun) annotations(r *jsonstream.Reader) error {
	return r.Object(func(metric string) error {
		return list(r, func(int) error {
			row := g.begin()
			var accepted *bool
			var prompts any
			err := object(r, fields{
				"metric_input":  text(r, &row.Input),
				"metric_output": func() error { s, err := readScore(r); row.Scores[metric] = s; return err },
				"is_accepted":   truth(r, &accepted), "prompts": anything(r, &prompts),
			})
			if err != nil {
				return err
			}
			m, _ := prompts.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(m)) {
				g.run.Judge(metric+"/"+name, "", textOf(member(m[name], "prompt_input")))
			}
			return g.run.Add(row.Sample, metric)
		})
	})
}

func (g *ragasRun) finish(f *file) error {
	for _, name := range slices.Sorted(maps.Keys(g.text)) {
		g.run.Note("a column that is not a metric: " + results.Cut(name))
	}
	g.run.Check("means", results.Skip, "the file states no means; the metrics are means of the rows that have a score")
	if err := g.run.DeriveMeans(); err != nil {
		return err
	}
	for name := range g.text {
		delete(g.run.Run.Metrics, results.MetricKey(name, "mean"))
	}
	g.run.CheckAttempts()
	g.run.finish(f)
	return nil
}
