package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/loopback"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/client"
	"tallystick/internal/serve/registry/web"
	"tallystick/internal/serve/viewer/layout"
	"tallystick/internal/share/attest"
)

// AnswerDiffers is a finding about an answer that does not follow from the entries.
const AnswerDiffers = "AnswerDiffers"

const (
	// answerTries is how often an answer is asked for that does not follow from the
	// entries: the registry may have been writing just then.
	answerTries = 5
	// sampled is how many old things of a kind are compared again at each look.
	sampled = 20
	// addedAtOnce bounds the entries that are taken into the mirror together.
	addedAtOnce = 5000
	// longestWait bounds how long a registry may tell a monitor to wait.
	longestWait = 2 * time.Minute
)

// A request is one that the registry is asked, and that is answered here too.
type request struct {
	method, target string
	body           []byte
	page           bool // asked for as a browser does
	fixed          bool // made at every look: its answer is in the route's digest
	// check takes the place of comparing with the answer that is made here.
	check func(ctx context.Context, a *client.Answer) (string, error)
}

func get(target string) request  { return request{method: http.MethodGet, target: target} }
func page(target string) request { return request{method: http.MethodGet, target: target, page: true} }
func post(target string, body any) request {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // of texts and digests that were read as JSON
	}
	return request{method: http.MethodPost, target: target, body: text}
}

// compareAnswers compares what the registry answers with what its entries give: what
// is always there, whatever entries have changed since the last look, and some of the
// rest; with All, everything.
func (m *Monitor) compareAnswers(ctx context.Context, report *Report) error {
	if err := m.reflect(ctx); err != nil {
		return err
	}
	m.digests = map[string]digest.ID{}
	m.routesAt = m.mirror.Size()
	for _, q := range m.always() {
		q.fixed = true
		if err := m.compareAnswer(ctx, q, report); err != nil {
			return err
		}
	}
	for _, target := range m.lists() {
		if err := m.compareList(ctx, target, report); err != nil {
			return err
		}
	}
	if m.mirror.Size() != m.routesAt {
		m.routesAt = -1
	}
	report.Routes = m.digests
	if err := m.compareStatusLists(ctx, report); err != nil {
		return err
	}
	for _, q := range m.about(m.chosen()) {
		if err := m.compareAnswer(ctx, q, report); err != nil {
			return err
		}
	}
	m.compared = m.mirror.Size()
	return nil
}

// reflect makes the mirror, and brings it to where the entries are that were read.
// What was compared at an earlier look is not touched again.
func (m *Monitor) reflect(ctx context.Context) error {
	if m.mirror == nil {
		var err error
		if m.mirror, err = registry.OpenMirror(ctx, filepath.Join(m.Dir, "mirror"), m.memory.Origin, m.Now); err != nil {
			return err
		}
		if err := m.advance(ctx, m.memory.Compared); err != nil {
			return err
		}
		m.mirror.Touched()
		m.compared = m.memory.Compared
	}
	return m.advance(ctx, m.memory.Size)
}

// advance takes entries into the mirror, up to a size that was verified.
func (m *Monitor) advance(ctx context.Context, size int64) error {
	for m.mirror.Size() < size {
		n := min(size-m.mirror.Size(), addedAtOnce)
		if err := m.mirror.Add(ctx, m.ahead[:n], []byte(m.memory.Checkpoint), func(d digest.Content) ([]byte, error) { return m.text(ctx, d) }); err != nil {
			return err
		}
		m.ahead = m.ahead[n:]
	}
	address := m.mirror.PublicURL()
	if address == "" {
		var err error
		if address, err = m.listener(ctx); err != nil {
			return err
		}
	}
	if m.honest != nil && m.honestURL == address {
		return nil
	}
	var err error
	m.honest, err = web.New(web.Config{Reader: m.mirror, PublicURL: address, Now: m.Now})
	m.honestURL = address
	return err
}

// listener is what the addresses of a registry begin with whose settings give it no name:
// it answers with where it listens, which may be spelled otherwise than here. Only a name
// of this machine, of every address of it, or the one that was asked is taken.
func (m *Monitor) listener(ctx context.Context) (string, error) {
	asked := m.Client.Address()
	a, err := m.ask(ctx, get("/.well-known/ip-knowledge.json"))
	if err != nil {
		return "", err
	}
	var about struct {
		OpenAPI string `json:"openapi"`
	}
	said, found := "", false
	if json.Unmarshal(a.Body, &about) == nil {
		said, found = strings.CutSuffix(about.OpenAPI, "/openapi.json")
	}
	u, err := url.Parse(said)
	if err != nil || !found || u.Scheme != "http" || u.Path != "" || u.User != nil {
		return asked, nil // the comparison will tell
	}
	everywhere, err := netip.ParseAddr(u.Hostname())
	if loopback.Is(u.Hostname()) || err == nil && everywhere.IsUnspecified() || u.Host == m.Client.Host() {
		return said, nil
	}
	return asked, nil
}

// text fetches a text that an entry names; nil if an entry says that it was taken
// down, or will have said so by now.
func (m *Monitor) text(ctx context.Context, d digest.Content) ([]byte, error) {
	a, err := m.ask(ctx, get(client.BlobPath(d.String())))
	if err != nil {
		return nil, err
	}
	if a.Status == http.StatusOK {
		return a.Body, nil
	}
	if err := m.follow(ctx); err != nil {
		return nil, err
	}
	if !m.state.down[d] {
		m.missing[d] = a.Err().Error()
	}
	return nil, nil
}

// ask asks, and waits when it is told to.
func (m *Monitor) ask(ctx context.Context, q request) (*client.Answer, error) {
	for try := 1; ; try++ {
		var a *client.Answer
		var err error
		switch {
		case q.method == http.MethodPost:
			a, err = m.Client.Post(ctx, q.target, q.body, "")
		case q.page:
			a, err = m.Client.GetPage(ctx, q.target)
		default:
			a, err = m.Client.Get(ctx, q.target)
		}
		if err != nil || a.Status != http.StatusTooManyRequests && a.Status != http.StatusServiceUnavailable || try == answerTries {
			return a, err
		}
		seconds, _ := strconv.Atoi(a.Header.Get("Retry-After"))
		if err := m.pause(ctx, min(max(time.Duration(seconds)*time.Second, time.Second), longestWait)); err != nil {
			return nil, err
		}
	}
}

func (m *Monitor) pause(ctx context.Context, d time.Duration) error {
	if m.wait != nil {
		return m.wait(ctx, d)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// compareAnswer asks one request of the registry and of the mirror. An answer is of the
// tree that it names, and the mirror is brought to exactly that.
func (m *Monitor) compareAnswer(ctx context.Context, q request, report *Report) error {
	difference := ""
	for try := range answerTries {
		if try > 0 {
			if err := m.pause(ctx, 20*time.Millisecond<<try); err != nil {
				return err
			}
		}
		a, err := m.ask(ctx, q)
		if err != nil {
			return err
		}
		if a.Status >= 500 {
			return fmt.Errorf("%s %s: %w", q.method, q.target, a.Err())
		}
		if difference, err = m.differs(ctx, q, a); err != nil {
			return err
		}
		if difference == "" {
			report.Answers++
			return nil
		}
	}
	m.report(report, AnswerDiffers, -1, "", "%s %s: %s", q.method, q.target, difference)
	return nil
}

// differs says where an answer differs from what the entries give.
func (m *Monitor) differs(ctx context.Context, q request, a *client.Answer) (string, error) {
	said := a.Header.Get(web.TreeSizeHeader)
	size, err := strconv.ParseInt(said, 10, 64)
	if err != nil || size < 0 {
		return fmt.Sprintf("it names no tree size: %s is %.40q", web.TreeSizeHeader, said), nil
	}
	if size > m.memory.Size {
		if err := m.follow(ctx); err != nil {
			return "", err
		}
	}
	switch {
	case size > m.memory.Size:
		return fmt.Sprintf("it is of %d entries; the registry signs %d", size, m.memory.Size), nil
	case size < m.mirror.Size():
		return fmt.Sprintf("it is of %d entries; an answer of %d was given before", size, m.mirror.Size()), nil
	}
	if err := m.advance(ctx, size); err != nil {
		return "", err
	}
	if q.check != nil {
		return q.check(ctx, a)
	}
	return m.differsFromMirror(q, a), nil
}

func (m *Monitor) differsFromMirror(q request, a *client.Answer) string {
	want, follows := m.answer(q)
	got, expected := a.Body, want.body.Bytes()
	gone := func(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }
	switch {
	case gone(a.Status) && gone(want.status):
		return "" // the process that writes knows that it was taken down, others only that it is not there
	case a.Status != want.status:
		return fmt.Sprintf("it answers %d, the entries give %d: %s", a.Status, want.status, short(expected))
	}
	for _, name := range []string{"Content-Type", "Link"} {
		if got, want := a.Header.Values(name), want.header.Values(name); !slices.Equal(got, want) {
			return fmt.Sprintf("%s is %q, the entries give %q", name, got, want)
		}
	}
	if len(follows.Except) > 0 && strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
		got = masked(got, expected, follows.Except)
	}
	if !bytes.Equal(got, expected) {
		return differenceOf(got, expected)
	}
	if q.fixed {
		m.digests[follows.Route] = digest.IDOf(slices.Concat([]byte(m.digests[follows.Route].String()), []byte(q.target+"\n"), got))
	}
	return ""
}

// masked puts the expected values in the place of members that do not follow from
// entries, if both have them.
func masked(got, expected []byte, except map[string]string) []byte {
	var have, want map[string]canon.RawMessage
	if canon.Unmarshal(bytes.TrimSuffix(got, []byte("\n")), &have) != nil || canon.Unmarshal(bytes.TrimSuffix(expected, []byte("\n")), &want) != nil {
		return got
	}
	if text, err := canon.Marshal(have); err != nil || !bytes.Equal(append(text, '\n'), got) {
		return got // another spelling of the same is not what is served
	}
	for name := range except {
		if have[name] != nil && want[name] != nil && kindOf(have[name]) == kindOf(want[name]) {
			have[name] = want[name]
		}
	}
	text, err := canon.Marshal(have)
	if err != nil {
		return got
	}
	return append(text, '\n')
}

// kindOf is the kind of a JSON value; true and false are of one.
func kindOf(v canon.RawMessage) byte {
	if k := byte(v.Kind()); k != 't' {
		return k
	}
	return 'f'
}

// differenceOf shows where two texts part.
func differenceOf(got, want []byte) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	around := func(b []byte) string { return string(b[max(0, min(n-40, len(b))):min(n+80, len(b))]) }
	return fmt.Sprintf("from byte %d on it says %q, the entries give %q", n, around(got), around(want))
}

// A recorder takes the answer of the server in this process.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// answer is what the entries give.
func (m *Monitor) answer(q request) (*recorder, web.Follows) {
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
	r, err := http.NewRequest(q.method, "http://mirror"+q.target, bytes.NewReader(q.body))
	if err != nil {
		rec.status = http.StatusBadRequest
		return rec, web.Follows{}
	}
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Accept", "application/json")
	if q.page {
		r.Header.Set("Accept", client.PageAnswer)
	}
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	follows, _ := m.honest.FollowsOf(r)
	m.honest.ServeHTTP(rec, r)
	return rec, follows
}

// always are the requests of every look that are not lists.
func (m *Monitor) always() []request {
	all := []request{
		get("/.well-known/ip-knowledge.json"), get("/"), page("/"), get("/.well-known/jwks.json"), get("/.well-known/did.json"), get("/did.json"),
		get("/api/knowledge/signing-keys"), get("/docs/verification-recipe.md"), get("/scripts/ip_eval_attest.py"), get("/openapi.json"),
		get("/credentials/index.json"), get("/credentials/eval-run/v1"), get("/docs/schemas/" + attest.Kind + ".schema.json"),
		get("/pages/keys"), page("/leaderboard"), get("/feed.atom"), get("/api/knowledge/tree/path/artifacts"), page("/artifact/artifacts"),
		{method: http.MethodPost, target: "/api/credentials/dry-run", body: []byte(goodBody)},
		{method: http.MethodPost, target: "/api/credentials/dry-run", body: []byte(`{"kind":"eval.run.attestation.v1","body":{}}`)},
	}
	for _, name := range layout.AssetNames() {
		all = append(all, get("/pages/assets/"+name))
	}
	return append(all,
		request{method: http.MethodGet, target: client.CheckpointPath, check: func(_ context.Context, a *client.Answer) (string, error) { return m.differsCheckpoint(a.Body), nil }},
		request{method: http.MethodGet, target: "/pages/checkpoint", check: m.differsPageCheckpoint})
}

// lists are the first pages of every list that has every row.
func (m *Monitor) lists() []string {
	var all []string
	for _, kind := range []string{"artifact", "model", "eval-harness", "dataset", "eval"} {
		base := "/api/knowledge/" + kind + "/list"
		all = append(all, base)
		for _, status := range []string{"all", registry.Pending, registry.Rejected, registry.Withdrawn, registry.Lapsed} {
			all = append(all, base+"?status="+status+"&limit=200")
		}
	}
	return all
}

// compareList compares a list page by page, as long as the entries give another.
func (m *Monitor) compareList(ctx context.Context, target string, report *Report) error {
	for target != "" {
		if err := m.compareAnswer(ctx, request{method: http.MethodGet, target: target, fixed: true}, report); err != nil {
			return err
		}
		want, _ := m.answer(get(target))
		after, more, err := nextPage(want.header)
		if err != nil || !more {
			return err
		}
		path, query, _ := strings.Cut(target, "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			return err
		}
		values.Set("after", after)
		target = path + "?" + values.Encode()
	}
	return nil
}

// chosen are the things to compare at this look.
func (m *Monitor) chosen() registry.Touched {
	touched, all := m.mirror.Touched(), m.mirror.Everything()
	if m.All {
		return all
	}
	some(touched.Proposals, all.Proposals)
	some(touched.Agents, all.Agents)
	some(touched.Paths, all.Paths)
	some(touched.Credentials, all.Credentials)
	some(touched.Texts, all.Texts)
	return touched
}

// some adds a few of all, so that what was compared once is compared again in time.
func some[K comparable](to, all map[K]bool) {
	keys := slices.Collect(maps.Keys(all))
	for range min(sampled, len(keys)) {
		to[keys[rand.IntN(len(keys))]] = true
	}
}

// about are the requests about things.
func (m *Monitor) about(t registry.Touched) []request {
	var all []request
	for _, id := range sorted(t.Proposals) {
		all = append(all, get("/proposal/"+id), page("/evaluation/"+id), post("/api/knowledge/attestation/verify", map[string]string{"proposalId": id}))
	}
	for _, id := range sorted(t.Agents) {
		all = append(all, get("/api/agents/"+id), get("/api/knowledge/eval/list?status=all&runner="+url.QueryEscape(id)))
	}
	for _, path := range sorted(t.Paths) {
		all = append(all, get("/api/knowledge/tree/path"+path), page("/artifact"+path))
		if registry.CheckPath(path) == nil {
			all = append(all, get("/api/knowledge/eval/for-artifact"+path), get("/api/knowledge/eval/for-artifact"+path+"?status=all&limit=200"))
		}
		if strings.HasPrefix(path, "/artifacts/datasets/") {
			all = append(all, page("/leaderboard?dataset="+url.QueryEscape(path)), page("/leaderboard?dataset="+url.QueryEscape(path)+"&metric=accuracy"))
		}
	}
	for id := range t.Credentials {
		all = append(all, m.aboutCredential(id)...)
	}
	for d := range t.Texts {
		all = append(all, get(client.BlobPath(d.String())), get("/pages/blob/"+d.String()))
	}
	return append(all, m.aboutTree()...)
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func (m *Monitor) aboutCredential(id digest.ID) []request {
	hex := strings.TrimPrefix(id.String(), "sha256:")
	all := []request{get("/api/badge/v1/attestation/eval.run.attestation.v1/" + hex), get("/api/badge/v1/attestation/eval.run.attestation.v1/" + hex + ".svg")}
	c, err := m.mirror.Credential(context.Background(), id)
	if err != nil {
		return all // taken down: the badge says so
	}
	if at := strings.Index(c.ID, "/api/credentials/judgment/"); at >= 0 {
		all = append(all, get(c.ID[at:]))
	}
	return append(all, post("/credentials/verify", map[string]any{"verifiableCredential": json.RawMessage(c.Credential)}),
		post("/api/knowledge/attestation/verify", map[string]any{"credential": json.RawMessage(c.Credential)}))
}

// aboutTree are the tiles and receipts of what is new, and of some entries before.
func (m *Monitor) aboutTree() []request {
	from, size := m.compared, m.mirror.Size()
	if m.All {
		from = 0
	}
	var all []request
	for _, path := range ledger.TilePaths(from, size) {
		all = append(all, get("/"+path))
	}
	indexes := map[int64]bool{}
	for i := max(from, size-sampled); i < size; i++ {
		indexes[i] = true
	}
	for range min(size, sampled) {
		indexes[rand.Int64N(size)] = true
	}
	if m.All {
		for i := range size {
			indexes[i] = true
		}
	}
	for _, i := range slices.Sorted(maps.Keys(indexes)) {
		all = append(all,
			request{method: http.MethodGet, target: client.ReceiptPath(i), check: func(ctx context.Context, a *client.Answer) (string, error) {
				return m.differsReceipt(ctx, i, a.Status, a.Body)
			}},
			request{method: http.MethodGet, target: fmt.Sprintf("/pages/receipt/%d", i), check: func(ctx context.Context, a *client.Answer) (string, error) { return m.differsPageReceipt(ctx, i, a) }})
	}
	return all
}

// differsCheckpoint checks a signed tree head against the entries that were read.
func (m *Monitor) differsCheckpoint(note []byte) string {
	head, err := treeHead(note)
	if err != nil {
		return err.Error()
	}
	if head.Size > m.memory.Size {
		return fmt.Sprintf("it is of %d entries; %d were signed a moment ago", head.Size, m.memory.Size)
	}
	if _, err := ledger.VerifyCheckpoint(note, ledger.Policy{Logs: m.log.operators(head.Size), Witnesses: m.Witnesses.Witnesses, Quorum: m.Witnesses.Quorum}); err != nil {
		return err.Error()
	}
	if root, err := m.log.tree.Root(head.Size); err != nil || root != head.Root {
		return fmt.Sprintf("it says that the root of %d entries is %s; it is %s", head.Size, head.Root, root)
	}
	return ""
}

func (m *Monitor) differsPageCheckpoint(_ context.Context, a *client.Answer) (string, error) {
	var said struct {
		Checkpoint string `json:"checkpoint"`
	}
	if err := strictAnswer(a, &said); err != nil {
		return err.Error(), nil
	}
	return m.differsCheckpoint([]byte(said.Checkpoint)), nil
}

// strictAnswer reads an answer that has these members and no others.
func strictAnswer(a *client.Answer, into any) error {
	if a.Status != http.StatusOK {
		return a.Err()
	}
	text, ended := bytes.CutSuffix(a.Body, []byte("\n"))
	if !ended {
		return refusal.Newf(refusal.Malformed, "it does not end with a newline")
	}
	return canon.Unmarshal(text, into)
}

func (m *Monitor) differsReceipt(ctx context.Context, index int64, status int, receipt []byte) (string, error) {
	if status != http.StatusOK {
		return fmt.Sprintf("it answers %d", status), nil
	}
	proved, err := m.prove(ctx, receipt, index)
	switch {
	case err != nil && refusal.ExitCode(err) == refusal.ExitFailed && ctx.Err() != nil:
		return "", err
	case err != nil:
		return err.Error(), nil
	case proved.Index != index:
		return fmt.Sprintf("it proves entry %d", proved.Index), nil
	}
	return "", nil
}

func (m *Monitor) differsPageReceipt(ctx context.Context, index int64, a *client.Answer) (string, error) {
	var said struct {
		Entry   string           `json:"entry"`
		Receipt string           `json:"receipt"`
		Key     canon.RawMessage `json:"key"`
	}
	if err := strictAnswer(a, &said); err != nil {
		return err.Error(), nil
	}
	want, _ := m.answer(get(fmt.Sprintf("/pages/receipt/%d", index)))
	got := masked(a.Body, want.body.Bytes(), map[string]string{"receipt": ""})
	if !bytes.Equal(got, want.body.Bytes()) {
		return differenceOf(got, want.body.Bytes()), nil
	}
	return m.differsReceipt(ctx, index, a.Status, []byte(said.Receipt))
}

// compareStatusLists verifies every status list that a credential has a place in, bit by
// bit, and keeps it to verify credentials with.
func (m *Monitor) compareStatusLists(ctx context.Context, report *Report) error {
	for n := range m.mirror.StatusLists() {
		q := get(registry.StatusListAddress(n))
		q.check = func(ctx context.Context, a *client.Answer) (string, error) { return m.differsStatusList(ctx, n, a) }
		if err := m.compareAnswer(ctx, q, report); err != nil {
			return err
		}
	}
	return nil
}

func (m *Monitor) differsStatusList(ctx context.Context, n int, a *client.Answer) (string, error) {
	if a.Status != http.StatusOK {
		return fmt.Sprintf("it answers %d", a.Status), nil
	}
	if got, want := a.Header.Get("Content-Type"), "application/vc"; got != want {
		return fmt.Sprintf("Content-Type is %q, expected %q", got, want), nil
	}
	t := m.mirror.IssuerTrust()
	t.Now = m.Now()
	bits, err := attest.OpenStatusList(a.Body, m.mirror.Issuer(), attest.Revocation, t)
	if err != nil {
		return err.Error(), nil
	}
	if want := m.mirror.StatusBits(n); !bytes.Equal(bits, want) {
		return "its bits differ from the revocations in the entries: " + differingBit(bits, want), nil
	}
	var said struct {
		ID      string `json:"id"`
		From    string `json:"validFrom"`
		Until   string `json:"validUntil"`
		Subject struct {
			ID  string `json:"id"`
			TTL any    `json:"ttl"`
		} `json:"credentialSubject"`
	}
	if err := json.Unmarshal(a.Body, &said); err != nil {
		return err.Error(), nil
	}
	id := m.mirror.StatusID(n)
	switch {
	case said.ID != id || said.Subject.ID != id+"#list":
		return fmt.Sprintf("it is %.200q of %.200q, expected %q", said.ID, said.Subject.ID, id), nil
	case said.From == "" || said.Until == "":
		return "it does not say from when and until when it holds", nil
	case said.Subject.TTL != nil:
		return "it has a ttl, which the registry does not give", nil
	}
	return "", m.mirror.PutStatusList(ctx, n, a.Body)
}

func differingBit(got, want []byte) string {
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			return fmt.Sprintf("byte %d", i)
		}
	}
	return fmt.Sprintf("%d bytes, expected %d", len(got), len(want))
}

// goodBody is one that the dry run finds valid, as docs/registry.md has it.
const goodBody = `{"kind":"eval.run.attestation.v1","body":{"schemaVersion":"1.0.0","runId":"00000000-0000-4000-8000-000000000000","harnessId":"lm-eval-harness",` +
	`"harnessVersionSha":"0000000000000000000000000000000000000000000000000000000000000000","evalCodeSha":"1111111111111111111111111111111111111111111111111111111111111111",` +
	`"modelId":"huggingface://acme/tiny","datasetSha":"2222222222222222222222222222222222222222222222222222222222222222","runnerDid":"did:web:my-org.example.com",` +
	`"submittedAt":1747000000000,"results":{"mmlu_pro":{"accuracy":0.738,"stderr":0.0041}},"resultsHash":"5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc"}}`
