package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestTheWayOfAProposal(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()

	// A path that is not there is named, with the route to propose it.
	a := p.post("/api/knowledge/eval/propose", m.key, evalManifest("0.5")).is(400)
	if a.has("name") != "UnknownPath" || !strings.HasPrefix(a.has("proposeRoute"), base+"/api/knowledge/") || a.has("hint") == "" {
		t.Errorf("%s", a.Body)
	}
	p.artifacts(m)
	if a := p.get("/api/knowledge/tree/path/artifacts").is(200); !strings.Contains(a.Body.String(), `"path":"/artifacts/models"`) {
		t.Errorf("%s", a.Body)
	}
	p.get("/api/knowledge/tree/path" + modelPath).is(200)
	p.get("/api/knowledge/tree/path/artifacts/models/unknown").is(404)

	empty := p.get("/api/knowledge/eval/list").is(200)
	if strings.TrimSpace(empty.Body.String()) != "[]" {
		t.Errorf("%s", empty.Body)
	}
	made := p.post("/api/knowledge/eval/propose", m.key, evalManifest("0.5"), "Idempotency-Key", "k1").is(201)
	id := made.has("proposalId")
	if made.has("ipPath") != "/artifacts/evals/"+id || made.has("status") != "published" || made.Header().Get("Location") != base+"/proposal/"+id {
		t.Errorf("%s", made.Body)
	}

	// The same key with the same body gives the same answer, with another body none.
	again := p.post("/api/knowledge/eval/propose", m.key, evalManifest("0.5"), "Idempotency-Key", "k1").is(200)
	if again.has("proposalId") != id {
		t.Errorf("another proposal: %s", again.Body)
	}
	if p.post("/api/knowledge/eval/propose", m.key, evalManifest("0.6"), "Idempotency-Key", "k1").is(409).has("name") != "IdempotencyConflict" {
		t.Error("no conflict")
	}
	for _, key := range []string{strings.Repeat("a", 129), "a b", "é"} {
		p.post("/api/knowledge/eval/propose", m.key, evalManifest("0.7"), "Idempotency-Key", key).is(400)
	}

	// Lists: what was read before has another tag now.
	list := p.get("/api/knowledge/eval/list").is(200)
	tag := list.Header().Get("ETag")
	if tag == empty.Header().Get("ETag") {
		t.Error("the list changed and its tag did not")
	}
	p.get("/api/knowledge/eval/list", "If-None-Match", tag).is(304)
	p.get("/api/knowledge/eval/list", "If-None-Match", empty.Header().Get("ETag")).is(200)
	if list.has("0.proposalId") != id || list.has("0.receipt") != base+"/receipt/"+made.has("entry") || list.has("0.metrics.receipt") != "/mine" {
		t.Errorf("%s", list.Body)
	}
	if p.get("/api/knowledge/eval/for-artifact"+modelPath).is(200).has("0.proposalId") != id {
		t.Error("not listed for its artifact")
	}
	p.get("/api/knowledge/eval/for-artifact/models/x").is(400)
	p.get("/api/knowledge/nonsense/list").is(404)
	if p.get("/proposal/"+id).is(200).has("manifest.metrics.accuracy") != "0.5" {
		t.Error("the manifest is not shown")
	}
	p.get("/proposal/nonsense").is(404)
	p.get("/api/agents/" + m.id).is(200)
	p.get("/api/agents/unknown").is(404)

	// What was published may be withdrawn by its proposer, or it is too late;
	// never by another agent.
	other := p.register()
	p.post("/api/agent/v1/withdraw", other.key, `{"proposalId":"`+id+`"}`).is(403)
	p.post("/api/agent/v1/withdraw", m.key, `{"proposalId":"nonsense"}`).is(404)
}

func TestPagesLeadToEachOther(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.artifacts(m)
	want := map[string]bool{}
	for i := range 7 {
		want[p.post("/api/knowledge/eval/propose", m.key, evalManifest(fmt.Sprintf("0.%d", i+1))).is(201).has("proposalId")] = true
	}
	target, pages := "/api/knowledge/eval/list?limit=3&status=all", 0
	for target != "" {
		a := p.get(target).is(200)
		var rows []struct{ ProposalID string }
		if err := json.Unmarshal(a.Body.Bytes(), &rows); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if !want[r.ProposalID] {
				t.Errorf("%s is there twice, or was not proposed", r.ProposalID)
			}
			delete(want, r.ProposalID)
		}
		if pages++; pages > 10 {
			t.Fatal("the pages do not end")
		}
		link := a.Header().Get("Link")
		target = ""
		if rest, ok := strings.CutPrefix(link, "<"+base); ok {
			target, _, _ = strings.Cut(rest, ">")
			if !strings.HasSuffix(link, `; rel="next"`) || !strings.Contains(target, "limit=3") || !strings.Contains(target, "status=all") {
				t.Errorf("Link: %s", link)
			}
		} else if link != "" {
			t.Errorf("Link: %s", link)
		}
	}
	if len(want) > 0 || pages != 3 {
		t.Errorf("%d pages, missing %v", pages, want)
	}
	p.get("/api/knowledge/eval/list?after=nonsense").is(400)
}

func TestConcurrentProposals(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.artifacts(m)
	const n = 16

	// The same request n times at once makes one proposal.
	same := run(n, func(int) answer {
		return p.post("/api/knowledge/eval/propose", m.key, evalManifest("0.9"), "Idempotency-Key", "once")
	})
	ids, created := map[string]bool{}, 0
	for _, a := range same {
		if a.Code == 201 {
			created++
		} else {
			a.is(200)
		}
		ids[a.has("proposalId")] = true
	}
	if len(ids) != 1 || created != 1 {
		t.Errorf("%d proposals, %d answers 201", len(ids), created)
	}

	// Different requests make n, and each reads its own write.
	missing := run(n, func(i int) answer {
		a := p.post("/api/knowledge/eval/propose", m.key, evalManifest(fmt.Sprintf("0.1%02d", i))).is(201)
		return p.get("/proposal/" + a.has("proposalId"))
	})
	for _, a := range missing {
		a.is(200)
	}

	// Of paths that look alike one is taken, the first proposer's.
	spellings := []string{"model-one", "Model-One", "mode1-one", "model_one", "M0del-One"}
	taken := run(len(spellings), func(i int) answer {
		return p.post("/api/knowledge/model/propose", m.key, `{"path":"/artifacts/models/acme/`+spellings[i]+`"}`)
	})
	won := 0
	for _, a := range taken {
		if a.Code == 201 {
			won++
		} else if a.Code != 409 || a.has("name") != "PathTaken" {
			t.Errorf("%d %s", a.Code, a.Body)
		}
	}
	if won != 1 {
		t.Errorf("%d of the look-alikes are in the catalogue", won)
	}
}

func run(n int, do func(int) answer) []answer {
	out := make([]answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i] = do(i) })
	}
	wg.Wait()
	return out
}

func TestBadProposalsOfEveryKind(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.artifacts(m)
	good := evalManifest("0.5")
	for name, tt := range map[string]struct {
		kind, body string
		status     int
	}{
		"an empty object":           {"eval", `{}`, 400},
		"a list":                    {"eval", `[]`, 400},
		"a member too many":         {"eval", strings.Replace(good, "{", `{"more":1,`, 1), 400},
		"a member twice":            {"eval", strings.Replace(good, "{", `{"metrics":{},`, 1), 400},
		"no metrics":                {"eval", strings.Replace(good, `"metrics"`, `"metrix"`, 1), 400},
		"metrics that are a number": {"eval", `{"artifactPath":"` + modelPath + `","evalHarnessPath":"` + harnessPath + `","datasetPath":"` + datasetPath + `","metrics":1,"runDetails":{}}`, 400},
		"a path with dots":          {"eval", strings.Replace(good, modelPath, "/artifacts/models/../x", 1), 400},
		"a number beyond a double":  {"eval", strings.Replace(good, "0.5", "1e999", 1), 400},
		"another kind's credential": {"eval", `{"kind":"sandbox.run","body":{}}`, 400},
		"a model without a path":    {"model", `{}`, 400},
		"a model among datasets":    {"model", `{"path":"/artifacts/datasets/x"}`, 400},
		"a path out of the tree":    {"model", `{"path":"/artifacts/models/a/../../b"}`, 400},
		"a path with a null byte":   {"model", `{"path":"/artifacts/models/a\u0000"}`, 400},
		"a path that is taken":      {"model", `{"path":"` + modelPath + `","name":"another"}`, 409},
		"a kind that is not one":    {"nonsense", `{}`, 404},
	} {
		if a := p.post("/api/knowledge/"+tt.kind+"/propose", m.key, tt.body); a.Code != tt.status {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	for _, body := range []string{`{"publicKey":"x"}`, `{"profile":[]}`, `{"profile":"x"}`, `{"more":1}`, `{"publicKey":"did:key:z6MkeTG3bFFSLYVU7VqhgZxqr6YzpaGrQtFMh1uvqGy1vDnP0"}`} {
		if a := p.post("/api/agent/v1/register", "", body); a.Code != 400 {
			t.Errorf("register %s: %d %s", body, a.Code, a.Body)
		}
	}
	p.post("/api/agent/v1/register", "", `{"profile":{"x":"`+strings.Repeat("a", maxForm)+`"}}`).is(413)
}
