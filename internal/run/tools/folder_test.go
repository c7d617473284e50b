package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

const folderTools = `
  - {name: fs_read, source: folder}
  - {name: fs_write, source: folder, latency_ms: 3}
  - {name: fs_list, source: folder}
  - {name: fs_delete, source: folder}
  - {name: edit, source: folder, operation: fs_replace}
`

func TestFolderTools(t *testing.T) {
	dir := t.TempDir()
	s := start(t, folderTools, dir)
	if err := os.WriteFile(filepath.Join(dir, "data.bin"), []byte("\xff\xfe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct{ tool, args, want, wrote string }{
		{"fs_write", `{"path":"src/main.go","text":"one\ntwo\nthree\n"}`, `{"bytes":14,"path":"src/main.go"}`, "src/main.go"},
		{"fs_read", `{"path":"src/main.go"}`, `{"lines":3,"path":"src/main.go","text":"one\ntwo\nthree\n"}`, ""},
		{"fs_read", `{"path":"src/main.go","line":2,"lines":1}`, `{"line":2,"lines":3,"path":"src/main.go","text":"two\n"}`, ""},
		{"fs_read", `{"path":"src/main.go","line":9}`, `{"line":9,"lines":3,"path":"src/main.go","text":""}`, ""},
		{"fs_read", `{"path":"src/main.go","lines":99}`, `{"lines":3,"path":"src/main.go","text":"one\ntwo\nthree\n"}`, ""},
		{"edit", `{"path":"src/main.go","old":"two","new":"2"}`, `{"bytes":12,"path":"src/main.go"}`, "src/main.go"},
		{"edit", `{"path":"src/main.go","old":"two","new":"2"}`, `error: the old text is not in "src/main.go"`, ""},
		{"edit", `{"path":"src/main.go","old":"\n","new":""}`, `error: the old text occurs more than once in "src/main.go"`, ""},
		{"edit", `{"path":"src/main.go","old":"","new":""}`, `error: bad arguments: old`, ""},
		{"fs_list", `{}`, `{"entries":[{"bytes":2,"kind":"file","name":"data.bin"},{"kind":"folder","name":"src"}],"path":"."}`, ""},
		{"fs_list", `{"path":"src"}`, `{"entries":[{"bytes":12,"kind":"file","name":"main.go"}],"path":"src"}`, ""},
		{"fs_list", `{"recursive":true}`, `{"entries":[{"bytes":2,"kind":"file","name":"data.bin"},{"kind":"folder","name":"src"},{"bytes":12,"kind":"file","name":"src/main.go"}],"path":"."}`, ""},
		{"fs_read", `{"path":"data.bin"}`, `error: "data.bin" is not text`, ""},
		{"fs_read", `{"path":"nothing"}`, `error: there is no "nothing"`, ""},
		{"fs_read", `{"path":"../x"}`, `error: "../x" is not a relative path`, ""},
		{"fs_read", `{}`, `error: bad arguments: path: found nothing`, ""},
		{"fs_read", `{"path":7}`, `error: bad arguments: path`, ""},
		{"fs_read", `{"path":"src/main.go","line":0}`, `error: bad arguments: line`, ""},
		{"fs_write", `{"path":"/etc/passwd","text":""}`, `error: "/etc/passwd" is not a relative path`, ""},
		{"fs_write", `{"path":"x","text":"","mode":"0777"}`, `error: bad arguments: mode`, ""},
		{"fs_write", `{"path":"src","text":""}`, `error: "src" is a folder`, ""},
		{"fs_delete", `{"path":"src"}`, `error: the folder "src" is not empty`, ""},
		{"fs_delete", `{"path":"src/main.go"}`, `{"deleted":"src/main.go"}`, "src/main.go"},
		{"fs_delete", `{"path":"src/main.go"}`, `error: there is no "src/main.go"`, ""},
		{"fs_delete", `{"path":"."}`, `error: "." is not a relative path`, ""},
		{"fs_list", `{"path":"gone"}`, `error: there is no "gone"`, ""},
	} {
		r := call(t, s, step.tool, step.args)
		got := string(r.JSON)
		if r.Error != "" {
			got = "error: " + r.Error
		}
		if got != step.want && !(r.Error != "" && strings.HasPrefix(got, step.want)) {
			t.Errorf("step %d: %s %s gave\n%s, want\n%s", i, step.tool, step.args, got, step.want)
		}
		if wrote := strings.Join(r.Wrote, " "); wrote != step.wrote {
			t.Errorf("step %d: wrote %q, want %q", i, wrote, step.wrote)
		}
		if strings.Contains(got, dir) {
			t.Errorf("step %d tells the host's path: %s", i, got)
		}
	}
}

func TestFolderToolsAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := start(t, folderTools, dir)
	if r := call(t, s, "fs_write", `{"path":"x","text":"`+strings.Repeat("x", maxArgumentBytes-30)+`"}`); r.Error != "" {
		t.Error(r.Error)
	}
	read := call(t, s, "fs_read", `{"path":"x"}`)
	if len(read.JSON) > MaxResultBytes || !strings.Contains(string(read.JSON), `"cut":true`) || read.Findings != nil {
		t.Errorf("%d bytes, findings %v", len(read.JSON), read.Findings)
	}
	if err := os.WriteFile(filepath.Join(dir, "huge"), make([]byte, maxReadFile+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := call(t, s, "fs_read", `{"path":"huge"}`); !strings.Contains(r.Error, "larger than") {
		t.Errorf("got %+v", r)
	}
	s.written = maxWriteTotal - 1
	if r := call(t, s, "fs_write", `{"path":"y","text":"12"}`); !strings.Contains(r.Error, "may write no more") {
		t.Errorf("got %+v", r)
	}
	for i := range maxListed + 1 {
		if err := os.Mkdir(filepath.Join(dir, "d"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+strings.Repeat("y", i/26)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if r := call(t, s, "fs_list", `{}`); !strings.Contains(string(r.JSON), `"cut":true`) || len(r.JSON) > MaxResultBytes {
		t.Errorf("got %d bytes %s", len(r.JSON), r.Error)
	}
}

// The working folder is a new folder after a rollback.
func TestFolderToolsFollowTheFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	s := start(t, folderTools, dir)
	for _, text := range []string{"old", "new"} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := call(t, s, "fs_read", `{"path":"a"}`); !strings.Contains(string(r.JSON), text) {
			t.Errorf("got %+v", r)
		}
	}
}

func TestAFolderThatIsGoneIsNoMistakeOfTheAgent(t *testing.T) {
	s := start(t, folderTools, filepath.Join(t.TempDir(), "gone"))
	if _, err := s.Call(t.Context(), "fs_list", nil); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("got %v", err)
	}
}

func TestFilesFromOutsideAreCleaned(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x\u200by"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, "  - {name: fs_read, source: folder, trust: outside}\n", dir)
	if r := call(t, s, "fs_read", `{"path":"a"}`); !strings.Contains(string(r.JSON), `"xy"`) || r.Trust != "untrusted" || len(r.Findings) != 1 {
		t.Errorf("got %+v", r)
	}
}
