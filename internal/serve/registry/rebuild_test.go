package registry

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// lively fills a registry with something of every kind.
func lively(t *testing.T) *judged {
	t.Helper()
	j := newJudged(t, 4, nil)
	p := j.proposeDrawn(0.7)
	for i, verdict := range []string{"accept", "reject", "accept"} {
		m := j.judges[p.Judges.Persons[i]][0]
		must[*Proposal](t)(j.Judge(ctx, m.Agent, j.sign(m, Judgement{Proposal: p.ID, Verdict: verdict, Reason: "because " + verdict})))
	}
	j.proposeDrawn(0.8)
	withdrawn := j.proposeDrawn(0.9)
	must[*Proposal](t)(j.Withdraw(ctx, j.author.Agent, withdrawn.ID, Once{}))
	m := must[*Minted](t)(j.Mint(ctx, j.author.Agent, []byte(`{"kind":"eval.run.attestation.v1","body":`+attestation(t, j.author.PublicKey, 0.3)+`}`), ""))
	if err := j.Revoke(ctx, nil, m.Digest, "a mistake", Once{}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.RotateKey(ctx, CredentialPurpose); err != nil {
		t.Fatal(err)
	}
	if err := j.RemoveJudge(ctx, "person1", "moved on"); err != nil {
		t.Fatal(err)
	}
	if err := j.TakeDown(ctx, j.state.proposals[withdrawn.ID].Manifest, "mistake"); err != nil {
		t.Fatal(err)
	}
	if err := j.RevokeAPIKey(ctx, j.judges["person2"][1].ID); err != nil {
		t.Fatal(err)
	}
	return j
}

func TestRebuildGivesTheSameRows(t *testing.T) {
	j := lively(t)
	list := must[*Page](t)(j.List(ctx, Query{Status: "all"}))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	got := must[*Rebuilt](t)(Rebuild(ctx, j.options()))
	if got.Before != got.Digest || got.Before.IsZero() || got.Rows == 0 {
		t.Errorf("rebuilt: %+v", got)
	}
	// Another database gives the same digest, of whichever kind.
	o := j.options()
	o.DB = filepath.Join(t.TempDir(), "other.db")
	fromNothing := must[*Rebuilt](t)(Rebuild(ctx, o))
	if fromNothing.Digest != got.Digest || !fromNothing.Before.IsZero() {
		t.Errorf("from nothing: %+v", fromNothing)
	}
	j.open()
	if again := must[*Page](t)(j.List(ctx, Query{Status: "all"})); string(again.JSON) != string(list.JSON) || again.ETag != list.ETag {
		t.Errorf("the list was\n%s\nand is\n%s", list.JSON, again.JSON)
	}
}

// connect opens the database of a registry behind its back.
func connect(t *testing.T, db string) *sql.DB {
	t.Helper()
	driver := "sqlite"
	if postgres {
		driver = "pgx"
	}
	c, err := sql.Open(driver, db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// tamper runs a statement on the database of a registry.
func tamper(t *testing.T, db, statement string, args ...any) {
	t.Helper()
	got, err := connect(t, db).Exec(statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := got.RowsAffected(); n == 0 {
		t.Fatalf("%s changed nothing", statement)
	}
}

// edit changes one value of the database of a registry.
func edit(t *testing.T, db, table, column, where, old, now string) {
	t.Helper()
	var value []byte
	if err := connect(t, db).QueryRow("SELECT " + column + " FROM " + table + " WHERE " + where).Scan(&value); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(value, []byte(old), []byte(now), 1)
	if bytes.Equal(changed, value) {
		t.Fatalf("%s does not have %q", value, old)
	}
	tamper(t, db, "UPDATE "+table+" SET "+column+" = $1 WHERE "+where, changed)
}

func TestARowChangedByHandDecidesNothing(t *testing.T) {
	j := newJudged(t, 3, nil)
	p := j.proposeDrawn(0.7)
	outsider := j.register()
	tamper(t, j.o.DB, `UPDATE rows SET status = 'published' WHERE proposal = $1`, p.ID)
	edit(t, j.o.DB, "docs", "body", "kind = 'proposal' AND id = '"+p.ID+"'", `"status":"pending"`, `"status":"published"`)
	edit(t, j.o.DB, "docs", "body", "kind = 'agent' AND id = '"+outsider.ID+"'", `}`, `,"person":"person0"}`)
	edit(t, j.o.DB, "entries", "raw", fmt.Sprintf("idx = %d", p.Entry), `"earlier":0`, `"earlier":9`)
	tamper(t, j.o.DB, `UPDATE blobs SET data = $1`, []byte("something else"))
	tamper(t, j.o.DB, `INSERT INTO docs (kind, id, body) VALUES ('api_key', $1, $2)`, digest.IDOf([]byte(forgedKey)).String(), []byte(outsider.ID))
	// What decides does not look there.
	_, err := j.vote(outsider, p.ID, "accept")
	wantRefusal(t, err, refusal.NotAllowed)
	_, err = j.Authenticate(ctx, forgedKey)
	wantRefusal(t, err, refusal.Unauthenticated)
	if again := j.propose(j.author, Eval, evalBody(0.7)); again.Status != Pending {
		t.Errorf("the proposal is %s", again.Status)
	}
	// What is proved and named by digest is compared.
	_, err = j.Receipt(ctx, p.Entry)
	wantRefusal(t, err, refusal.IndexDiffers)
	_, err = j.Blob(ctx, j.state.proposals[p.ID].Manifest)
	wantRefusal(t, err, refusal.IndexDiffers)
	// A reader elsewhere finds that the entries do not give the root.
	_, err = OpenReader(ctx, ReaderOptions{DB: j.o.DB})
	wantRefusal(t, err, refusal.IndexDiffers)
	// And a rebuild says that there was something else, and puts it right.
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	got := must[*Rebuilt](t)(Rebuild(ctx, j.options()))
	if got.Before == got.Digest {
		t.Error("the digest of a changed database is that of the right one")
	}
	o := j.options()
	o.DB = filepath.Join(t.TempDir(), "other.db")
	if clean := must[*Rebuilt](t)(Rebuild(ctx, o)); clean.Digest != got.Digest {
		t.Error("a rebuild left something of what was put into the database")
	}
	j.open()
	if page := must[*Page](t)(j.List(ctx, Query{})); len(page.Rows) != 0 {
		t.Errorf("after the rebuild: %s", page.JSON)
	}
}

const forgedKey = "ak_0123456789012345678901234567890123456789012"

func TestAnIndexThatIsBehindIsHealed(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	var failing atomic.Bool
	w.failApply = func() error {
		if failing.Load() {
			return errors.New("the disk of the database is gone")
		}
		return nil
	}
	failing.Store(true)
	// The entry is in the ledger and the index does not follow: the answer says so.
	_, err := w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.5)), "k")
	wantRefusal(t, err, refusal.Failed, "recorded", "database")
	if err := w.Ready(ctx); err == nil {
		t.Error("it calls itself ready")
	}
	_, err = w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.6)), "k2")
	wantRefusal(t, err, refusal.Failed)
	// It dies like that.
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.open()
	page := must[*Page](t)(w.List(ctx, Query{}))
	if len(page.Rows) != 1 {
		t.Fatalf("after the restart: %s", page.JSON)
	}
	again := must[*Proposal](t)(w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.5)), "k"))
	if again.New || again.Status != Published {
		t.Errorf("sent again with its key: %+v", again)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := must[*Rebuilt](t)(Rebuild(ctx, w.options())); got.Before != got.Digest {
		t.Errorf("the healed index differs from a rebuilt one: %+v", got)
	}
	w.open()
}

func TestADatabaseThatComesBackIsFollowedAgain(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	var failures atomic.Int64
	failures.Store(2)
	w.failApply = func() error {
		if failures.Add(-1) >= 0 {
			return errors.New("restarting")
		}
		return nil
	}
	if p := must[*Proposal](t)(w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.5)), "")); p.Status != Published {
		t.Errorf("%+v", p)
	}
}

func TestAnIndexThatIsAheadIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// A copy of the ledger from here.
	segment := filepath.Join(w.dir, "ledger", "segments", "0000000000000000.log")
	old := must[[]byte](t)(os.ReadFile(segment))
	w.open()
	w.publishPaths(a)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	newer := must[[]byte](t)(os.ReadFile(segment))
	writeFile(t, segment, string(old))
	// This machine remembers that it signed more.
	_, err := Open(ctx, w.options())
	wantRefusal(t, err, refusal.HistoryRolledBack)
	// Another machine does not, and the database does.
	o := w.options()
	o.StateDir = t.TempDir()
	_, err = Open(ctx, o)
	wantRefusal(t, err, refusal.IndexDiffers, "the ledger has")
	// Another ledger of the same length.
	writeFile(t, segment, string(newer))
	tamper(t, w.o.DB, `UPDATE meta SET value = $1 WHERE name = 'head'`, digest.IDOf(nil).String())
	_, err = Open(ctx, w.options())
	wantRefusal(t, err, refusal.IndexDiffers)
	if _, err := Rebuild(ctx, w.options()); err != nil {
		t.Fatal(err)
	}
	w.open()
}

// A database that is restored under a running registry is not written to: it would
// have a hole.
func TestADatabaseRestoredUnderTheWriterIsNoticed(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	head := ""
	if err := connect(t, w.o.DB).QueryRow("SELECT value FROM meta WHERE name = 'head'").Scan(&head); err != nil {
		t.Fatal(err)
	}
	size := w.Stats().Entries
	w.propose(a, Eval, evalBody(0.4))
	// As it was before the last proposal.
	tamper(t, w.o.DB, `UPDATE meta SET value = $1 WHERE name = 'applied'`, fmt.Sprint(size))
	tamper(t, w.o.DB, `UPDATE meta SET value = $1 WHERE name = 'head'`, head)
	tamper(t, w.o.DB, `DELETE FROM rows WHERE seq >= $1`, size)
	_, err := w.Propose(ctx, a.Agent, Eval, []byte(evalBody(0.5)), "k")
	wantRefusal(t, err, refusal.Failed, "another one was put in its place")
	w.reopen()
	if page := must[*Page](t)(w.List(ctx, Query{})); len(page.Rows) != 2 {
		t.Errorf("after the restart: %d rows", len(page.Rows))
	}
}

func TestTwoWritersAreOneTooMany(t *testing.T) {
	w := newWorld(t, nil)
	o := w.options()
	o.Lock = 50 * time.Millisecond
	_, err := Open(ctx, o)
	wantRefusal(t, err, refusal.LedgerBusy)
	_, err = Rebuild(ctx, o)
	wantRefusal(t, err, refusal.LedgerBusy)
	// The first one still has its database.
	a := w.register()
	w.publishPaths(a)
	w.propose(a, Eval, evalBody(0.5))
	_, err = Rebuild(ctx, o)
	wantRefusal(t, err, refusal.LedgerBusy)
	if page := must[*Page](t)(w.List(ctx, Query{Limit: 7})); len(page.Rows) != 1 {
		t.Error("a rebuild that was refused emptied the database")
	}
}

func TestInitRefusesAFolderWithSomethingInIt(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "x"), "x")
	s := Default()
	s.Origin, s.Operator = "a.example/log", "olga"
	_, err := Init(ctx, dir, s)
	wantRefusal(t, err, refusal.AlreadyExists)
	_, err = LoadSettings(dir)
	wantRefusal(t, err, refusal.NotFound)
	for name, change := range map[string]func(*Settings){
		"a minority decides": func(s *Settings) { s.Judges, s.Quorum = 4, 2 },
		"more than all":      func(s *Settings) { s.Judges, s.Quorum = 2, 3 },
		"no deadline":        func(s *Settings) { s.Deadline = 0 },
		"no operator":        func(s *Settings) { s.Operator = "" },
		"a path that ends":   func(s *Settings) { s.PublicURL = "https://a.example/" },
		"a user in the URL":  func(s *Settings) { s.PublicURL = "https://u@a.example" },
		"not a URL":          func(s *Settings) { s.PublicURL = "a.example" },
	} {
		bad := s
		change(&bad)
		if _, err := Init(ctx, filepath.Join(t.TempDir(), "r"), bad); !refusal.Is(err, refusal.Usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAReaderFollowsTheWriter(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	r := must[*Reader](t)(OpenReader(ctx, ReaderOptions{DB: w.o.DB}))
	defer r.Close()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := w.Propose(ctx, a.Agent, Eval, []byte(evalBody(float64(i)/100)), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ours, theirs := must[*Page](t)(w.List(ctx, Query{})), must[*Page](t)(r.List(ctx, Query{}))
	if string(ours.JSON) != string(theirs.JSON) || ours.ETag != theirs.ETag || len(ours.Rows) != 20 {
		t.Errorf("the writer lists %d rows, the reader %d", len(ours.Rows), len(theirs.Rows))
	}
	if a, b := must[[]byte](t)(w.Checkpoint(ctx)), must[[]byte](t)(r.Checkpoint(ctx)); string(a) != string(b) {
		t.Errorf("checkpoints differ:\n%s\n%s", a, b)
	}
	last := w.Stats().Entries - 1
	if a, b := must[*Receipt](t)(w.Receipt(ctx, last)), must[*Receipt](t)(r.Receipt(ctx, last)); string(a.File) != string(b.File) {
		t.Error("receipts differ")
	}
}

func TestPagesShowEveryRowOnce(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	for i := range 23 {
		w.propose(a, Eval, evalBody(float64(i)/100))
	}
	seen := map[string]bool{}
	q := Query{Limit: 5}
	for pages := 1; ; pages++ {
		page := must[*Page](t)(w.List(ctx, q))
		for _, row := range page.Rows {
			if seen[string(row)] {
				t.Fatal("a row is on two pages")
			}
			seen[string(row)] = true
		}
		if pages == 2 { // what comes meanwhile moves nothing
			w.propose(a, Eval, evalBody(0.99))
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if len(seen) != 23 {
		t.Errorf("%d rows on the pages, expected 23", len(seen))
	}
	for _, bad := range []Query{{Limit: 201}, {Limit: -1}, {After: "x"}, {After: "-1"}, {After: "01"}, {Status: "good"}, {Artifact: "/etc/passwd"}} {
		if _, err := w.List(ctx, bad); err == nil {
			t.Errorf("%+v is answered", bad)
		}
	}
}
