package harness

import (
	"context"
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

// embed gives a grader the vectors of texts: those that the evidence has
// already, else from the model that answers the judge of this case. An error
// that says nothing about the vectors goes to broken.
func (r *run) embed(ctx context.Context, g *Graded, broken *error) func(string, []string) (grade.Embedded, string) {
	return func(model string, texts []string) (grade.Embedded, string) {
		m, err := r.vectors(ctx, model, wire.EmbeddingRequest(model, texts))
		switch {
		case ctx.Err() != nil:
			*broken = context.Cause(ctx)
			return grade.Embedded{}, "the run was stopped"
		case refusal.Is(err, refusal.JournalDiffers), refusal.Is(err, refusal.ReplyInvalid):
			*broken = err
			return grade.Embedded{}, err.Error()
		case isUnanswered(err):
			class := r.w.cfg.Bench.Class()
			r.unjudged = true
			return grade.Embedded{}, fmt.Sprintf("none are recorded for these texts; \"tally record %s\" records them, \"tally run %s --live\" asks for them", class, class)
		case err != nil:
			return grade.Embedded{}, err.Error()
		case m.Response.Status >= 400:
			return grade.Embedded{}, fmt.Sprintf("the provider answered with status %d: %s", m.Response.Status, wire.Head(wire.FailureMessage(m.Response.Body)))
		case m.Response.Body == nil:
			return grade.Embedded{}, "the provider's reply is not JSON"
		}
		e := grade.Embedded{Request: *g.put(m.Request), Reply: *g.put(m.Response.Body)}
		g.Files.Embeddings = append(g.Files.Embeddings, evidence.EmbeddingFiles{Request: e.Request, Reply: e.Reply})
		if e.Vectors, err = wire.ReadEmbeddings(m.Response.Body, len(texts)); err != nil {
			return e, "the provider's reply: " + err.Error()
		}
		return e, ""
	}
}

// vectors makes the call, or finds what it gave before.
func (r *run) vectors(ctx context.Context, model string, body []byte) (*cassette.ModelCall, error) {
	request, err := cassette.ModelRequest(wire.Embeddings, body, nil)
	if err != nil {
		return nil, err
	}
	if reply, ok := r.embedded[digest.ContentOf(request.Canonical())]; ok {
		return &cassette.ModelCall{API: wire.Embeddings, Request: request.Canonical(), Response: cassette.Response{Status: 200, Body: reply}}, nil
	}
	models := r.judgeModels()
	if script := session.JudgeScript(&r.c.Scenario, model); script != nil && r.live == nil {
		models = script
	}
	if models == nil {
		return nil, refusal.Newf(refusal.CassetteMiss, "the case has no recording")
	}
	it, err := models.Call(ctx, wire.Embeddings, body, nil)
	if err != nil {
		return nil, err
	}
	return it.Model, nil
}

// loadEmbedded finds the vectors that the evidence has. They are what the answer was
// compared by, whatever the class has recorded since.
func (r *run) loadEmbedded(s Stored) error {
	r.embedded = map[digest.Content][]byte{}
	for _, e := range s.Files.Embeddings {
		reply, err := s.Read(e.Reply)
		if err != nil {
			return err
		}
		r.embedded[e.Request] = reply
	}
	return nil
}
