package ceremony

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
)

// InitOptions say what workspace to make.
type InitOptions struct {
	Dir      string
	Origin   string // of the ledger; "" for a random local one
	Operator string // name of the person who runs evaluations
	Signers  string // file of people to start from; "" for the example people

	bare bool // no example class and no example target
}

// examplePeople sign in examples and demos. Their keys lie beside the ledger,
// so they prove nothing to others, and their names say so.
var examplePeople = []struct {
	name  string
	roles []seal.Role
}{
	{"example-alice", []seal.Role{seal.Curator}},
	{"example-bob", []seal.Role{seal.Curator, seal.Security}},
}

// Init makes a workspace.
func Init(ctx context.Context, o InitOptions, world dossier.World) (*dossier.Place, error) {
	w, err := newWorkspace(o, world)
	if err != nil {
		return nil, err
	}
	// What can be refused is refused before anything is written.
	p, err := planInit(w, o)
	if err != nil {
		return nil, err
	}
	if err := p.write(w); err != nil {
		return nil, err
	}
	// The settings come last: a folder without them is not a workspace, so a
	// crash half-way leaves something that init can be run on again.
	if err := beginLedger(ctx, w, p); err != nil {
		return nil, err
	}
	if err := writeOperators(w, o.Operator); err != nil {
		return nil, err
	}
	if err := writeFrame(w, o.bare); err != nil {
		return nil, err
	}
	if o.bare {
		return w, nil
	}
	if err := writeCodeOwners(w); err != nil || o.Signers != "" {
		return w, err
	}
	return w, exampleBench(w)
}

// writeFrame writes the files that every workspace has. In a repository git has
// files of its own already: without these lines it would publish the keys.
func writeFrame(w *dossier.Place, bare bool) error {
	if _, err := addLines(w.Path(".gitignore"), "/.tally/"); err != nil {
		return err
	}
	if _, err := addLines(w.Path(".gitattributes"), strings.Split(strings.TrimSpace(gitAttributes), "\n")...); err != nil {
		return err
	}
	if err := store.WriteFile(store.OS{}, w.Path(workspace.SettingsFile), w.Settings.Format(), 0o644); err != nil || bare {
		return err
	}
	if err := store.MakeDir(store.OS{}, w.Path(agent.TargetsDir), 0o755); err != nil {
		return err
	}
	return WriteIfMissing(w.Path(agent.TargetsDir, agent.DefaultTarget+".yaml"), []byte(exampleTarget), 0o644)
}

// ExampleClass is the class that a new workspace comes with.
const ExampleClass = "example"

// exampleBench makes a small class and has the two example people sign it: the
// ceremony that real people go through, done once for a newcomer to look at.
func exampleBench(p *dossier.Place) error {
	if workspace.Exists(p.Path(bench.Dir)) {
		return nil // an earlier init was interrupted, or the user has benches
	}
	c, err := p.OpenCorpus()
	if err != nil {
		return err
	}
	defer c.Close()
	alice, bob := ExamplePeople()
	if _, err := NewClass(c, ClassOptions{Class: ExampleClass, AddedBy: alice, ReviewedBy: bob}); err != nil {
		return err
	}
	return SignAsExamples(c, ExampleClass)
}

// ExamplePeople are the names of the two example people.
func ExamplePeople() (curator, security string) { return examplePeople[0].name, examplePeople[1].name }

// SignAsExamples computes the digests of a class and has the example people
// sign it.
func SignAsExamples(c *dossier.Corpus, class string) error {
	if _, err := Digest(c, DigestOptions{Class: class}); err != nil {
		return err
	}
	for _, person := range examplePeople {
		if _, err := Sign(c, SignOptions{Class: class, Pen: Pen{Key: filepath.Join(c.KeysDir(), person.name)}}); err != nil {
			return err
		}
	}
	return nil
}

// newWorkspace is the workspace that init will make. One that exists is
// refused.
func newWorkspace(o InitOptions, world dossier.World) (*dossier.Place, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "finding the folder: %w", err)
	}
	if workspace.Exists(filepath.Join(dir, workspace.SettingsFile)) {
		return nil, refusal.Newf(refusal.AlreadyExists, "%s is a workspace already", dir).
			WithHint(`"tally ledger verify" looks at it; init another folder`)
	}
	w := &dossier.Place{Workspace: &workspace.Workspace{Dir: dir, Settings: workspace.Settings{Version: workspace.SettingsVersion, Origin: o.Origin}}, World: world}
	if w.Settings.Origin == "" {
		w.Settings.Origin = randomOrigin()
	}
	if err := evidence.CheckOrigin(w.Settings.Origin); err != nil {
		return nil, refusal.Newf(refusal.Usage, "--origin: %w", err).WithHint("a host name and a path, as in example.com/evals")
	}
	// Without a place for the memory there can be no ledger.
	_, err = w.Sequencer()
	return w, err
}

// An initPlan is what init will write.
type initPlan struct {
	operator *seal.Key
	signers  []byte
	keys     []keyFile
	begun    bool // an interrupted init has begun the ledger already
}

// planInit reads what is given or was left by an interrupted init, and makes
// the rest.
func planInit(w *dossier.Place, o InitOptions) (*initPlan, error) {
	p := &initPlan{}
	var err error
	if path := w.Getenv("TALLY_OPERATOR_KEY"); path != "" {
		p.operator, err = w.OperatorKey()
	} else if path = filepath.Join(w.KeysDir(), "operator"); o.Signers == "" || workspace.Exists(path) {
		p.operator, err = p.key(path, o.Operator)
	} else {
		return nil, refusal.Newf(refusal.NotAnOperator, "%s cannot name the operator's key: there is none yet", o.Signers).
			WithHint(`make one with "ssh-keygen -t ed25519 -N '' -f KEY", name it in the file with roles=operator, and set TALLY_OPERATOR_KEY=KEY`)
	}
	if err != nil {
		return nil, err
	}
	if p.begun, err = ledgerBegun(w, p, o); p.begun || err != nil {
		return p, err
	}
	if o.Signers != "" {
		p.signers, err = store.ReadFile(store.OS{}, o.Signers, 1<<20)
	} else {
		p.signers, err = p.exampleSigners(w, o)
	}
	if err != nil {
		return nil, err
	}
	w.Settings.TrustRoot = digest.IDOf(p.signers)
	name := "the signers file"
	if o.Signers != "" {
		name = o.Signers
	}
	signers, err := seal.Root(name, p.signers, w.Settings.TrustRoot)
	if err != nil {
		return nil, err
	}
	if err := checkSuccession(signers, w.Now()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := w.OperatorName(signers, p.operator); err != nil {
		return nil, refusal.Newf(refusal.NotAnOperator, "nothing is appended without a valid operator signature: %w", err).
			WithHint("name the operator's public key in the file with roles=operator; TALLY_OPERATOR_KEY names its private half")
	}
	return p, nil
}

// key reads the key that an interrupted init left, or makes one.
func (p *initPlan) key(path, comment string) (*seal.Key, error) {
	if workspace.Exists(path) {
		return seal.LoadKey(path)
	}
	key, err := seal.NewKey(rand.Reader)
	if err == nil {
		p.keys = append(p.keys, keyFile{path, comment, key})
	}
	return key, err
}

// exampleSigners composes a signers file of the operator and the example
// people.
func (p *initPlan) exampleSigners(w *dossier.Place, o InitOptions) ([]byte, error) {
	entries := []seal.Entry{{Principals: o.Operator, Key: p.operator.Public(), Roles: []seal.Role{seal.Operator}}}
	for _, person := range examplePeople {
		key, err := p.key(filepath.Join(w.KeysDir(), person.name), person.name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, seal.Entry{Principals: person.name, Key: key.Public(), Roles: person.roles})
	}
	return seal.Compose(1, digest.ID{}, entries)
}

// write makes the folders, the keys and version 1 of the signers file.
func (p *initPlan) write(w *dossier.Place) error {
	for _, dir := range []struct {
		name string
		perm os.FileMode
	}{{w.Dir, 0o755}, {w.KeysDir(), 0o700}, {filepath.Dir(w.SignersFile()), 0o755}} {
		if err := store.MakeDir(store.OS{}, dir.name, dir.perm); err != nil {
			return err
		}
	}
	for _, k := range p.keys {
		if err := k.write(w.Getenv); err != nil {
			return err
		}
	}
	return store.WriteFile(store.OS{}, w.SignersFile(), p.signers, 0o644)
}

// ledgerBegun looks for a ledger that an init began before it was interrupted,
// and takes its name and its signers from it. A ledger with more than the
// first entry is in use: it is left alone.
func ledgerBegun(w *dossier.Place, p *initPlan, o InitOptions) (bool, error) {
	place, err := w.Sequencer()
	if err != nil {
		return false, err
	}
	if !workspace.Exists(place.SegmentsDir()) {
		return false, nil
	}
	// No root is pinned yet. What is found is shown to the person, and counts
	// only if it is nothing but the first entry and names our key.
	v, err := place.Verify(ledger.Options{UnsafeAnyRoot: true, Decode: true})
	// Nothing was promised of a first batch that has no seal, nor of none.
	if refusal.Is(err, refusal.TornTail) || refusal.Is(err, refusal.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = w.OperatorName(v.Signers, p.operator)
	if v.Size > 1 || err != nil || o.Origin != "" && o.Origin != v.Origin {
		return false, refusal.Newf(refusal.AlreadyExists, "%s holds the ledger %s of %d entries already", w.LedgerDir(), v.Origin, v.Size).
			WithHint("put its %s back, or init another folder", workspace.SettingsFile)
	}
	w.Settings.Origin, w.Settings.TrustRoot, p.signers = v.Origin, v.Signers.Digest(), v.Signers.Bytes()
	return true, nil
}

// beginLedger writes the first entry, unless an interrupted init has.
func beginLedger(ctx context.Context, w *dossier.Place, p *initPlan) error {
	if p.begun {
		l, err := w.OpenLedger(ctx)
		if err != nil {
			return err
		}
		return l.Close()
	}
	cfg, err := w.Config()
	if err != nil {
		return err
	}
	if torn, _ := store.Segments(store.OS{}, cfg.SegmentsDir()); len(torn) == 1 && torn[0].Size > 0 {
		if _, err := sequencer.Repair(ctx, cfg); err != nil {
			return err
		}
	}
	l, err := sequencer.Create(ctx, cfg, p.signers)
	if err != nil {
		return err
	}
	return l.Close()
}

func randomOrigin() string {
	var b [8]byte
	rand.Read(b[:])
	return "local/" + hex.EncodeToString(b[:])
}

// WriteIfMissing writes a file unless something is there.
func WriteIfMissing(path string, data []byte, perm os.FileMode) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return store.WriteFile(store.OS{}, path, data, perm)
}

// exampleTarget is the agent that a new workspace comes with.
const exampleTarget = `# The agent under test, and how to drive it: the built-in reference agent. Other
# kinds are command (any program, in a sandbox) and http; docs/agents.md has them.
version: 1
kind: builtin
builtin:
  model: example-model
  api: openai.chat
  system: "You are a careful assistant. Answer with what is asked for and nothing else."
`

// gitAttributes keeps git from changing line ends, as it does on some machines:
// digests and signatures are over bytes.
const gitAttributes = `/*.yaml -text
/audit/** -text
/bench/** -text
/cassettes/** -text
/golden/** -text
/signers/** -text
/targets/** -text
`
