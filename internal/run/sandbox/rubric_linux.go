package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/sandbox/runfolder"
)

// rubricDir is where the rubric is in the sandbox, and its working directory.
const rubricDir = calls.RubricDir

// ordinaryUser is who the rubric is inside gVisor and in a guest.
const ordinaryUser = 1000

// rubricSetup lays out a sandbox for one run of a rubric: its image, or our
// own interpreter, its files, nothing that can be written to.
func rubricSetup(o Options, base *runfolder.Base, limits Limits) (*setup, error) {
	s, err := newSetup(rubricProfile, o.Executable, base)
	if err != nil {
		return nil, err
	}
	s.python = o.Image != nil
	s.limits = AgentLimits{Timeout: limits.Timeout, MemoryBytes: limits.MemoryBytes, OutputBytes: limits.OutputBytes}
	s.command, s.env, s.dir, s.user = rubricCommand(o, limits), rubricEnv(o), rubricDir, ordinaryUser
	s.rlimits = map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_MEMLOCK: 0, unix.RLIMIT_NOFILE: 64}
	// Starlark has no means to try anything, so there is nothing to watch.
	s.watch = s.python && !o.Blind
	if err := s.layOutRubric(o); err != nil {
		s.remove()
		return nil, err
	}
	s.log = calls.RubricLog(s.image)
	return s, nil
}

// layOutRubric decides on the root and shows the rubric in it.
func (s *setup) layOutRubric(o Options) error {
	root := mount{host: s.folder.Path("root"), inside: "/", folder: true}
	if o.Image != nil {
		root.host = o.Image.Root()
		var err error
		if s.image, err = os.OpenRoot(root.host); err != nil {
			return err
		}
	}
	if err := s.show(root); err != nil {
		return err
	}
	files, err := writeRubric(s.folder, o.Rubric)
	if err != nil {
		return err
	}
	if err := s.show(mount{host: files, inside: rubricDir, folder: true}); err != nil {
		return err
	}
	if o.Image != nil {
		return nil
	}
	for _, m := range image.MountPoints {
		if err := os.MkdirAll(filepath.Join(root.host, m), 0o755); err != nil {
			return err
		}
	}
	if _, err := s.folder.Write("root/"+mmapMinAddr, []byte("65536\n")); err != nil {
		return err
	}
	return s.show(mount{host: s.executable, inside: "/" + firstprocess.ProgramDir + "/" + starlarkName})
}

// give sets what the rubric reads.
func (s *setup) give(stdin []byte) { s.stdin = bytes.NewReader(stdin) }

// rubricCommand is the rubric's interpreter with its arguments. Its first
// element is both the file and, for Starlark, the name to run under.
func rubricCommand(o Options, limits Limits) []string {
	script := rubricDir + "/" + o.Rubric.Main
	if o.Image != nil {
		return append(append([]string{}, o.Image.About.Command...), script)
	}
	return []string{"/" + firstprocess.ProgramDir + "/" + starlarkName, script, strconv.FormatInt(limits.MemoryBytes, 10)}
}

// rubricEnv is the rubric's whole environment. gVisor adds HOME by itself, so
// every class has it.
func rubricEnv(o Options) []string {
	env := []string{"HOME=/"}
	if o.Image != nil {
		env = append(env, o.Image.About.Env...)
	}
	return env
}

// ofRubric is what a rubric's end says.
func (o outcome) ofRubric(python bool) Result {
	r := verdictOf(o.ending, python)
	r.MaxRSS = max(r.MaxRSS, o.peak)
	return r
}

// writeRubric puts the rubric's files below "rubric".
func writeRubric(folder *runfolder.Folder, rubric Rubric) (string, error) {
	for _, name := range rubric.names() {
		if _, err := folder.Write(filepath.Join("rubric", filepath.FromSlash(name)), rubric.Files[name]); err != nil {
			return "", err
		}
	}
	return folder.Path("rubric"), nil
}
