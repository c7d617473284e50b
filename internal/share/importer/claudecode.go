package importer

import (
	"maps"
	"slices"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
)

const claudeSession kind = "claude-code"

var claudeCodeHarness = harness{
	name:       "Claude Code sessions",
	recognised: "lines with `sessionId`, `type`, and `uuid` or `message`",
	runs:       "the sessions of a folder",
	scores:     "none",
	parts: []part{
		{kind: claudeSession, together: (*file).dir, fits: func(s *Shape) bool { return s.Has("sessionId", "type") && s.HasAny("uuid", "message") }},
	},
	read: (*session).claudeCode,
}

// claudeCode reads sessions of Claude Code: each is an unscored sample.
func (s *session) claudeCode(g []*file) error {
	b := s.begin("claude-code")
	sessions := map[string]*results.Sample{}
	models, versions := map[string]bool{}, map[string]bool{}
	for _, f := range g {
		err := s.json(f, func(r *jsonstream.Reader) error {
			var row claudeRow
			read := row.fields(r)
			return f.rows(r, "", func() error {
				row = claudeRow{}
				if err := object(r, read); err != nil {
					return err
				}
				if row.session == "" || row.role == "" {
					return nil // a summary, or something that the program notes for itself
				}
				sample := sessions[row.session]
				if sample == nil {
					if len(sessions) == maxHeld {
						return refusal.Newf(refusal.TooLarge, "more than %d sessions", maxHeld)
					}
					sample = &results.Sample{ID: row.session, Trajectory: f.path}
					sessions[row.session] = sample
				}
				row.add(sample)
				note(versions, row.version)
				note(models, row.model)
				b.startedAt(row.at)
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sessions)) {
		if err := b.Add(*sessions[id], ""); err != nil {
			return err
		}
	}
	b.Run.Model, b.Run.HarnessVersion = only(models), only(versions)
	if len(models) > 1 {
		b.Note("sessions with several models")
	}
	b.Check("scores", results.Skip, "sessions have no scores")
	b.finish(g...)
	return nil
}

func note(set map[string]bool, s string) {
	if s != "" && s != "<synthetic>" && len(set) < 100 {
		set[s] = true
	}
}

// only is the one member of a set, or unknown.
func only(set map[string]bool) results.Known {
	if names := slices.Sorted(maps.Keys(set)); len(names) == 1 {
		return results.Known(names[0])
	}
	return ""
}

// claudeRow is one line of a session.
type claudeRow struct {
	session, kind, version, model, role, at string
	side, apiError                          *bool
	said                                    results.Text // text, without tool calls and their results
}

func (row *claudeRow) fields(r *jsonstream.Reader) fields {
	return fields{
		"sessionId": scalar(r, &row.session), "type": scalar(r, &row.kind), "version": scalar(r, &row.version), "timestamp": scalar(r, &row.at),
		"isSidechain": truth(r, &row.side), "isApiErrorMessage": truth(r, &row.apiError),
		"message": inside(r, fields{
			"role": scalar(r, &row.role), "model": scalar(r, &row.model),
			"content": func() error {
				k, err := r.Peek()
				if err != nil || k != jsonstream.Array {
					return text(r, &row.said)()
				}
				return r.Array(func(int) error {
					return inside(r, fields{"text": text(r, &row.said)})()
				})
			},
		}),
	}
}

func (row *claudeRow) add(s *results.Sample) {
	if row.side != nil && *row.side || row.said == (results.Text{}) {
		return // what a subagent said is not the session's answer
	}
	switch {
	case row.role == "user" && s.Input == (results.Text{}):
		s.Input = row.said
	case row.apiError != nil && *row.apiError:
		s.Error = row.said.Head
	case row.role == "assistant":
		s.Answer, s.Error = row.said, ""
	}
}
