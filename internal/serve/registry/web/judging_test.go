package web

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/recompute"
)

// sign signs a judgement as a judge's own program does, from what the API says.
func (m member) sign(t *testing.T, proposal answer, verdict, reason string) string {
	t.Helper()
	content, err := digest.ParseID(proposal.has("content"))
	if err != nil {
		t.Fatal(err)
	}
	j := recompute.Judgement{Content: content, Proposal: proposal.has("proposalId"), Registry: "registry.test/log", Verdict: verdict}
	if reason != "" {
		d := digest.ContentOf([]byte(reason))
		j.Reason = &d
	}
	message, err := j.Message()
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(ed25519.Sign(m.private, message))
}

func judgementBody(t *testing.T, id, verdict, reason, signature string) string {
	t.Helper()
	form := map[string]string{"proposalId": id, "verdict": verdict, "signature": signature}
	if reason != "" {
		form["reason"] = reason
	}
	text, err := json.Marshal(form)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThreeJudgesDecide(t *testing.T) {
	p := newPlace(t, func(_ string, s *registry.Settings) { s.Judges, s.Quorum = 3, 2 })
	ctx := context.Background()
	proposer := p.register()
	judges := map[string]member{}
	for i := range 4 {
		m, who := p.register(), fmt.Sprintf("judge-%d", i)
		judges[who] = m
		if err := p.reg.AdmitJudge(ctx, who, []string{m.id}); err != nil {
			t.Fatal(err)
		}
	}
	pending := p.post("/api/knowledge/model/propose", proposer.key, `{"path":"`+modelPath+`"}`).is(201)
	id := pending.has("proposalId")
	if pending.has("status") != "pending" {
		t.Fatalf("%s", pending.Body)
	}
	if err := p.reg.Tick(ctx); err != nil {
		t.Fatal(err)
	}
	full := p.get("/proposal/" + id).is(200)
	var drawn []string
	if err := json.Unmarshal([]byte(full.has("judges.persons")), &drawn); err != nil || len(drawn) != 3 {
		t.Fatalf("drawn: %s", full.has("judges"))
	}

	// Each of the drawn is shown the proposal, and no other agent is.
	for who, m := range judges {
		a := p.get("/api/agent/v1/judge", "Authorization", "Bearer "+m.key).is(200)
		shown := strings.Contains(a.Body.String(), id)
		if is := strings.Contains(strings.Join(drawn, " "), who); shown != is {
			t.Errorf("%s was drawn: %v, is shown it: %v", who, is, shown)
		}
		if !strings.Contains(strings.Join(drawn, " "), who) {
			p.post("/api/agent/v1/judge", m.key, judgementBody(t, id, "accept", "", m.sign(t, full, "accept", ""))).is(403)
		}
	}
	first, second := judges[drawn[0]], judges[drawn[1]]
	const reason = "the digests are those of the release"
	good := first.sign(t, full, "accept", reason)

	// Forged votes: another verdict, another reason, another judge's signature, none.
	for name, body := range map[string]string{
		"another verdict":   judgementBody(t, id, "reject", reason, good),
		"another reason":    judgementBody(t, id, "accept", "bribed", good),
		"no reason":         judgementBody(t, id, "accept", "", good),
		"another judge's":   judgementBody(t, id, "accept", reason, second.sign(t, full, "accept", reason)),
		"not a signature":   judgementBody(t, id, "accept", reason, "00"),
		"an empty one":      judgementBody(t, id, "accept", reason, ""),
		"a verdict of ours": judgementBody(t, id, "maybe", reason, good),
	} {
		if a := p.post("/api/agent/v1/judge", first.key, body); a.Code != 400 {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	p.post("/api/agent/v1/judge", proposer.key, judgementBody(t, id, "accept", "", good)).is(403)

	if a := p.post("/api/agent/v1/judge", first.key, judgementBody(t, id, "accept", reason, good)).is(200); a.has("status") != "pending" {
		t.Errorf("one vote decided: %s", a.Body)
	}
	// The same vote again changes nothing, another one is refused.
	p.post("/api/agent/v1/judge", first.key, judgementBody(t, id, "accept", reason, good)).is(200)
	p.post("/api/agent/v1/judge", first.key, judgementBody(t, id, "reject", "", first.sign(t, full, "reject", ""))).is(409)
	if a := p.get("/api/agent/v1/judge", "Authorization", "Bearer "+first.key).is(200); strings.Contains(a.Body.String(), id) {
		t.Error("a proposal that was judged is shown as open")
	}
	if a := p.post("/api/agent/v1/judge", second.key, judgementBody(t, id, "accept", "", second.sign(t, full, "accept", ""))).is(200); a.has("status") != "published" {
		t.Errorf("two of three accept: %s", a.Body)
	}
	third := judges[drawn[2]]
	p.post("/api/agent/v1/judge", third.key, judgementBody(t, id, "reject", "", third.sign(t, full, "reject", ""))).is(409)

	// Votes stay readable, with reasons and signatures.
	decided := p.get("/proposal/" + id).is(200)
	if decided.has("judges.for") != "2" || decided.has("judgements.0.person") != drawn[0] || decided.has("judgements.0.signature") == "" {
		t.Errorf("%s", decided.Body)
	}
	address, ok := strings.CutPrefix(decided.has("judgements.0.reason"), base)
	if !ok {
		t.Fatalf("%s", decided.Body)
	}
	text := p.get(address).is(200)
	if text.Body.String() != reason || text.Header().Get("Content-Disposition") != "attachment" {
		t.Errorf("%s", text.Body)
	}
	if a := p.post("/api/knowledge/attestation/verify", "", `{"proposalId":"`+id+`"}`).is(200); a.has("verifiedVia") != "ed25519+hmac" {
		t.Errorf("%s", a.Body)
	}
	if a := p.post("/api/knowledge/attestation/verify", "", `{"proposalId":"`+id+`","manifest":{"path":"/artifacts/models/other/x"}}`).is(200); a.has("verified") != "false" {
		t.Errorf("another manifest: %s", a.Body)
	}

	// What the operator takes down is gone, and says so.
	blob, err := digest.ParseContent(decided.has("judgements.0.reasonDigest"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.reg.TakeDown(ctx, blob, "privacy"); err != nil {
		t.Fatal(err)
	}
	if a := p.get(address); a.Code != 410 && a.Code != 404 {
		t.Errorf("taken down: %d %s", a.Code, a.Body)
	}
}

func TestRejectionWithdrawalAndLapseStayVisible(t *testing.T) {
	p := newPlace(t, func(_ string, s *registry.Settings) { s.Judges, s.Quorum = 1, 1 })
	ctx := context.Background()
	proposer, judge := p.register(), p.register()
	propose := func(name string) string {
		return p.post("/api/knowledge/model/propose", proposer.key, `{"path":"/artifacts/models/acme/`+name+`"}`).is(201).has("proposalId")
	}
	withdrawn := propose("withdrawn")
	if a := p.post("/api/agent/v1/withdraw", proposer.key, `{"proposalId":"`+withdrawn+`"}`).is(200); a.has("status") != "withdrawn" {
		t.Errorf("%s", a.Body)
	}
	if err := p.reg.AdmitJudge(ctx, "judith", []string{judge.id}); err != nil {
		t.Fatal(err)
	}
	rejected, lapsed := propose("rejected"), propose("lapsed")
	if err := p.reg.Tick(ctx); err != nil {
		t.Fatal(err)
	}
	full := p.get("/proposal/" + rejected).is(200)
	if a := p.post("/api/agent/v1/judge", judge.key, judgementBody(t, rejected, "reject", "", judge.sign(t, full, "reject", ""))).is(200); a.has("status") != "rejected" {
		t.Errorf("%s", a.Body)
	}
	p.later(30 * 24 * time.Hour)
	if err := p.reg.Tick(ctx); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{withdrawn: "withdrawn", rejected: "rejected", lapsed: "lapsed"} {
		if got := p.get("/proposal/" + id).is(200).has("status"); got != want {
			t.Errorf("%s is %s", want, got)
		}
		if a := p.get("/api/knowledge/model/list?status=" + want).is(200); !strings.Contains(a.Body.String(), id) {
			t.Errorf("%s is not listed", want)
		}
	}
	if a := p.get("/api/knowledge/model/list").is(200); strings.TrimSpace(a.Body.String()) != "[]" {
		t.Errorf("listed as published: %s", a.Body)
	}
	p.post("/api/agent/v1/withdraw", proposer.key, `{"proposalId":"`+rejected+`"}`).is(409)
}

func TestCalibrationOverTheAPI(t *testing.T) {
	p := newPlace(t, func(dir string, s *registry.Settings) {
		file := filepath.Join(t.TempDir(), "calibration.yaml")
		var text strings.Builder
		text.WriteString("version: 1\nquestions:\n")
		for i := range 12 {
			fmt.Fprintf(&text, "  - id: q%d\n    answer: %s\n    proposal: {\"case\": %d}\n", i, []string{"accept", "reject"}[i%2], i)
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Calibration, s.Judges, s.Quorum = file, 1, 1
	})
	// answers asks for the questions and answers each by its number.
	answers := func(m member, say func(n int) string) string {
		var sheet struct {
			Questions []struct {
				ID       string
				Proposal struct{ Case int }
			}
		}
		a := p.get("/api/agent/v1/calibrate", "Authorization", "Bearer "+m.key).is(200)
		if strings.Contains(a.Body.String(), `"answer":`) {
			t.Fatalf("an answer is served: %s", a.Body)
		}
		if err := json.Unmarshal(a.Body.Bytes(), &sheet); err != nil || len(sheet.Questions) < 8 {
			t.Fatalf("%v: %s", err, a.Body)
		}
		given := map[string]string{}
		for _, q := range sheet.Questions {
			given[q.ID] = say(q.Proposal.Case)
		}
		text, err := json.Marshal(map[string]any{"answers": given})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	right := func(n int) string { return []string{"accept", "reject"}[n%2] }
	honest, constant, copier := p.register(), p.register(), p.register()
	if err := p.reg.AdmitJudge(context.Background(), "hana", []string{honest.id}); err == nil {
		t.Error("a judge is admitted without calibration")
	}
	good := answers(honest, right)
	if a := p.post("/api/agent/v1/calibrate", honest.key, good).is(200); a.has("passed") != "true" || a.has("attempts") != "3" {
		t.Errorf("%s", a.Body)
	}
	for range 3 {
		if a := p.post("/api/agent/v1/calibrate", constant.key, answers(constant, func(int) string { return "accept" })).is(200); a.has("passed") != "false" {
			t.Errorf("constant answers pass: %s", a.Body)
		}
	}
	p.post("/api/agent/v1/calibrate", constant.key, good).is(403)
	if a := p.post("/api/agent/v1/calibrate", copier.key, good); a.Code == 200 && a.has("passed") == "true" {
		t.Errorf("copied answers pass: %s", a.Body)
	}
	for _, body := range []string{`{}`, `{"answers":[]}`, `{"answers":{"x":1}}`, `{"answers":{},"more":1}`} {
		if a := p.post("/api/agent/v1/calibrate", copier.key, body); a.Code != 400 && a.Code != 403 {
			t.Errorf("%s: %d %s", body, a.Code, a.Body)
		}
	}
	if err := p.reg.AdmitJudge(context.Background(), "hana", []string{honest.id}); err != nil {
		t.Error(err)
	}
}
