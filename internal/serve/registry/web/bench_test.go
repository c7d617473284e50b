package web

import (
	"fmt"
	"testing"
)

// The handlers alone, without a network: what the server adds to the registry.

func BenchmarkDryRun(b *testing.B) {
	p := newPlace(b, nil)
	body := envelope(exampleBody)
	for b.Loop() {
		if rec := ask(p.web, "POST", "/api/credentials/dry-run", body); rec.Code != 200 {
			b.Fatal(rec.Body)
		}
	}
}

func BenchmarkList(b *testing.B) {
	p := newPlace(b, nil)
	m := p.register()
	p.artifacts(m)
	for i := range 60 {
		p.post("/api/knowledge/eval/propose", m.key, evalManifest(fmt.Sprintf("0.1%02d", i))).is(201)
	}
	for _, target := range []string{"/api/knowledge/eval/list", "/api/knowledge/eval/for-artifact" + modelPath} {
		b.Run(target[len("/api/knowledge/eval/"):], func(b *testing.B) {
			for b.Loop() {
				if rec := ask(p.web, "GET", target, ""); rec.Code != 200 {
					b.Fatal(rec.Body)
				}
			}
		})
	}
}

func BenchmarkPropose(b *testing.B) {
	p := newPlace(b, nil)
	m := p.register()
	p.artifacts(m)
	i := 0
	for b.Loop() {
		i++
		if rec := p.post("/api/knowledge/eval/propose", m.key, evalManifest(fmt.Sprintf("0.1%06d", i))); rec.Code != 201 {
			b.Fatal(rec.Body)
		}
	}
}
