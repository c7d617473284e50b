package importer

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
)

// The kinds of files.
const (
	trulensSpans    kind = "trulens-spans"
	trulensDatabase kind = "trulens:database"
)

var trulensHarness = harness{
	name:       "TruLens",
	recognised: "a SQLite database with `trulens_` tables or the older names; spans with `record_attributes` and `record_type`",
	runs:       "an app, or the spans of a folder",
	scores:     "each feedback",
	parts: []part{
		{kind: trulensSpans, together: (*file).dir, fits: func(s *Shape) bool { return s.Has("record_attributes", "record_type") }},
		{kind: trulensDatabase, begins: []string{"SQLite format 3\x00"}, called: "a SQLite database", seeks: true},
	},
	read: func(s *session, g []*file) error {
		if g[0].kind == trulensDatabase {
			return s.trulensDatabase(g[0])
		}
		return s.trulensSpans(g)
	},
}

// trulensRun is an app of TruLens while it is read: records by id.
type trulensRun struct {
	run     *run
	records map[string]*results.Sample
	models  map[string]bool
}

func (s *session) newTruLens() *trulensRun {
	return &trulensRun{run: s.begin("trulens"), records: map[string]*results.Sample{}, models: map[string]bool{}}
}

func (t *trulensRun) record(id string) (*results.Sample, error) {
	s := t.records[id]
	if s == nil {
		if len(t.records) == maxHeld {
			return nil, refusal.Newf(refusal.TooLarge, "more than %d records", maxHeld)
		}
		s = &results.Sample{ID: id, Attempt: 1, Scores: map[string]results.Score{}}
		t.records[id] = s
	}
	return s, nil
}

// score notes a feedback. A record that one feedback looked at twice has two
// values; the mean stands for both.
func (t *trulensRun) score(id, metric string, score results.Score) error {
	s, err := t.record(id)
	if err != nil {
		return err
	}
	if _, twice := s.Scores[metric]; twice {
		t.run.Note("feedbacks that are there twice for one record; the last counts")
	}
	s.Scores[metric] = score
	return nil
}

func (t *trulensRun) finish(files ...*file) error {
	for _, id := range slices.Sorted(maps.Keys(t.records)) {
		if err := t.run.Add(*t.records[id], ""); err != nil {
			return err
		}
	}
	if names := slices.Sorted(maps.Keys(t.models)); len(names) == 1 {
		t.run.Run.Model = results.Known(names[0])
	}
	t.run.Check("means", results.Skip, "TruLens states no means; the metrics are means of the rows that have a score")
	if err := t.run.DeriveMeans(); err != nil {
		return err
	}
	t.run.finish(files...)
	return nil
}

// trulensSpans reads spans: record_root has what was asked and answered,
// eval_root a score of a record.
func (s *session) trulensSpans(g []*file) error {
	t := s.newTruLens()
	for _, f := range g {
		err := s.json(f, func(r *jsonstream.Reader) error {
			return f.rows(r, "", func() error {
				var attributes any
				var began string
				if err := object(r, fields{"record_attributes": anything(r, &attributes), "start_timestamp": scalar(r, &began)}); err != nil {
					return err
				}
				if err := t.span(attributes, began); err != nil {
					return r.Refuse("%v", err)
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return t.finish(g...)
}

const trulensPrefix = "ai.observability."

func (t *trulensRun) span(attributes any, began string) error {
	get := func(name string) any { return member(attributes, trulensPrefix+name) }
	if name := textOf(get("run.name")); name != "" {
		t.run.Run.Task = results.Known(name)
	} else if app := textOf(get("app_name")); app != "" && t.run.Run.Task == "" {
		t.run.Run.Task = results.Known(app)
	}
	if model := textOf(get("cost.model")); model != "" && len(t.models) < 100 {
		t.models[model] = true
	}
	t.run.startedAt(began)
	switch textOf(get("span_type")) {
	case "record_root":
		s, err := t.record(textOf(get("record_id")))
		if err != nil {
			return err
		}
		s.Trajectory = s.ID
		for _, part := range []struct {
			name string
			to   *results.Text
		}{{"record_root.input", &s.Input}, {"record_root.output", &s.Answer}, {"record_root.ground_truth_output", &s.Expected}} {
			if v := get(part.name); v != nil {
				*part.to = results.TextOf(compact(v))
			}
		}
		s.Error = results.Cut(textOf(get("record_root.error")))
	case "eval_root":
		return t.evalRoot(get)
	}
	return nil
}

func (t *trulensRun) evalRoot(get func(string) any) error {
	metric := textOf(get("eval_root.metric_name"))
	if metric == "" {
		metric = textOf(get("eval.metric_name"))
	}
	id := textOf(get("eval.target_record_id"))
	if id == "" {
		id = textOf(get("record_id"))
	}
	score, err := results.AnyScore(get("eval_root.score"))
	if err != nil {
		return fmt.Errorf("the score %s: %w", metric, err)
	}
	if failed := textOf(get("eval_root.error")); failed != "" {
		score = results.Score{Said: results.Cut(failed)}
	}
	if judge := textOf(get("eval.llm_judge_name")); judge != "" {
		t.run.Judge(metric, judge, "")
	}
	return t.score(id, metric, score)
}

// trulensDatabase reads the SQLite database of an older TruLens, whose feedbacks
// are rows, or of a newer one, whose spans are.
func (s *session) trulensDatabase(f *file) error {
	src, err := f.openFile()
	if err != nil {
		return err
	}
	hashed := jsonstream.NewCopy(patient{s.ctx, src})
	sum, _, err := hashed.Sum()
	src.Close()
	if err != nil {
		return unreadable(f.path, err)
	}
	f.sum = hex.EncodeToString(sum[:])
	db, err := openSQLite(s.ctx, f.path)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := s.trulensTables(f, db); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}

func (s *session) trulensTables(f *file, db *sqliteFile) error {
	tables, err := db.Tables()
	if err != nil {
		return err
	}
	prefix := ""
	if tables["trulens_records"] || tables["trulens_events"] {
		prefix = "trulens_"
	}
	read := false
	if tables[prefix+"records"] && tables[prefix+"feedbacks"] {
		n, err := s.trulensRecords(f, db, prefix, tables)
		if err != nil {
			return err
		}
		read = n > 0
	}
	if tables["trulens_events"] {
		n, err := s.trulensEvents(f, db)
		if err != nil {
			return err
		}
		read = read || n > 0
	}
	if !read {
		return unrecognised("a SQLite database without records of TruLens")
	}
	return nil
}

// trulensRecords reads records and feedbacks. Each app is a run.
func (s *session) trulensRecords(f *file, db *sqliteFile, prefix string, tables map[string]bool) (int, error) {
	apps := map[string]*trulensRun{}
	of := map[string]string{} // record to app
	err := db.Rows(prefix+"records", []string{"record_id", "app_id", "input", "output", "ts"}, func(row []any) error {
		record, app := sqlText(row[0]), sqlText(row[1])
		t := apps[app]
		if t == nil {
			t = s.newTruLens()
			t.run.Run.Task = results.Known(app)
			apps[app] = t
		}
		sample, err := t.record(record)
		if err != nil {
			return err
		}
		of[record] = app
		sample.Input, sample.Answer = jsonText(sqlText(row[2])), jsonText(sqlText(row[3]))
		if at := results.Epoch(sqlText(row[4])); at != "" && (t.run.Run.StartedAt == "" || at < t.run.Run.StartedAt) {
			t.run.Run.StartedAt = at
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = db.Rows(prefix+"feedbacks", []string{"record_id", "name", "status", "error", "result"}, func(row []any) error {
		t := apps[of[sqlText(row[0])]]
		if t == nil {
			return nil // of a record that was deleted
		}
		score, err := results.TextScore(sqlText(row[4]))
		if err != nil {
			return err
		}
		if sqlText(row[3]) != "" || strings.EqualFold(sqlText(row[2]), "failed") {
			score = results.Score{Said: results.Cut(sqlText(row[3]))}
		}
		return t.score(sqlText(row[0]), sqlText(row[1]), score)
	})
	if err != nil {
		return 0, err
	}
	if err := s.trulensNames(db, prefix, tables, apps); err != nil {
		return 0, err
	}
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		if err := apps[app].finish(f); err != nil {
			return 0, err
		}
	}
	return len(apps), nil
}

// trulensNames gives the runs the names of their apps, where the database has
// them.
func (s *session) trulensNames(db *sqliteFile, prefix string, tables map[string]bool, apps map[string]*trulensRun) error {
	if !tables[prefix+"apps"] {
		return nil
	}
	columns, err := db.Columns(prefix + "apps")
	if err != nil || !slices.Contains(columns, "app_name") || !slices.Contains(columns, "app_version") {
		return err
	}
	return db.Rows(prefix+"apps", []string{"app_id", "app_name", "app_version"}, func(row []any) error {
		if t := apps[sqlText(row[0])]; t != nil && sqlText(row[1]) != "" {
			t.run.Run.Task = results.Known(sqlText(row[1]))
			t.run.Note("the app's version is " + results.Cut(sqlText(row[2])))
		}
		return nil
	})
}

func (s *session) trulensEvents(f *file, db *sqliteFile) (int, error) {
	n := 0
	var t *trulensRun
	err := db.Rows("trulens_events", []string{"record_attributes", "start_timestamp"}, func(row []any) error {
		if n++; t == nil {
			t = s.newTruLens()
		}
		r, err := jsonstream.NewReader(strings.NewReader(sqlText(row[0])))
		if err != nil {
			return err
		}
		attributes, err := r.Any(maxSmall)
		if err != nil {
			return fmt.Errorf("trulens_events row %d: record_attributes: %w", n, err)
		}
		return t.span(attributes, sqlText(row[1]))
	})
	if err != nil || t == nil {
		return n, err
	}
	return n, t.finish(f)
}

// sqlText is a column as text. SQLite keeps whatever bytes it was given; what is
// not UTF-8 is shown as such, since our own JSON could not carry it.
func sqlText(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case []byte:
		return strings.ToValidUTF8(string(x), "\ufffd")
	}
	return strings.ToValidUTF8(fmt.Sprint(v), "\ufffd")
}

// jsonText is the text of a JSON string, or the column itself.
func jsonText(s string) results.Text {
	if s == "" {
		return results.Text{}
	}
	if r, err := jsonstream.NewReader(strings.NewReader(s)); err == nil && strings.HasPrefix(s, `"`) {
		if d, err := r.Digest(results.HeadBytes); err == nil && r.End() == nil {
			return results.TextFrom(d)
		}
	}
	return results.TextOf(s)
}
