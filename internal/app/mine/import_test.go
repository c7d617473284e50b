package mine

import (
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
)

func TestNamesOfForeignTasks(t *testing.T) {
	for task, want := range map[string]string{"astropy__astropy-12907": "astropy-astropy-12907", "Hello_World.v2": "hello-world-v2", "--x--": "x"} {
		if got, err := caseName(task); got != want || err != nil {
			t.Errorf("%s: %s %v, want %s", task, got, err, want)
		}
	}
	if _, err := caseName("../.."); err == nil {
		t.Error("a name of dots is one")
	}
}

func TestFilesOfDockerfiles(t *testing.T) {
	context := []digest.File{{Path: "Dockerfile"}, {Path: "a.txt", Data: []byte("a")}, {Path: "src/b.py"}, {Path: "src/c/d.py"}}
	for _, c := range []struct{ text, files, refuse string }{
		{"FROM x\nWORKDIR /app\nCOPY a.txt ./\n", "a.txt", ""},
		{"FROM x\nWORKDIR /app\nCOPY a.txt other.txt\n", "other.txt", ""},
		{"FROM x\nWORKDIR /app\nCOPY src/ /app/code/\nRUN make\n", "code/b.py code/c/d.py", ""},
		{"FROM x\nWORKDIR /app\nCOPY . .\n", "a.txt src/b.py src/c/d.py", ""},
		{"FROM x\nCOPY a.txt /etc/a.txt\n", "", ""},
		{"FROM x\nWORKDIR /srv\n", "", "working folder"},
		{"FROM x\nCOPY --from=y /a /app/\n", "", "options"},
		{"FROM x\nCOPY none.txt /app/\n", "", "not in the task"},
	} {
		task := &foreign{}
		err := task.environment([]byte(c.text), context)
		var names []string
		for _, f := range task.files {
			names = append(names, f.Path)
		}
		if c.refuse != "" && (err == nil || !strings.Contains(err.Error(), c.refuse)) || c.refuse == "" && (err != nil || strings.Join(names, " ") != c.files) {
			t.Errorf("%q: %q %v, want %q %s", c.text, names, err, c.files, c.refuse)
		}
	}
}

func TestMembersOfTaskFiles(t *testing.T) {
	got, err := readTOML([]byte("version = \"1.0\"\n# a = 1\n[agent]\ntimeout_sec = 600.0 # long\n[environment]\nmemory_mb = 2_048\ndocker_image = \"x:1\" # that\ntags = [\"a\"]\n"))
	if err != nil || got["version"] != "1.0" || got["agent.timeout_sec"] != "600.0" || got["environment.memory_mb"] != "2048" || got["environment.docker_image"] != "x:1" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := readTOML([]byte("[verifier]\ntimeout_sec = 1\ntimeout_sec = 2\n")); err == nil {
		t.Error("a member that is there twice is taken")
	}
	for _, bad := range []string{"0", "-1", "NaN", "1e9", "x"} {
		if _, err := wholeSeconds(bad); err == nil {
			t.Errorf("%s seconds are taken", bad)
		}
	}
	if files := namedFiles([]string{"tests/b.py::x", "tests/a.py::T::y", "tests/b.py::z[1]"}); !slices.Equal(files, []string{"tests/a.py", "tests/b.py"}) {
		t.Errorf("%q", files)
	}
	for _, bad := range []string{"test_x (module.T)", "-p::x", "a.txt::x"} {
		if files := namedFiles([]string{bad}); files != nil {
			t.Errorf("%q: %q", bad, files)
		}
	}
}
