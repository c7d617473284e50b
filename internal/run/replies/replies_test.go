package replies

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// A bed is a library with a ledger that only counts.
type bed struct {
	t       *testing.T
	dir     string
	draws   *Draws
	entries []*evidence.ReplyDrawn
	library *Library
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, dir: t.TempDir(), draws: &Draws{}}
	var mu sync.Mutex
	b.library = Open(b.dir, b.draws, func(e *evidence.ReplyDrawn) error {
		mu.Lock()
		defer mu.Unlock()
		if err := e.Validate(); err != nil {
			return err
		}
		b.entries = append(b.entries, e)
		return nil
	})
	return b
}

func at(url string) func(wire.API) (evidence.Endpoint, bool) {
	return func(wire.API) (evidence.Endpoint, bool) {
		e, err := evidence.EndpointAt(url)
		return e, err == nil
	}
}

const server = "https://models.example.com/v1"

func user() User {
	return User{Class: "sums", Case: "one", Target: "v1", At: at(server), Finds: true, Pays: true}
}

func ask(t *testing.T, s *Shelf, prompt string) *Asked {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": "m", "messages": []any{map[string]any{"role": "user", "content": prompt}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := cassette.ModelRequest(wire.OpenAIChat, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Ask(r)
}

// answer is a reply to what was asked, from the server.
func answer(t *testing.T, a *Asked, text string, status int64) *cassette.Interaction {
	t.Helper()
	from, _ := at(server)(wire.OpenAIChat)
	from.Leaf, from.Chain, from.Roots = digest.IDOf(nil).String(), digest.IDOf(nil).String(), evidence.ShippedRoots
	call := *a.request.Call()
	call.From = &from
	call.Response = cassette.Response{Status: status, Body: canon.RawMessage(fmt.Sprintf(`{"choices":[{"message":{"content":%q,"role":"assistant"}}]}`, text))}
	return &cassette.Interaction{Model: &call, LatencyMS: 7}
}

// pay asks, and keeps the answer as one that was paid for.
func pay(t *testing.T, s *Shelf, prompt, text string) {
	t.Helper()
	a := ask(t, s, prompt)
	it := answer(t, a, text, 200)
	if err := a.Keep(it, false); err != nil {
		t.Fatal(err)
	}
	a.End(it)
}

// find is what the library answers, "" for nothing.
func find(t *testing.T, s *Shelf, prompt string) (text string, from cassette.Provenance, err error) {
	t.Helper()
	a := ask(t, s, prompt)
	found, err := a.Find()
	a.End(found.Answer)
	if found.Answer == nil {
		return "", "", err
	}
	_, text, _ = strings.Cut(string(found.Answer.Model.Response.Body), `"content":"`)
	text, _, _ = strings.Cut(text, `"`)
	return text, found.From, err
}

func (b *bed) mustFind(s *Shelf, prompt, want string) {
	b.t.Helper()
	if got, _, err := find(b.t, s, prompt); got != want || err != nil {
		b.t.Errorf("found %q, %v, want %q", got, err, want)
	}
}

// files lists the files of the library, by name.
func (b *bed) files() map[string]string {
	found := map[string]string{}
	err := filepath.WalkDir(b.dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			data, rerr := os.ReadFile(name)
			found[name], err = string(data), rerr
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// TestAPartyReadsOnlyItsOwn: each thing that keeps replies apart is tried alone; what is
// only a name shares.
func TestAPartyReadsOnlyItsOwn(t *testing.T) {
	b := newBed(t)
	pay(t, b.library.Shelf(user(), cassette.ForAgent), "hello", "hi")
	other := func(change func(*User)) *Shelf {
		u := user()
		u.Pays = false
		change(&u)
		return b.library.Shelf(u, cassette.ForAgent)
	}
	shares := map[string]func(*User){
		"the same":                 func(*User) {},
		"another target":           func(u *User) { u.Target = "v2" },
		"another class":            func(u *User) { u.Class = "totals" },
		"another case":             func(u *User) { u.Case = "two" },
		"the first repetition":     func(u *User) { u.Repeat = 1 },
		"another spelling of it":   func(u *User) { u.At = at("HTTPS://Models.Example.com:443/v1/") },
		"a class with a name of {": func(u *User) { u.Class = `{"class":"x"}` },
	}
	for name, change := range shares {
		t.Run(name, func(t *testing.T) { b.mustFind(other(change), "hello", "hi") })
	}
	apart := map[string]func(*User){
		"a class with held-out cases": func(u *User) { u.Scope = ScopeOf("sums", "one", map[string]bool{"two": true}) },
		"a held-out case":             func(u *User) { u.Scope = ScopeOf("sums", "one", map[string]bool{"one": true}) },
		"a second repetition":         func(u *User) { u.Repeat = 2 },
		"another host":                func(u *User) { u.At = at("https://models.example.org/v1") },
		"another port":                func(u *User) { u.At = at("https://models.example.com:8443/v1") },
		"another path":                func(u *User) { u.At = at("https://models.example.com/v2") },
		"plain":                       func(u *User) { u.At = at("http://models.example.com:443/v1") },
		"no endpoint":                 func(u *User) { u.At = func(wire.API) (evidence.Endpoint, bool) { return evidence.Endpoint{}, false } },
		"who may not":                 func(u *User) { u.Finds = false },
	}
	for name, change := range apart {
		t.Run(name, func(t *testing.T) { b.mustFind(other(change), "hello", "") })
	}
	b.mustFind(b.library.Shelf(user(), cassette.ForJudge), "hello", "")
	b.mustFind(other(func(*User) {}), "hello ", "")

	// The other way round: an agent that asks with the judge's mark, or exactly what the
	// judge asked, gets nothing of the judge's.
	marked := cassette.JudgeMark + " is this right?"
	pay(t, b.library.Shelf(user(), cassette.ForJudge), marked, "yes")
	b.mustFind(other(func(*User) {}), marked, "")
	b.mustFind(b.library.Shelf(user(), cassette.ForJudge), marked, "yes")

	// Of a class with held-out cases: the class, and the held-out case, are apart too.
	held := map[string]bool{"two": true}
	scoped := func(class, id string) *Shelf {
		u := user()
		u.Pays, u.Class, u.Case, u.Scope = false, class, id, ScopeOf(class, id, held)
		return b.library.Shelf(u, cassette.ForAgent)
	}
	pay(t, scoped("sums", "one"), "open", "1")
	pay(t, scoped("sums", "two"), "hidden", "2")
	b.mustFind(scoped("sums", "three"), "open", "1")
	b.mustFind(scoped("sums", "two"), "open", "")
	b.mustFind(scoped("sums", "three"), "hidden", "")
	b.mustFind(scoped("other", "two"), "hidden", "")
	b.mustFind(other(func(*User) {}), "hidden", "")
	b.mustFind(scoped("sums", "two"), "hidden", "2")
}

// TestAForgedReplyIsRefused changes the one file of a library in ways that a forger
// would, with and without an entry of the ledger.
func TestAForgedReplyIsRefused(t *testing.T) {
	forgeries := map[string]struct {
		old, new string
		listed   bool // refused only by the ledger's digest
	}{
		"another answer":    {`"hi"`, `"ho"`, true},
		"another latency":   {`"latency_ms":7`, `"latency_ms":8`, true},
		"another target":    {`"target":"v1"`, `"target":"v9"`, true},
		"another draw":      {`"draw":1`, `"draw":2`, false},
		"another party":     {`"party":"agent"`, `"party":"judge"`, false},
		"an unknown party":  {`"party":"agent"`, `"party":"agents"`, false},
		"another ordinal":   {`"ordinal":0`, `"ordinal":1`, false},
		"a repetition":      {`"ordinal":0`, `"ordinal":0,"repeat":2`, false},
		"a scope":           {`"party":"agent"`, `"party":"agent","scope":{"class":"x"}`, false},
		"another question":  {`hello`, `hallo`, false},
		"another API":       {`"api":"openai.chat"`, `"api":"openai.responses"`, false},
		"another endpoint":  {`"endpoint":"https://models.example.com`, `"endpoint":"https://models.example.org`, false},
		"another answerer":  {`"host":"models.example.com"`, `"host":"models.example.org"`, false},
		"an error":          {`"status":200`, `"status":500`, false},
		"another format":    {Format, `tallystick-reply/9`, false},
		"a blank":           {`"draw":1,`, `"draw": 1,`, false},
		"an unknown member": {`"draw":1,`, `"draw":1,"drew":1,`, false},
		"nothing":           {`{`, ``, false},
	}
	for name, f := range forgeries {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			pay(t, b.library.Shelf(user(), cassette.ForAgent), "hello", "hi")
			for file, text := range b.files() {
				if !strings.Contains(text, f.old) {
					t.Fatalf("%s is not in %s", f.old, text)
				}
				if err := os.WriteFile(file, []byte(strings.Replace(text, f.old, f.new, 1)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err := find(t, b.library.Shelf(user(), cassette.ForAgent), "hello")
			if !refusal.Is(err, refusal.ReplyInvalid) || !strings.Contains(err.Error(), Dir+"/") {
				t.Errorf("got %v, want ReplyInvalid with the file's name", err)
			}
			// A ledger that knows nothing of it sees what the file says of itself.
			foreign := Open(b.dir, nil, nil)
			_, how, err := find(t, foreign.Shelf(user(), cassette.ForAgent), "hello")
			if f.listed && (err != nil || how != cassette.Edited) || !f.listed && !refusal.Is(err, refusal.ReplyInvalid) {
				t.Errorf("elsewhere: %v, %v", how, err)
			}
		})
	}
}

// TestAnUnlistedReplyIsNotARecording: the same bytes are a recording where the ledger
// saw them drawn, and edited everywhere else; an entry by hand shows nothing.
func TestAnUnlistedReplyIsNotARecording(t *testing.T) {
	b := newBed(t)
	pay(t, b.library.Shelf(user(), cassette.ForAgent), "hello", "hi")
	byHand := &Draws{}
	byHand.Note(true, b.entries[0])
	for name, tt := range map[string]struct {
		draws *Draws
		want  cassette.Provenance
		none  int
	}{"here": {b.draws, cassette.Recorded, 0}, "elsewhere": {nil, cassette.Edited, 1}, "claimed by hand": {byHand, cassette.Edited, 1}} {
		s := Open(b.dir, tt.draws, nil).Shelf(user(), cassette.ForAgent)
		_, how, err := find(t, s, "hello")
		if got := Reused(s); how != tt.want || err != nil || got.Unlisted != tt.none || got.Replies != 1 || got.From[0] != (evidence.ReusedFrom{Class: "sums", Replies: 1, Target: "v1"}) {
			t.Errorf("%s: %v, %v, %+v", name, how, err, got)
		}
	}
}

// TestEqualRequestsAreCounted: the n-th equal request gets the n-th answer, and a
// request that got none does not use up a number.
func TestEqualRequestsAreCounted(t *testing.T) {
	b := newBed(t)
	s := b.library.Shelf(user(), cassette.ForAgent)
	failed := ask(t, s, "again")
	if err := failed.Keep(answer(t, failed, "busy", 500), false); err != nil {
		t.Fatal(err)
	}
	failed.End(answer(t, failed, "busy", 500))
	pay(t, s, "again", "first")
	pay(t, s, "again", "second")
	if len(b.entries) != 2 || len(b.files()) != 2 {
		t.Fatalf("%d entries, %d files: an error is not an answer", len(b.entries), len(b.files()))
	}
	s = b.library.Shelf(user(), cassette.ForAgent)
	for _, want := range []string{"first", "second", "", ""} {
		b.mustFind(s, "again", want)
	}
}

// TestTheFirstDrawAnswers: further draws lie beside it, one entry each.
func TestTheFirstDrawAnswers(t *testing.T) {
	b := newBed(t)
	for _, text := range []string{"first", "second", "second"} {
		pay(t, b.library.Shelf(user(), cassette.ForAgent), "hello", text)
	}
	b.mustFind(b.library.Shelf(user(), cassette.ForAgent), "hello", "first")
	if len(b.entries) != 3 || b.entries[2].Draw != 3 || len(b.files()) != 3 {
		t.Errorf("%d entries, %d files", len(b.entries), len(b.files()))
	}
}

// TestAResumedReplyIsOneDraw: a reply of the journal is kept once, wherever the process
// before was killed.
func TestAResumedReplyIsOneDraw(t *testing.T) {
	for _, killed := range []string{"before the entry", "before the file", "after it"} {
		t.Run(killed, func(t *testing.T) {
			b := newBed(t)
			if killed != "before the entry" {
				pay(t, b.library.Shelf(user(), cassette.ForAgent), "hello", "hi")
			}
			for name := range b.files() {
				if killed == "before the file" {
					if err := os.Remove(name); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 2 {
				a := ask(t, b.library.Shelf(user(), cassette.ForAgent), "hello")
				if err := a.Keep(answer(t, a, "hi", 200), true); err != nil {
					t.Fatal(err)
				}
			}
			if len(b.entries) != 1 || len(b.files()) != 1 {
				t.Errorf("%d entries, %d files, want one of each", len(b.entries), len(b.files()))
			}
			b.mustFind(b.library.Shelf(user(), cassette.ForAgent), "hello", "hi")
		})
	}
}

// TestTwoCasesThatAskTheSamePayOnce: at the same time.
func TestTwoCasesThatAskTheSamePayOnce(t *testing.T) {
	b := newBed(t)
	var paid atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			u := user()
			u.Case = fmt.Sprint("case-", i)
			s := b.library.Shelf(u, cassette.ForAgent)
			a := ask(t, s, "hello")
			found, err := a.Find()
			if err == nil && found.Answer == nil {
				paid.Add(1)
				found.Answer = answer(t, a, "hi", 200)
				err = a.Keep(found.Answer, false)
			}
			if err != nil {
				t.Error(err)
			}
			a.End(found.Answer)
		})
	}
	all.Wait()
	if paid.Load() != 1 || len(b.entries) != 1 {
		t.Errorf("paid %d times, %d entries", paid.Load(), len(b.entries))
	}
}

// TestNothingIsUsedThatTheLedgerDidNotTake: without its entry there is no file either.
func TestNothingIsUsedThatTheLedgerDidNotTake(t *testing.T) {
	dir := t.TempDir()
	l := Open(dir, nil, func(*evidence.ReplyDrawn) error { return os.ErrPermission })
	a := ask(t, l.Shelf(user(), cassette.ForAgent), "hello")
	if err := a.Keep(answer(t, a, "hi", 200), false); err == nil {
		t.Error("it is kept")
	}
	if _, err := os.Stat(filepath.Join(dir, "cassettes")); err == nil {
		t.Error("there is a file")
	}
}

// TestDrawsAreCountedByWhatWasAsked: also those that were made under another name, or
// thrown away at once.
func TestDrawsAreCountedByWhatWasAsked(t *testing.T) {
	b := newBed(t)
	u := user()
	pay(t, b.library.Shelf(u, cassette.ForAgent), "hello", "bad")
	u.Class, u.Case = "tmp", "x"
	pay(t, b.library.Shelf(u, cassette.ForAgent), "hello", "worse")
	pay(t, b.library.Shelf(u, cassette.ForAgent), "something else", "bad")
	u.Discard = true
	pay(t, b.library.Shelf(u, cassette.ForAgent), "hello", "worst")
	u = user()
	a := ask(t, b.library.Shelf(u, cassette.ForAgent), "hello")
	good := answer(t, a, "good", 200)
	if err := a.Keep(good, false); err != nil {
		t.Fatal(err)
	}
	if files := b.files(); len(files) != 4 || len(b.entries) != 5 {
		t.Fatalf("%d files, %d entries", len(files), len(b.entries))
	}
	c, err := cassette.New(cassette.Recorded, nil, 0, []cassette.Interaction{*good})
	if err != nil {
		t.Fatal(err)
	}
	tally := NewTally("sums", nil)
	if err := tally.Add("one", c); err != nil {
		t.Fatal(err)
	}
	if draws, gone := tally.Count(b.draws); draws != 4 || gone != 3 {
		t.Errorf("%d draws, %d thrown away, want 4 and 3", draws, gone)
	}
}

// TestAStrangerComputesTheKey from the members of the file alone.
func TestAStrangerComputesTheKey(t *testing.T) {
	b := newBed(t)
	u := user()
	u.Repeat, u.Scope = 3, &Scope{Class: "sums", Case: "one"}
	pay(t, b.library.Shelf(u, cassette.ForJudge), "hello", "hi")
	for name, text := range b.files() {
		var f map[string]any
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		model := f["model"].(map[string]any)
		members := map[string]any{"api": model["api"], "request": model["request"]}
		for m := range maps.Keys(f) {
			if strings.Contains(" endpoint format ordinal party repeat scope ", " "+m+" ") {
				members[m] = f[m]
			}
		}
		hashed, err := json.Marshal(members) // sorted, and these texts have one spelling
		if err != nil {
			t.Fatal(err)
		}
		id := digest.IDOf(hashed)
		if want := File(id, 1); !strings.HasSuffix(filepath.ToSlash(name), want) {
			t.Errorf("%s, computed %s", name, want)
		}
	}
}

// TestTheSecondVerifierKnowsReplies: verify.py takes what is written here and refuses
// what gives another name.
func TestTheSecondVerifierKnowsReplies(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	b := newBed(t)
	pay(t, b.library.Shelf(user(), cassette.ForAgent), "hello", "hi")
	changes := [][2]string{{"", ""}, {`"hi"`, `"ho"`}, {`hello`, `hallo`}, {`"draw":1`, `"draw":2`}, {`"party":"agent"`, `"party":"judge"`},
		{`"host":"models.example.com"`, `"host":"models.example.org"`}, {`"draw":1,`, `"draw": 1,`}, {`"from"`, `"form"`}}
	const taken = 2 // of these; what was answered is not in the name
	for name, text := range b.files() {
		var all []string
		for _, c := range changes {
			all = append(all, strings.Replace(text, c[0], c[1], 1))
		}
		input, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("python3", "-c", tryReplies, "../../../docs/formats", filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name))
		cmd.Env, cmd.Stdin = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), strings.NewReader(string(input))
		out, err := cmd.CombinedOutput()
		if want := strings.Repeat("1", taken) + strings.Repeat("0", len(changes)-taken); err != nil || string(out) != want {
			t.Errorf("%v: %s, want %s", err, out, want)
		}
	}
}

// tryReplies prints 1 for each reply that verify.py takes and 0 for the others.
const tryReplies = `
import json, sys
sys.path.insert(0, sys.argv[1])
import verify
for text in json.load(sys.stdin):
    try:
        verify.check_reply(sys.argv[2], text.encode())
        print(1, end="")
    except (verify.Refused, verify.Malformed):
        print(0, end="")
`
