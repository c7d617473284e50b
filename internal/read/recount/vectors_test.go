package recount

import (
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/wire"
)

// Each row forges one thing about a check by vectors, with digests that fit: only
// computing again finds it.
func TestRecomputeComputesVectorsAgain(t *testing.T) {
	const request = `{"encoding_format":"float","input":["Oslo","Bergen","Oslo, the capital"],"model":"embed-1"}`
	const reply = `{"data":[{"embedding":[1,0],"index":0},{"embedding":[0.6,0.8],"index":1},{"embedding":[0.8,0.6],"index":2}]}`
	for name, tt := range map[string]struct {
		request, reply string
		forge          func(d *embedded)
		unnamed        bool
		want           string
	}{
		"nothing":                    {},
		"a higher score":             {forge: func(d *embedded) { *d.Score = 0.9 }, want: "similarity is 0.9, the records give 0.8"},
		"no score":                   {forge: func(d *embedded) { d.Score = nil }, want: "similarity"},
		"another text is the best":   {forge: func(d *embedded) { d.Embedding.Best = 1 }, want: "best is 1, the records give 2"},
		"a changed vector":           {reply: strings.Replace(reply, "[0.8,0.6]", "[0.9,0.1]", 1), want: "similarity is 0.8, the records give 0.99"},
		"a vector less":              {reply: strings.Replace(reply, `,{"embedding":[0.8,0.6],"index":2}`, "", 1), want: "it has 2 vectors, expected 3"},
		"vectors of another text":    {request: strings.Replace(request, `"Oslo",`, `"Bergen",`, 1), want: "of another text than the answer"},
		"vectors of another model":   {request: strings.Replace(request, "embed-1", "embed-2", 1), want: `of the model \"embed-2\"`},
		"vectors that no index has":  {unnamed: true, want: "named by the index of the evidence"},
		"vectors that are not there": {forge: func(d *embedded) { d.Embedding.Reply = digest.ContentOf([]byte("gone")) }, want: "2 numbers differ"},
	} {
		p := pieces{}
		if tt.request == "" {
			tt.request = request
		}
		if tt.reply == "" {
			tt.reply = reply
		}
		files := evidence.EmbeddingFiles{Request: p.put([]byte(tt.request)), Reply: p.put([]byte(tt.reply))}
		score := 0.8
		d := embedded{Check: "near", Grader: grade.Embedding, Score: &score, Embedding: &grade.EmbeddingDetail{Best: 2, Model: "embed-1", Reply: files.Reply, Request: files.Request}}
		d.Extracted = &struct {
			Digest digest.Content `json:"digest"`
		}{digest.ContentOf([]byte("Oslo"))}
		if tt.forge != nil {
			tt.forge(&d)
		}
		n := &counts{grade: &gradeOf{Checks: []embedded{d}}, embeddings: []evidence.EmbeddingFiles{files}}
		if tt.unnamed {
			n.embeddings = nil
		}
		r := newRecounted()
		if err := r.vectors("entry 1", n, p.read); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch err := r.Err(); {
		case tt.want == "" && (err != nil || r.Checked != 3):
			t.Errorf("%s: %v, %d compared", name, err, r.Checked)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	if got := wire.EmbeddingRequest("embed-1", []string{"Oslo", "Bergen", "Oslo, the capital"}); string(got) != request {
		t.Errorf("the request of the test is not one of the program: %s", got)
	}
}
