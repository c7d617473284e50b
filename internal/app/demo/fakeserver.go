package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/app/lab"
	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/promote"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
)

// fakeFiles is what the forger of recordings writes: a class, an agent with a known
// model, and whom it is to ask, at the ADDRESS of a server on this machine.
//
//go:embed fake
var fakeFiles embed.FS

const (
	fakeClass = "sums"
	fakeModel = "gpt-4o"
)

// recordFromFakeServer makes a workspace of people who are no examples, records a class
// from a server of the forger's own, has two people sign it and runs it. Everything in
// it verifies.
func recordFromFakeServer(d *demo, copied string) error {
	url, stop, err := fakeServer()
	if err != nil {
		return err
	}
	defer stop()
	dir := filepath.Join(copied, "fake")
	world, signers, err := d.team(filepath.Join(copied, "team"))
	if err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := ceremony.Init(ctx, ceremony.InitOptions{Dir: dir, Origin: demoOrigin, Signers: signers}, world); err != nil {
		return err
	}
	files, err := filesToFake(url)
	if err != nil {
		return err
	}
	for n := 1; n <= 5; n++ {
		id := fmt.Sprintf("sum-%d", n)
		t := bench.NewCase(id, "Add two numbers", &bench.Person{Identity: "alice"}, &bench.Person{Identity: "bob"}, d.world.Now())
		t.Expected = ""
		at := "bench/sums/" + bench.CasesDir + "/" + id + "/"
		files[at+bench.CaseFile] = t.YAML()
		files[at+"input/prompt.txt"] = fmt.Appendf(nil, "What is %d plus %d?\n", n, n)
		files[at+bench.GradingFile] = []byte("version: 1\ngrade: {kind: exact, expected: \"yes\"}\n")
	}
	for name, data := range files { // over what init wrote
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := store.MakeDir(store.OS{}, filepath.Dir(path), 0o755)
		if err == nil {
			err = store.WriteFile(store.OS{}, path, data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if err := inCorpus(dir, world, func(c *dossier.Corpus) error { return recordClass(ctx, c) }); err != nil {
		return err
	}
	err = inCorpus(dir, world, func(c *dossier.Corpus) error {
		if _, err := ceremony.Digest(c, ceremony.DigestOptions{Class: fakeClass}); err != nil {
			return err
		}
		for _, name := range []string{"alice", "bob"} {
			if _, err := ceremony.Sign(c, ceremony.SignOptions{Class: fakeClass, Pen: ceremony.Pen{Key: filepath.Join(copied, "team", name)}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.run(ctx, dir, fakeClass, world)
}

// filesToFake are the forger's files, with the address of the server.
func filesToFake(url string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := fs.WalkDir(fakeFiles, "fake", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fakeFiles.ReadFile(path)
		files[strings.TrimPrefix(path, "fake/")] = bytes.ReplaceAll(data, []byte("ADDRESS"), []byte(url))
		return err
	})
	return files, err
}

// recordClass is "tally record".
func recordClass(ctx context.Context, c *dossier.Corpus) error {
	r, err := lab.NewRecording(c, harness.Spec{Class: fakeClass, Jobs: 1}, lab.RecordOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	done, err := r.Record(ctx)
	for _, x := range done {
		if !x.Kept {
			return refusal.Newf(refusal.Failed, "case %s was not recorded: %s", x.Case, x.Reason)
		}
	}
	return err
}

// inCorpus does something in a workspace as it is now.
func inCorpus(dir string, world dossier.World, do func(*dossier.Corpus) error) error {
	p, err := dossier.Open(dir, world)
	if err != nil {
		return err
	}
	c, err := p.OpenCorpus()
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// team makes two people who sign and one who runs, and the world of the latter.
func (d *demo) team(dir string) (world dossier.World, signers string, err error) {
	var entries []seal.Entry
	for name, roles := range map[string][]seal.Role{"alice": {seal.Curator}, "bob": {seal.Curator, seal.Security}, "olga": {seal.Operator}} {
		key, err := seal.NewKey(rand.Reader)
		if err != nil {
			return world, "", err
		}
		text, err := key.MarshalPEM(name)
		if err == nil {
			err = store.MakeDir(store.OS{}, dir, 0o700)
		}
		if err == nil {
			err = store.WriteFile(store.OS{}, filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return world, "", err
		}
		entries = append(entries, seal.Entry{Principals: name, Key: key.Public(), Roles: roles})
	}
	list, err := seal.Compose(1, digest.ID{}, entries)
	if err != nil {
		return world, "", err
	}
	signers = filepath.Join(dir, "allowed_signers")
	return d.worldOf(dir), signers, store.WriteFile(store.OS{}, signers, list, 0o644)
}

// worldOf is the world of the one who runs, with a memory of its own.
func (d *demo) worldOf(team string) dossier.World {
	world := quietWorld(d.world, filepath.Join(team, "state"))
	quiet := world.Getenv
	world.Getenv = func(name string) string {
		if name == "TALLY_OPERATOR_KEY" {
			return filepath.Join(team, "olga")
		}
		return quiet(name)
	}
	return world
}

// fakeServer answers every question as its owner likes, under a known model's name.
func fakeServer() (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	reply, err := json.Marshal(map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "model": fakeModel,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": "yes"}}},
		"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(bytes.Clone(reply))
	})}
	go server.Serve(listener)
	return "http://" + listener.Addr().String() + "/v1", func() { server.Close() }, nil
}

// countFakeServer asks for advice on the class: the recordings must not count, and the
// advice must say from where they are.
func countFakeServer(d *demo, copied string) error {
	p, err := dossier.Open(filepath.Join(copied, "fake"), d.worldOf(filepath.Join(copied, "team")))
	if err != nil {
		return err
	}
	advice, err := answer.Recommend(context.Background(), p, fakeClass, "", 0)
	if err != nil || advice.RecommendedTier != string(promote.None) {
		return err
	}
	for _, line := range advice.Rationale {
		if strings.Contains(line, "recorded from http://127.0.0.1:") {
			return refusal.Newf(refusal.TierNotRecommended, "no tier: %s", line)
		}
	}
	return refusal.Newf(refusal.Failed, "no tier, and the advice does not name the server: %s", strings.Join(advice.Rationale, "; "))
}
