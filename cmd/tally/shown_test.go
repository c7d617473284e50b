package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
)

// waits is an agent that says which case it is in, waits until it may go on, and
// answers with what it is shown.
const waits = `cat >case; while [ ! -e go ]; do sleep 0.05; done; cat /data/answer /data/lib/more`

// TestWhatChangesWhileACaseRunsIsFound: every row puts back what it took, names,
// contents and times. The case in which it happened is errored and names the file;
// the cases before and after it count.
func TestWhatChangesWhileACaseRunsIsFound(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	data, aside := filepath.Join(t.TempDir(), "data"), t.TempDir()
	at := func(name string) string { return filepath.Join(data, name) }
	writeAll(t, map[string]string{at("answer"): "right\n", at("lib/more"): "more\n"})
	must := func(errs ...error) {
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}
	attacks := map[string]func(){
		"untouched": func() {},
		"edited": func() {
			info, err := os.Stat(at("answer"))
			must(err, os.WriteFile(at("answer"), []byte("wrong\n"), 0o644), os.WriteFile(at("answer"), []byte("right\n"), 0o644), os.Chtimes(at("answer"), info.ModTime(), info.ModTime()))
		},
		"swapped-folder": func() {
			must(os.Rename(data, data+".kept"))
			writeAll(t, map[string]string{at("answer"): "wrong\n"})
			must(os.RemoveAll(data), os.Rename(data+".kept", data))
		},
		"renamed": func() {
			must(os.Rename(at("lib/more"), aside+"/kept"), os.WriteFile(at("lib/more"), []byte("evil\n"), 0o644), os.Rename(aside+"/kept", at("lib/more")))
		},
		"hard-link": func() {
			must(os.Link(at("answer"), aside+"/hard"), os.WriteFile(aside+"/hard", []byte("wrong\n"), 0o644), os.WriteFile(aside+"/hard", []byte("right\n"), 0o644), os.Remove(aside+"/hard"))
		},
		"came-and-went": func() {
			must(os.WriteFile(at("lib/new"), nil, 0o644), os.Remove(at("lib/new")))
		},
		"untouched-after": func() {},
	}
	var lines []string
	for _, id := range []string{"untouched", "edited", "swapped-folder", "renamed", "hard-link", "came-and-went", "untouched-after"} {
		lines = append(lines, fmt.Sprintf(`{"id":%q,"input":%q,"grade":{"kind":"exact","expected":"right\nmore"}}`, id, id))
	}
	w.write("bench/agents/registration.yaml", agentRegistration)
	w.write("bench/agents/dataset.jsonl", strings.Join(lines, "\n")+"\n")
	w.write("targets/shown.yaml", shTarget(waits)+"  mounts: [{host: "+data+", inside: /data}]\n")

	w.meddle("tally-work-*", attacks)
	records, _ := w.run("agents", "--target", "shown", "--jobs", "1")
	w.requireMeddledErrored(records, attacks, data)
	plan := w.plan(t)
	if len(plan.Mounts) != 1 || plan.Mounts[0].Digest == nil || plan.Mounts[0].Held != evidence.HeldCompared || plan.AgentRoot == nil || plan.AgentRoot.Kind != evidence.HostRoot || plan.AgentRoot.Digest == nil {
		t.Errorf("the plan says %+v %+v", plan.Mounts, plan.AgentRoot)
	}
}

// requireMeddledErrored wants every case during which something changed to be errored,
// with the reason and without a path of this machine, and the untouched ones to pass.
func (w *agentWorkspace) requireMeddledErrored(records map[string]*evidence.CaseScored, attacks map[string]func(), data string) {
	w.t.Helper()
	for id := range attacks {
		c := records[id]
		switch {
		case c == nil:
			w.t.Errorf("%s: there is no record", id)
		case strings.HasPrefix(id, "untouched") && c.Outcome != evidence.Passed:
			w.t.Errorf("%s: %s %s", id, c.Outcome, c.Reason)
		case !strings.HasPrefix(id, "untouched") && (c.Outcome != evidence.Errored || !strings.Contains(c.Reason, "/data changed after it was digested")):
			w.t.Errorf("%s: %s %s", id, c.Outcome, c.Reason)
		case strings.Contains(c.Reason, data):
			w.t.Errorf("%s names a path of this machine: %s", id, c.Reason)
		}
	}
}

// meddle does something to the machine during each case whose name is in attacks, when a
// program has written that name into a file "case" of a folder, and lets it go on.
func (w *agentWorkspace) meddle(folders string, attacks map[string]func()) {
	temp := shortTemp(w.t)
	w.env = []string{"TMPDIR=" + temp}
	stop := make(chan struct{})
	w.t.Cleanup(func() { close(stop) })
	go func() {
		done := map[string]bool{}
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			found, _ := filepath.Glob(filepath.Join(temp, folders, "work"))
			for _, folder := range found {
				id, err := os.ReadFile(filepath.Join(folder, "case"))
				if attack := attacks[string(id)]; err == nil && attack != nil && !done[folder] {
					done[folder] = true
					attack()
					if err := os.WriteFile(filepath.Join(folder, "go"), nil, 0o644); err != nil {
						w.t.Error(err)
					}
				}
			}
		}
	}()
}

// TestWhatChangesWhileATestRunsIsFound: the same of what the tests of cases are shown,
// after the agent has ended.
func TestWhatChangesWhileATestRunsIsFound(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	data := filepath.Join(t.TempDir(), "data")
	writeAll(t, map[string]string{filepath.Join(data, "answer"): "right\n", filepath.Join(data, "lib/more"): "more\n"})
	edit := func(name string, texts ...string) func() {
		return func() {
			for _, text := range texts {
				writeAll(t, map[string]string{filepath.Join(data, name): text})
			}
		}
	}
	attacks := map[string]func(){
		"untouched": func() {},
		"edited":    edit("answer", "wrong\n", "right\n"),
		"deep":      edit("lib/more", "wrong\n", "more\n"),
		"swapped": func() {
			for _, err := range []error{os.Rename(data, data+".kept"), os.Mkdir(data, 0o755), os.Remove(data), os.Rename(data+".kept", data)} {
				if err != nil {
					t.Error(err)
				}
			}
		},
		"untouched-after": func() {},
	}
	var lines []string
	for _, id := range []string{"untouched", "edited", "deep", "swapped", "untouched-after"} {
		test := fmt.Sprintf("printf %s >case; while [ ! -e go ]; do sleep 0.05; done; grep -q right /data/answer", id)
		lines = append(lines, fmt.Sprintf(`{"id":%q,"input":"x","test":{"command":["sh","-c",%q],"timeout_seconds":120}}`, id, test))
	}
	settings, err := os.ReadFile(filepath.Join(w.dir, "tally.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("tally.yaml", string(settings)+"\ntest_mounts:\n  - {host: "+data+", inside: /data}\n")
	w.write("bench/agents/registration.yaml", agentRegistration)
	w.write("bench/agents/dataset.jsonl", strings.Join(lines, "\n")+"\n")
	w.write("targets/does-nothing.yaml", shTarget("true"))
	w.meddle("tally-test-*", attacks)
	records, _ := w.run("agents", "--target", "does-nothing", "--jobs", "1")
	w.requireMeddledErrored(records, attacks, data)
}

// TestAnAgentRunsFromAnImage: it finds the image and nothing of this machine's
// programs, the record says which image, and an image that is not what it says is
// refused.
func TestAnAgentRunsFromAnImage(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if !needs(t, "python3") {
		t.Skip("there is no python3 to make an image of")
	}
	cache := t.TempDir()
	w.env = []string{"XDG_CACHE_HOME=" + cache}
	host := w.importImage(t, "--from-host")
	images := filepath.Join(cache, "tallystick", "images")
	python := strings.Fields(readJSON(t, filepath.Join(images, strings.TrimPrefix(host, "blake3:"), "image.json"), "command"))[0]
	layout, manifest := ociLayout(t, filepath.Join(images, strings.TrimPrefix(host, "blake3:"), "root"))
	oci := w.importImage(t, layout, "--digest", manifest, "--python", python)

	home := filepath.Dir(filepath.Dir(python))
	script := "import os, sys\nprint(os.path.exists('/usr/bin/env') or os.path.exists('/bin/sh'), open('/etc/marked').read().strip(), open('/etc/hostname').read().strip(), os.path.exists('/etc/resolv.conf'), os.path.isdir('/srv'))\n"
	target := func(image string) string {
		return fmt.Sprintf("version: 1\nkind: command\ncommand: {command: [%s, -S, /agent/agent.py], source: agent.py, image: %q, env: {PYTHONHOME: %s}}\n", python, image, home)
	}
	w.write("agent.py", script)
	w.write("bench/agents/registration.yaml", strings.Replace(agentRegistration, "classes: [gvisor]", "classes: [gvisor, namespace]", 1))
	w.write("bench/agents/dataset.jsonl", `{"id":"one","input":"hi","grade":{"kind":"exact","expected":"False image sandbox False True"}}`+"\n")
	w.write("targets/oci.yaml", target(oci))
	for _, class := range []string{"gvisor", "namespace"} {
		records, _ := w.run("agents", "--target", "oci", "--sandbox", class)
		if c := records["one"]; c == nil || c.Outcome != evidence.Passed || c.AgentIsolation != class {
			t.Fatalf("%s: %+v", class, c)
		}
	}
	if root := w.plan(t).AgentRoot; !root.IsImage() || root.Digest.String() != oci {
		t.Errorf("the plan says %+v, the image is %s", root, oci)
	}
	// A copy of a machine's programs is still that machine's.
	w.write("targets/host.yaml", target(host))
	w.run("agents", "--target", "host")
	if root := w.plan(t).AgentRoot; root.IsImage() || root.Digest.String() != host {
		t.Errorf("the plan says %+v of a snapshot", root)
	}

	refuses := func(target, want string) {
		t.Helper()
		out, err := w.command("--workspace", w.dir, "run", "agents", "--target", target).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, expected %q\n%s", target, err, want, out)
		}
	}
	w.write("targets/gone.yaml", target("blake3:"+strings.Repeat("0", 64)))
	refuses("gone", "tally sandbox image import")
	w.write("targets/odd.yaml", target("debian:latest"))
	refuses("odd", "expected blake3: and 64 hex digits")
	dir := filepath.Join(images, strings.TrimPrefix(oci, "blake3:"))
	if err := os.WriteFile(filepath.Join(dir, "root", "etc", "marked"), []byte("edited\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refuses("oci", "its files now have the digest")
}

// plan is that of the newest attempt.
func (w *agentWorkspace) plan(t *testing.T) evidence.Plan {
	t.Helper()
	var newest evidence.Plan
	for i := 0; ; i++ {
		out, err := w.command("--workspace", w.dir, "ledger", "show", "--json", fmt.Sprint(i)).Output()
		if err != nil {
			return newest
		}
		if _, after, is := bytes.Cut(out, []byte(`"plan":`)); is && bytes.Contains(out, []byte(`"attempt.registered"`)) {
			newest = evidence.Plan{}
			if err := json.NewDecoder(bytes.NewReader(after)).Decode(&newest); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// importImage takes an image and returns its digest.
func (w *agentWorkspace) importImage(t *testing.T, args ...string) string {
	t.Helper()
	cmd := w.command(append([]string{"sandbox", "image", "import", "--json"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var answer struct {
		Digest string `json:"digest"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Digest
}

// ociLayout writes a layout of one layer with a tree, a file in /etc and an empty
// folder, and returns the digest of its manifest.
func ociLayout(t *testing.T, root string) (dir, manifest string) {
	t.Helper()
	var layer bytes.Buffer
	tw := tar.NewWriter(&layer)
	if err := tw.AddFS(os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"etc/marked": "image\n", "etc/hostname": "elsewhere\n", "etc/resolv.conf": "nameserver 192.0.2.1\n"} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.WriteHeader(&tar.Header{Name: "srv/", Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
		t.Fatal(err)
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	put := func(content []byte) map[string]any {
		sum := sha256.Sum256(content)
		name := hex.EncodeToString(sum[:])
		writeAll(t, map[string]string{filepath.Join(dir, "blobs/sha256", name): string(content)})
		return map[string]any{"digest": "sha256:" + name, "size": len(content), "mediaType": "application/vnd.oci.image.layer.v1.tar"}
	}
	doc, err := json.Marshal(map[string]any{"schemaVersion": 2, "layers": []any{put(layer.Bytes())}})
	if err != nil {
		t.Fatal(err)
	}
	return dir, put(doc)["digest"].(string)
}

// readJSON reads a list of texts of a JSON file.
func readJSON(t *testing.T, name, member string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	var list []string
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all[member], &list); err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

func writeAll(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// shortTemp is a temporary folder whose path leaves room for the names of sockets.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
