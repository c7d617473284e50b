package monitor

import (
	"context"
	"net/http"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// rotate changes the operator's key by the rule, signed by whom the test says.
func (f *fakeRegistry) rotate(to *seal.Key, by ...*seal.Key) {
	f.Helper()
	opened, body, err := evidence.DecodeEntry(f.entries[0])
	if err != nil {
		f.Fatal(err, opened)
	}
	file := []byte(body.(*evidence.Opened).Signers)
	first, err := seal.Root("signers", file, digest.IDOf(file))
	if err != nil {
		f.Fatal(err)
	}
	next, err := first.WithOperatorKey(to.Public())
	if err != nil {
		f.Fatal(err)
	}
	change := &evidence.SignersChanged{Version: 2, Signers: string(next)}
	for _, k := range by {
		sig, err := seal.SignWith(k.Signer(), seal.NamespaceSigners, next)
		if err != nil {
			f.Fatal(err)
		}
		change.Signatures = append(change.Signatures, string(sig))
	}
	f.add(change)
	f.key = to
}

// openedBy is a registry whose first entry names these operators.
func openedBy(t testing.TB, keys ...*seal.Key) *fakeRegistry {
	f := emptyFake(t)
	f.entries, f.positions, f.chain, f.tree, f.key = nil, nil, ledger.NewChain(fakeOrigin), &ledger.Tree{}, keys[0]
	var people []seal.Entry
	for i, k := range keys {
		people = append(people, seal.Entry{Principals: []string{"olga", "omar"}[i], Key: k.Public(), Roles: []seal.Role{seal.Operator}})
	}
	signers, err := seal.Compose(1, digest.ID{}, people)
	if err != nil {
		t.Fatal(err)
	}
	f.add(&evidence.Opened{Origin: fakeOrigin, Signers: string(signers)})
	return f
}

func TestAMonitorFollowsOverARotation(t *testing.T) {
	first, second := testKey(t, 1), testKey(t, 2)
	f := story(newFake(t, 3, 2))
	var h http.Handler = f
	m := watch(t, &h) // knows the first key
	if _, err := m.Once(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := f.sign(f.head(f.tree.Size()))
	f.rotate(second, first, second)
	report, err := m.Once(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if want := seal.VKey(publicOf(second), fakeOrigin); len(report.Keys) != 1 || report.Keys[0] != want {
		t.Errorf("keys %q, want %s", report.Keys, want)
	}
	f.decide(f.propose(7), "withdrawn", evidence.RegistryVotes{})

	// Another process with the same memory and the same key, as cron starts it.
	again := begunAgain(m)
	if _, err := again.Once(context.Background()); err != nil {
		t.Fatal(err)
	}
	// A monitor that looks for the first time and was told the first key long ago,
	// and one that was told the second.
	for _, key := range []*seal.Key{first, second} {
		late := watch(t, &h)
		late.Keys = []ledger.LogKey{{Origin: fakeOrigin, Key: publicOf(key)}}
		if _, err := late.Once(context.Background()); err != nil {
			t.Error(err)
		}
	}
	// The old checkpoint, signed by the first key, is a rollback and no riddle.
	f.checkpointLie = func() []byte { return before }
	_, err = again.Once(context.Background())
	wantRefusal(t, err, refusal.HistoryRolledBack, "")
	// The first key signs no longer.
	f.checkpointLie = func() []byte { return signWith(t, first, f.head(f.tree.Size())) }
	f.add(&evidence.Note{})
	_, err = again.Once(context.Background())
	wantRefusal(t, err, refusal.CheckpointInvalid, "")
	f.checkpointLie = nil
	if _, err = again.Once(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestAForeignKeyDoesNotPassForAnHeir(t *testing.T) {
	first, foreign := testKey(t, 1), testKey(t, 66)
	for _, tt := range []struct {
		name string
		make func(t *testing.T) *fakeRegistry
		want refusal.Name
	}{
		{"its own ledger", func(t *testing.T) *fakeRegistry { return openedBy(t, foreign) }, refusal.CheckpointInvalid},
		{"it lists the first key as an operator beside its own", func(t *testing.T) *fakeRegistry { return openedBy(t, foreign, first) }, refusal.CheckpointInvalid},
		{"the first entry is the real one, the change is signed by the foreign key", func(t *testing.T) *fakeRegistry {
			f := openedBy(t, first)
			f.rotate(foreign, foreign, foreign)
			return f
		}, refusal.EntryInvalid},
		{"the change has a signature of the first key for something else", func(t *testing.T) *fakeRegistry {
			f := openedBy(t, first)
			f.rotate(foreign, testKey(t, 67), foreign)
			return f
		}, refusal.EntryInvalid},
		{"the foreign key hands over to the first one, which never agreed, and signs on", func(t *testing.T) *fakeRegistry {
			f := openedBy(t, foreign)
			f.rotate(first, foreign, foreign)
			f.key = foreign
			return f
		}, refusal.EntryInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.make(t)
			f.people(3, 2)
			_, err := look(t, story(f))
			wantRefusal(t, err, tt.want, "")
		})
	}
}
