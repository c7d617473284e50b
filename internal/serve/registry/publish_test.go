package registry

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

var ctx = context.Background()

func TestPublishWithoutJudgesIsListedWithItsReceipt(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	_, err := w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.7)), "")
	wantRefusal(t, err, refusal.UnknownPath, "artifactPath", modelPath)
	var missing *MissingPath
	if !errors.As(err, &missing) || missing.Route() != "/api/knowledge/model/propose" {
		t.Errorf("the missing path is %+v", missing)
	}

	w.publishPaths(a)
	p := w.propose(a, Eval, evalBody(0.738))
	if p.Status != Published || p.IPPath != "/artifacts/evals/"+p.ID || p.Note != "published without judges" || !p.New {
		t.Errorf("proposed: %+v", p)
	}
	page := must[*Page](t)(w.List(ctx, Query{Artifact: modelPath}))
	if len(page.Rows) != 1 || page.Next != "" {
		t.Fatalf("%d rows, next %q", len(page.Rows), page.Next)
	}
	var l row
	if err := json.Unmarshal(page.Rows[0], &l); err != nil {
		t.Fatal(err)
	}
	if l.ID != p.ID || l.ArtifactPath != modelPath || l.HarnessPath != harnessPath || string(l.Metrics) != `{"accuracy":0.738}` || l.Status != Published || l.PublishedAt == nil || !l.Imported {
		t.Errorf("row %s", page.Rows[0])
	}

	// The receipt proves the entry to a reader who knows the key of the log.
	conf := must[*Public](t)(w.Config(ctx))
	_, pub, err := seal.ParseLogKey(conf.LogKey)
	if err != nil {
		t.Fatal(err)
	}
	receipt := must[*Receipt](t)(w.Receipt(ctx, l.Entry))
	proved, err := ledger.VerifyReceipt(receipt.File, receipt.Entry, ledger.Policy{Logs: []ledger.LogKey{{Origin: conf.Origin, Key: pub}}})
	if err != nil {
		t.Fatal(err)
	}
	if proved.Index != l.Entry || !strings.Contains(string(proved.Raw), p.ID) {
		t.Errorf("the receipt is of entry %d: %s", proved.Index, proved.Raw)
	}
	checkpoint := must[[]byte](t)(w.Checkpoint(ctx))
	if _, err := ledger.VerifyCheckpoint(checkpoint, ledger.Policy{Logs: []ledger.LogKey{{Origin: conf.Origin, Key: pub}}}); err != nil {
		t.Error(err)
	}
	if _, err := w.Tile(ctx, "tile/0/000.p/1"); err != nil {
		t.Error(err)
	}

	n := must[*Node](t)(w.Tree(ctx, "/artifacts"))
	var names []string
	for _, c := range n.Children {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "datasets eval-harnesses evals models" {
		t.Errorf("below /artifacts: %s", got)
	}
	if n := must[*Node](t)(w.Tree(ctx, modelPath)); n.Thing != Model || n.Proposal == "" {
		t.Errorf("%+v", n)
	}
	_, err = w.Tree(ctx, "/artifacts/models/unknown")
	wantRefusal(t, err, refusal.UnknownName)
}

func TestTheSameContentIsOneProposal(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.register(), w.register()
	w.publishPaths(a)
	first := w.propose(a, Eval, evalBody(0.5))
	again := w.propose(b, Eval, strings.Replace(evalBody(0.5), `"seed":42`, `"seed":42,"note":"another spelling"`, 1))
	if again.ID != first.ID || again.New {
		t.Errorf("the same content with another note is proposal %s, expected %s", again.ID, first.ID)
	}
	other := w.propose(a, Eval, evalBody(0.6))
	if other.ID == first.ID || other.Earlier != 1 {
		t.Errorf("another result: %+v, expected 1 earlier proposal", other)
	}

	// Many at the same time make one entry.
	size := w.Stats().Entries
	var wg sync.WaitGroup
	ids := make([]string, 40)
	for i := range ids {
		wg.Go(func() {
			p, err := w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.9)), "")
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = p.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("one content has the proposals %s and %s", ids[0], id)
		}
	}
	if got := w.Stats().Entries - size; got != 2 {
		t.Errorf("%d entries, expected one proposal and one decision", got)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.register(), w.register()
	w.publishPaths(a)
	first := must[*Proposal](t)(w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.1)), "k1"))
	again := must[*Proposal](t)(w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.1)), "k1"))
	if again.ID != first.ID || again.New {
		t.Errorf("the same request gave %s, expected %s", again.ID, first.ID)
	}
	_, err := w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.2)), "k1")
	wantRefusal(t, err, refusal.IdempotencyConflict)
	// The key is the agent's own, and holds after a restart.
	if p := must[*Proposal](t)(w.Propose(ctx, b.Agent, Eval, []byte(evalBody(0.2)), "k1")); p.ID == first.ID {
		t.Error("another agent's key gave this agent's proposal")
	}
	w.reopen()
	_, err = w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.3)), "k1")
	wantRefusal(t, err, refusal.IdempotencyConflict)
}

func TestPathsHaveOneGrammarAndNoLookAlikes(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	for _, tt := range []struct {
		path string
		name refusal.Name
	}{
		{modelPath, refusal.PathTaken},
		{"/artifacts/models/META-llama/other", refusal.PathTaken},
		{"/artifacts/models/meta-Ilama/other", refusal.PathTaken},
		{"/artifacts/models/rneta-llama/other", refusal.PathTaken},
		{"/artifacts/models/meta_llama/other", refusal.PathTaken},
		{"/artifacts/models/meta-llama/Llama-3.l-7OB-Instruct", refusal.PathTaken},
		{"/artifacts/models/../models/x", refusal.Malformed},
		{"/artifacts/models/a..b", refusal.Malformed},
		{"/artifacts/models/a.", refusal.Malformed},
		{"/artifacts/models/", refusal.Malformed},
		{"/artifacts/models", refusal.Malformed},
		{"/artifacts/models//x", refusal.Malformed},
		{"/artifacts/models/é", refusal.Malformed},
		{"/artifacts/models/a%2fb", refusal.Malformed},
		{"/artifacts/models/" + strings.Repeat("a/", 12) + "a", refusal.Malformed},
		{"/artifacts/models/" + strings.Repeat("a", 101), refusal.Malformed},
		{"/artifacts/nonsense/x", refusal.Malformed},
		{"/artifacts/datasets/x", refusal.Malformed}, // not a model's
		{"/artifacts/evals/x", refusal.Malformed},
		{"artifacts/models/x", refusal.Malformed},
	} {
		_, err := w.Propose(ctx, a.Agent, Model, []byte(`{"path":"`+tt.path+`","x":1}`), "")
		wantRefusal(t, err, tt.name)
	}
	if _, err := w.Propose(ctx, a.Agent, Model, []byte(`{"path":"/artifacts/models/meta-llama/other"}`), ""); err != nil {
		t.Error(err)
	}
	if _, err := w.Propose(ctx, a.Agent, Model, []byte(`{"path":"`+modelPath+`/v2"}`), ""); err != nil {
		t.Error(err)
	}
}

func TestAPIKeys(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	who := must[*Agent](t)(w.Authenticate(ctx, a.apiKey))
	if who.ID != a.ID {
		t.Errorf("%+v", who)
	}
	for _, bad := range []string{"", "ak_", a.apiKey + "x", a.apiKey[:len(a.apiKey)-1], "ak_" + strings.Repeat("A", 43)} {
		_, err := w.Authenticate(ctx, bad)
		wantRefusal(t, err, refusal.Unauthenticated)
	}
	fresh := must[string](t)(w.ReplaceAPIKey(ctx, a.Agent, a.apiKey, Once{}))
	reader := must[*Reader](t)(OpenReader(ctx, ReaderOptions{DB: w.o.DB}))
	defer reader.Close()
	for name, by := range map[string]interface {
		Authenticate(context.Context, string) (*Agent, error)
	}{"writer": w.Registry, "reader": reader} {
		if _, err := by.Authenticate(ctx, a.apiKey); !refusal.Is(err, refusal.Unauthenticated) {
			t.Errorf("%s: the replaced key: %v", name, err)
		}
		if _, err := by.Authenticate(ctx, fresh); err != nil {
			t.Errorf("%s: the new key: %v", name, err)
		}
	}
	if err := w.RevokeAPIKey(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	_, err := w.Authenticate(ctx, fresh)
	wantRefusal(t, err, refusal.Unauthenticated)
	_, err = reader.Authenticate(ctx, fresh)
	wantRefusal(t, err, refusal.Unauthenticated)
	w.reopen()
	_, err = w.Authenticate(ctx, fresh)
	wantRefusal(t, err, refusal.Unauthenticated)
	// No file of the registry has a key in clear.
	noneHas(t, w.dir, fresh, a.apiKey)
}
