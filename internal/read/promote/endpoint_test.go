package promote

import (
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

// fakeServer is one of the operator's own, which calls itself a known model.
var fakeServer = evidence.Endpoint{Scheme: "http", Host: "127.0.0.1", Port: 8123, Path: "/v1", Local: true, Leaf: evidence.PlainEndpoint, Chain: evidence.PlainEndpoint}

func with(e evidence.Endpoint, change func(*evidence.Endpoint)) evidence.Endpoint {
	change(&e)
	return e
}

const listing = "model_endpoints: [{scheme: https, host: api.example.com, port: 443}]\n"

// listed is a registration with another list of endpoints, or with none.
func listed(list string) string { return edited(registration, listing, list) }

// A recording counts as a model's only from servers that two people signed for.
func TestOnlyRecordingsOfListedServersCount(t *testing.T) {
	otherID := digest.IDOf([]byte("other")).String()
	const counted, bronze, none = bench.Silver, bench.Bronze, None
	for _, tt := range []struct {
		name, list string
		from       evidence.Endpoint
		want       bench.Tier
	}{
		{"the listed server", listing, modelServer, counted},
		{"a server of one's own", listing, fakeServer, none},
		{"a server of one's own, and no list", "", fakeServer, none},
		{"a model's server, and no list", "", modelServer, bronze},
		{"a server of one's own that is listed", "model_endpoints: [{scheme: http, host: \"127.0.0.1\", port: 8123, local: true}]\n", fakeServer, counted},
		{"another port of it", "model_endpoints: [{scheme: http, host: \"127.0.0.1\", port: 8124, local: true}]\n", fakeServer, none},
		{"the listed name that led to this machine", listing, with(modelServer, func(e *evidence.Endpoint) { e.Local = true }), none},
		{"the listed name, vouched for by a file", listing, with(modelServer, func(e *evidence.Endpoint) { e.Roots = otherID }), none},
		{"the listed name, vouched for by the listed file", "model_endpoints: [{scheme: https, host: api.example.com, port: 443, roots: \"" + otherID + "\"}]\n",
			with(modelServer, func(e *evidence.Endpoint) { e.Roots = otherID }), counted},
		{"the listed name through a proxy", listing, with(modelServer, func(e *evidence.Endpoint) { e.Proxy = "127.0.0.1:3128" }), none},
		{"the listed name through the listed proxy", "model_endpoints: [{scheme: https, host: api.example.com, port: 443, proxy: \"proxy:3128\"}]\n",
			with(modelServer, func(e *evidence.Endpoint) { e.Proxy = "proxy:3128" }), counted},
		{"another port", listing, with(modelServer, func(e *evidence.Endpoint) { e.Port = 8443 }), none},
		{"another host", listing, with(modelServer, func(e *evidence.Endpoint) { e.Host = "api.example.com.evil.example" }), none},
		{"another scheme", listing, evidence.Endpoint{Scheme: "http", Host: "api.example.com", Port: 443, Leaf: "plain", Chain: "plain"}, none},
		{"the listed path", "model_endpoints: [{scheme: https, host: api.example.com, port: 443, path: /v1}]\n", modelServer, counted},
		{"another path than the listed one", "model_endpoints: [{scheme: https, host: api.example.com, port: 443, path: /v2}]\n", modelServer, none},
		{"the pinned certificate", "model_endpoints: [{scheme: https, host: api.example.com, port: 443, leaf: \"" + modelServer.Leaf + "\", chain: \"" + modelServer.Chain + "\"}]\n", modelServer, counted},
		{"another certificate than the pinned one", "model_endpoints: [{scheme: https, host: api.example.com, port: 443, leaf: \"" + otherID + "\"}]\n", modelServer, none},
		{"another chain than the pinned one", "model_endpoints: [{scheme: https, host: api.example.com, port: 443, chain: \"" + otherID + "\"}]\n", modelServer, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := standard()
			c.registration = listed(tt.list)
			k := newBook(t, c.verified(t))
			k.noTapes = true
			for i, x := range k.bench.Cases() {
				from := []evidence.Endpoint{modelServer}
				if i == 0 || tt.want != none {
					from = []evidence.Endpoint{tt.from}
				}
				// One reply of another server in one recording is enough.
				k.add(evidence.CassetteRecordedKind, tapeOf(class, x.Case().CaseID, *x.Case().CassetteDigest, from...))
			}
			honest(k)
			rec := k.recommend()
			failed := slices.ContainsFunc(rec.Notes, func(n string) bool {
				return strings.Contains(n, "as failed, recorded from "+tt.from.Text()+", which model_endpoints of the registration does not list") && strings.Contains(n, "case-01")
			})
			if failed != (tt.want == none) {
				t.Errorf("notes %q", rec.Notes)
			}
			above := slices.ContainsFunc(rec.Unmet, func(n string) bool {
				return strings.Contains(n, "no model_endpoints") && strings.Contains(n, tt.from.Text()) && strings.Contains(n, "two people sign")
			})
			if tt.want != none && (rec.RecommendedTier != string(tt.want) || above != (tt.want == bronze)) {
				t.Errorf("recommended %s, want %s: %q", rec.RecommendedTier, tt.want, rec.Rationale)
			}
			if tt.want == none && rec.PassedCount >= 12 {
				t.Errorf("%d cases passed", rec.PassedCount)
			}
		})
	}
}

// What a recording does not say does not count.
func TestRepliesWithoutAnEndpointDoNotCount(t *testing.T) {
	for name, edit := range map[string]func(*evidence.CassetteRecorded){
		"from before endpoints were recorded": func(r *evidence.CassetteRecorded) { r.ModelCalls, r.Endpoints = nil, nil },
		"one of two replies":                  func(r *evidence.CassetteRecorded) { n := 2; r.Calls, r.ModelCalls = 2, &n },
		"more replies than calls":             func(r *evidence.CassetteRecorded) { r.Endpoints[0].Replies = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newBook(t, standard().verified(t))
			k.noTapes = true
			for _, x := range k.bench.Cases() {
				r := tapeOf(class, x.Case().CaseID, *x.Case().CassetteDigest, modelServer)
				edit(r)
				k.add(evidence.CassetteRecordedKind, r)
			}
			honest(k)
			if rec := k.recommend(); rec.RecommendedTier != string(None) || !strings.Contains(strings.Join(rec.Notes, "\n"), "name no endpoint") {
				t.Errorf("%s: %q", rec.RecommendedTier, rec.Rationale)
			}
		})
	}
}

// Gold needs another runner who called the models live.
func TestGoldNeedsALiveReproduction(t *testing.T) {
	for _, tt := range []struct {
		name  string
		write func(k *book)
		want  bench.Tier
		says  string
	}{
		{"no other runner ran it live", func(*book) {}, bench.Silver, "no other runner has reproduced it live, which gold needs"},
		{"another runner did", func(k *book) { k.relive("oscar", nil) }, bench.Gold, ""},
		{"its own runner did", func(k *book) { k.relive("olga", nil) }, bench.Silver, "by a runner of the attempts under review"},
		{"another server answered", func(k *book) { k.relive("oscar", nil, fakeServer) }, bench.Silver, "lower_bound_95=0.000"},
		{"another server answered too", func(k *book) { k.relive("oscar", nil, modelServer, fakeServer) }, bench.Silver, "lower_bound_95=0.000"},
		{"nothing says who answered", func(k *book) { k.relive("oscar", func(r *run) { r.from = nil }) }, bench.Silver, "lower_bound_95=0.000"},
		{"it failed", func(k *book) {
			k.relive("oscar", func(r *run) { r.score = func(_ int, s *evidence.CaseScored) { fails(s) } })
		}, bench.Silver, "lower_bound_95=0.000 < threshold[gold]"},
		{"one failed and one did not", func(k *book) {
			k.relive("oscar", func(r *run) { r.score = func(_ int, s *evidence.CaseScored) { fails(s) } })
			k.relive("oscar", nil)
		}, bench.Silver, "lower_bound_95=0.000 < threshold[gold]"},
		{"of another version", func(k *book) { k.relive("oscar", func(r *run) { r.version = "2" }) }, bench.Silver, "of another target or version"},
		{"never finished", func(k *book) { k.relive("oscar", func(r *run) { r.open = true }) }, bench.Silver, "it never finished"},
		{"a part of it", func(k *book) {
			k.relive("oscar", func(r *run) {
				live := r.register
				r.register = func(a *evidence.AttemptRegistered) { live(a); a.Plan.Filtered = true }
			})
		}, bench.Silver, "run with a case or tag filter"},
		{"from recordings", func(k *book) {
			k.relive("oscar", func(r *run) {
				live := r.register
				r.register = func(a *evidence.AttemptRegistered) {
					live(a)
					a.Plan.Replies = &evidence.PlannedReplies{From: evidence.FromCache, OnMiss: evidence.OnMissLive}
				}
			})
		}, bench.Silver, "told to use replies that were recorded before"},
		{"with a violation", func(k *book) {
			k.relive("oscar", func(r *run) { r.score = func(_ int, s *evidence.CaseScored) { s.Policy.Violations = 1 } })
		}, bench.Silver, "lower_bound_95=0.000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := standard()
			c.registration = lenient(bench.Bronze)
			k := newBook(t, c.verified(t))
			honest(k)
			tt.write(k)
			rec := k.recommend()
			if rec.RecommendedTier != string(tt.want) || tt.says != "" && !strings.Contains(strings.Join(rec.Unmet, "\n"), tt.says) {
				t.Errorf("recommended %s, want %s: %q", rec.RecommendedTier, tt.want, rec.Rationale)
			}
		})
	}
	// Where no model was replayed, every run asked whom it asks.
	c := standard()
	c.registration, c.provenance = lenient(bench.Bronze), ""
	k := newBook(t, c.verified(t))
	honest(k)
	if rec := k.recommend(); rec.RecommendedTier != string(bench.Gold) {
		t.Errorf("without recordings: %s %q", rec.RecommendedTier, rec.Unmet)
	}
}
