package monitor

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/client"
	"tallystick/internal/serve/registry/recompute"
)

const fakeOrigin = "registry.example/log"

// A fakeRegistry is a registry whose operator can be made to lie: it holds the key,
// so that whatever it writes is signed.
type fakeRegistry struct {
	testing.TB
	key       *seal.Key
	agentKeys map[string]*seal.Key

	entries   [][]byte
	positions []ledger.Position
	chain     *ledger.Chain
	tree      *ledger.Tree
	now       time.Time

	proposer string
	proposed map[string]int64 // proposal to index
	blobs    map[string][]byte
	rows     []map[string]any
	drawn    map[digest.ID]*evidence.RegistryDrawn

	// lies, one for each thing that is served
	checkpointLie func() []byte
	entryLie      func(index int64, entry []byte) []byte
	rowsLie       func([]map[string]any) []map[string]any
	receiptLie    func(index int64) []byte
	blobLie       func([]byte) []byte
	drawLie       func(*evidence.RegistryDrawn)
	voteLie       func(*evidence.RegistryJudged)
	decisionLie   func(*evidence.RegistryDecided)
}

func testKey(t testing.TB, n byte) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func publicOf(k *seal.Key) ed25519.PublicKey {
	p, _ := k.Public().Ed25519()
	return p
}

func newFake(t testing.TB, judges, quorum int) *fakeRegistry {
	f := emptyFake(t)
	f.people(judges, quorum)
	return f
}

// emptyFake has a ledger and nothing in it.
func emptyFake(t testing.TB) *fakeRegistry {
	f := &fakeRegistry{TB: t, proposer: "proposer", key: testKey(t, 1), agentKeys: map[string]*seal.Key{}, chain: ledger.NewChain(fakeOrigin), tree: &ledger.Tree{},
		now: time.Date(2026, 5, 11, 9, 0, 0, 0, time.UTC), blobs: map[string][]byte{}, proposed: map[string]int64{}, drawn: map[digest.ID]*evidence.RegistryDrawn{}}
	signers, err := seal.Compose(1, digest.ID{}, []seal.Entry{{Principals: "olga@example.com", Key: f.key.Public(), Roles: []seal.Role{seal.Operator}}})
	if err != nil {
		t.Fatal(err)
	}
	f.add(&evidence.Opened{Origin: fakeOrigin, Signers: string(signers)})
	return f
}

// people adds settings, agents and judges.
func (f *fakeRegistry) people(judges, quorum int) {
	f.add(&evidence.RegistryConfigured{DeadlineHours: 72, DID: "did:web:registry.example", DrawRule: 2, Judges: judges, Quorum: quorum})
	for i, agent := range []string{"proposer", "ada", "bo", "cy", "di", "ed"} {
		f.agentKeys[agent] = testKey(f, byte(10+i))
		f.add(&evidence.RegistryAgent{Agent: agent, KeyHash: digest.IDOf([]byte(agent)), PublicKey: seal.DIDKey(publicOf(f.agentKeys[agent]))})
		if agent != "proposer" {
			f.add(&evidence.RegistryJudge{Admitted: true, Agents: []string{agent}, Person: agent + "@example.com"})
		}
	}
}

// add appends an entry as the sequencer would.
func (f *fakeRegistry) add(body evidence.Body) int64 {
	f.Helper()
	text, err := canon.Marshal(body)
	if err != nil {
		f.Fatal(err)
	}
	return f.addRaw(evidence.AppendEntry(nil, text, body.Kind(), false, evidence.At(f.now)))
}

func (f *fakeRegistry) addRaw(raw []byte) int64 {
	f.now = f.now.Add(time.Minute)
	position := f.chain.Append(digest.ContentOf(raw))
	if err := f.tree.Add(position.Leaf); err != nil {
		f.Fatal(err)
	}
	f.entries, f.positions = append(f.entries, raw), append(f.positions, position)
	return position.Index
}

// propose adds a proposal and returns its id.
func (f *fakeRegistry) propose(n int) *evidence.RegistryProposed {
	text := fmt.Appendf(nil, `{"artifactPath":"/artifacts/models/a/m%d","datasetPath":"/artifacts/datasets/d","evalHarnessPath":"/artifacts/eval-harnesses/h/v1","metrics":{"accuracy":0.%d},"runDetails":{"runner":"h","seed":%d}}`, n, n+1, n)
	blob := digest.ContentOf(text)
	f.blobs[blob.String()] = text
	p := &evidence.RegistryProposed{Agent: f.proposer, Artifact: fmt.Sprintf("/artifacts/models/a/m%d", n), Content: digest.IDOf(text), Manifest: blob, Path: fmt.Sprintf("/artifacts/evals/p%d", n), Proposal: fmt.Sprintf("p%d", n), Thing: "eval"}
	f.proposed[p.Proposal] = f.add(p)
	return p
}

// draw draws by the rule, unless it lies.
func (f *fakeRegistry) draw(p *evidence.RegistryProposed, judges int) {
	size := f.chain.Size()
	d := &evidence.RegistryDrawn{Content: p.Content, Proposal: p.Proposal, Size: size, Root: f.chain.Root().String(), Of: 5}
	d.Judges = recompute.Draw(f.chain.Root(), p.Content, []string{"ada@example.com", "bo@example.com", "cy@example.com", "di@example.com", "ed@example.com"}, judges)
	if f.drawLie != nil {
		f.drawLie(d)
	}
	f.drawn[p.Content] = d
	f.add(d)
}

func (f *fakeRegistry) vote(p *evidence.RegistryProposed, person, verdict string) {
	f.Helper()
	agent, _, _ := strings.Cut(person, "@")
	if f.agentKeys[agent] == nil {
		agent = f.proposer
	}
	message, err := recompute.Judgement{Content: p.Content, Proposal: p.Proposal, Registry: fakeOrigin, Verdict: verdict}.Message()
	if err != nil {
		f.Fatal(err)
	}
	j := &evidence.RegistryJudged{Agent: agent, Content: p.Content, Person: person, Proposal: p.Proposal, Verdict: verdict, Signature: seal.EncodeMultibase(ed25519.Sign(f.agentKeys[agent].Ed25519(), message))}
	if f.voteLie != nil {
		f.voteLie(j)
	}
	f.add(j)
}

func (f *fakeRegistry) decide(p *evidence.RegistryProposed, outcome string, votes evidence.RegistryVotes) {
	d := &evidence.RegistryDecided{Outcome: outcome, Proposal: p.Proposal, Votes: votes}
	if outcome == "published" {
		d.Chain = &evidence.RegistryChain{HMAC: "00", KeyID: "k", Signature: "z"}
	}
	if f.decisionLie != nil {
		f.decisionLie(d)
	}
	at := evidence.At(f.now)
	index := f.add(d)
	if d.Outcome != "published" {
		return
	}
	row := map[string]any{"proposalId": p.Proposal, "ipPath": p.Path, "status": "published", "publishedAt": at.String(), "earlier": p.Earlier, "entry": f.proposed[p.Proposal], "decision": index,
		"receipt": "https://registry.example" + client.ReceiptPath(f.proposed[p.Proposal]), "judges": map[string]any{"drawn": votes.For + votes.Against + votes.Abstained + votes.Missing,
			"for": votes.For, "against": votes.Against, "abstained": votes.Abstained, "missing": votes.Missing}}
	var content map[string]canon.RawMessage
	if err := canon.Unmarshal(f.blobs[p.Manifest.String()], &content); err != nil {
		f.Fatal(err)
	}
	for name, value := range content {
		row[name] = value
	}
	f.rows = append(f.rows, row)
}

// story is an honest registry's: published by two of three, rejected, withdrawn,
// lapsed, and one that is still open.
func story(f *fakeRegistry) *fakeRegistry {
	p0 := f.propose(0)
	f.draw(p0, 3)
	judges := f.drawn[p0.Content].Judges
	f.vote(p0, judges[0], "accept")
	f.vote(p0, judges[1], "reject")
	f.vote(p0, judges[2], "accept")
	f.decide(p0, "published", evidence.RegistryVotes{For: 2, Against: 1})

	p1 := f.propose(1)
	f.draw(p1, 3)
	judges = f.drawn[p1.Content].Judges
	f.vote(p1, judges[0], "reject")
	f.vote(p1, judges[1], "reject")
	f.decide(p1, "rejected", evidence.RegistryVotes{Against: 2, Missing: 1})

	f.decide(f.propose(2), "withdrawn", evidence.RegistryVotes{})

	p3 := f.propose(3)
	f.draw(p3, 3)
	f.vote(p3, f.drawn[p3.Content].Judges[0], "accept")
	f.now = f.now.Add(100 * time.Hour)
	f.decide(p3, "lapsed", evidence.RegistryVotes{For: 1, Missing: 2})

	p4 := f.propose(4)
	f.draw(p4, 3)
	judges = f.drawn[p4.Content].Judges
	f.vote(p4, judges[0], "accept")
	f.vote(p4, judges[1], "accept")
	f.decide(p4, "published", evidence.RegistryVotes{For: 2, Missing: 1})
	f.propose(5)
	return f
}

func (f *fakeRegistry) head(size int64) ledger.TreeHead {
	root, err := f.tree.Root(size)
	if err != nil {
		f.Fatal(err)
	}
	return ledger.TreeHead{Origin: fakeOrigin, Size: size, Root: root}
}

func (f *fakeRegistry) sign(head ledger.TreeHead) []byte { return signWith(f, f.key, head) }

func signWith(t testing.TB, key *seal.Key, head ledger.TreeHead) []byte {
	signer, err := seal.NoteSigner(key, fakeOrigin)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign([]byte(head.Text()))
	if err != nil {
		t.Fatal(err)
	}
	hash := signer.KeyHash()
	return ledger.AssembleCheckpoint(head, append([]byte{byte(hash >> 24), byte(hash >> 16), byte(hash >> 8), byte(hash)}, signature...))
}

func (f *fakeRegistry) checkpoint() []byte {
	if f.checkpointLie != nil {
		return f.checkpointLie()
	}
	return f.sign(f.head(f.tree.Size()))
}

func (f *fakeRegistry) receipt(index int64) []byte {
	if f.receiptLie != nil {
		return f.receiptLie(index)
	}
	size := f.tree.Size()
	proof, err := f.tree.ProveInclusion(size, index)
	if err != nil {
		f.Fatal(err)
	}
	data, err := ledger.NewReceipt(f.positions[index], f.entries[index], tlog.RecordProof(proof), f.sign(f.head(size))).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	return data
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := r.URL.Path
	switch {
	case at == client.CheckpointPath:
		w.Write(f.checkpoint())
	case at == strings.Split(client.EntriesPath(0, 0), "?")[0]:
		from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		n, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		for i := from; i < from+n && i < int64(len(f.entries)); i++ {
			entry := f.entries[i]
			if f.entryLie != nil {
				entry = f.entryLie(i, entry)
			}
			w.Write(append(entry, '\n'))
		}
	case at == client.ListPath:
		f.serveRows(w, r)
	case strings.HasPrefix(at, client.BlobPath("")):
		blob := f.blobs[strings.TrimPrefix(at, client.BlobPath(""))]
		if f.blobLie != nil {
			blob = f.blobLie(blob)
		}
		w.Write(blob)
	case strings.HasPrefix(at, "/receipt/"):
		index, _ := strconv.ParseInt(strings.TrimPrefix(at, "/receipt/"), 10, 64)
		receipt := f.receipt(index)
		if receipt == nil {
			http.NotFound(w, r)
		}
		w.Write(receipt)
	case strings.HasPrefix(at, "/tile/"):
		tile, ok := ledger.TileAt(f.tree, &ledger.Leaves{Origin: fakeOrigin}, strings.TrimPrefix(at, "/"))
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(tile.Data)
	default:
		http.NotFound(w, r)
	}
}

// serveRows serves one row a page, so that every test goes through pages.
func (f *fakeRegistry) serveRows(w http.ResponseWriter, r *http.Request) {
	rows := f.rows
	if f.rowsLie != nil {
		rows = f.rowsLie(rows)
	}
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	page := rows[min(after, len(rows)):min(after+1, len(rows))]
	if after+1 < len(rows) {
		w.Header().Set("Link", fmt.Sprintf(`<https://registry.example%s?limit=200&after=%d>; rel="next"`, client.ListPath, after+1))
	}
	text, err := canon.Marshal(append([]map[string]any{}, page...))
	if err != nil {
		f.Fatal(err)
	}
	w.Write(text)
}

// watch makes a monitor of a registry, which may be changed between looks.
func watch(t testing.TB, current *http.Handler) *Monitor {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*current).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return &Monitor{Client: c, Keys: []ledger.LogKey{{Origin: fakeOrigin, Key: publicOf(testKey(t, 1))}}, Dir: t.TempDir(), Now: time.Now, rowsOnly: true}
}

// cosign puts the checkpoint of a size, cosigned by a witness, behind a draw.
func (f *fakeRegistry) cosign(d *evidence.RegistryDrawn, witness *seal.Key, size int64) {
	f.Helper()
	head := f.head(size)
	signer, err := seal.CosignatureSigner(witness, "witness.example/w1", func() time.Time { return f.now })
	if err != nil {
		f.Fatal(err)
	}
	own, err := seal.NoteSigner(f.key, fakeOrigin)
	if err != nil {
		f.Fatal(err)
	}
	text, err := note.Sign(&note.Note{Text: head.Text()}, own, signer)
	if err != nil {
		f.Fatal(err)
	}
	blob := digest.ContentOf(text)
	f.blobs[blob.String()] = text
	d.Witnessed, d.Checkpoint = true, &blob
}
