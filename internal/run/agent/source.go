package agent

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// Bounds of an agent's own files.
const (
	maxSourceFiles = 20_000
	maxSourceBytes = 256 << 20
)

// ours are folders of a workspace that are never part of an agent: what is in
// them would tell it the answers.
var ours = []string{"bench", "cassettes", "golden", "audit", "signers", "targets"}

// readSource reads the files of an agent that lies in the repository, so that
// what is hashed is what runs.
func readSource(root, name string) (*digest.Tree, error) {
	found, err := findAbove(root, name)
	if err != nil {
		return nil, refusal.Newf(refusal.NotFound, "source: %w", err).WithHint("name the file or the folder of the agent")
	}
	info, err := os.Stat(found)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "source: %w", err)
	}
	s := &source{top: found}
	if !info.IsDir() {
		s.top = filepath.Dir(found)
		err = s.add(found)
	} else {
		err = filepath.WalkDir(found, s.visit)
	}
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	if len(s.tree.Files) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "source: %s has no files", found)
	}
	return &s.tree, nil
}

// A source is a folder while it is read.
type source struct {
	top   string
	tree  digest.Tree
	bytes int64
}

func (s *source) visit(name string, d fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return refusal.Newf(refusal.Unreadable, "%s: %w", name, refusal.WithoutPath(err))
	case name == s.top:
		return nil
	case d.IsDir() && s.leavesOut(name):
		return fs.SkipDir
	case d.IsDir() || strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), ".pyc"):
		return nil
	case !d.Type().IsRegular():
		return refusal.Newf(refusal.Malformed, "%s is a link or something else that is not a file, so its bytes cannot be pinned", name).
			WithHint("name a folder without it, or put the file in its place")
	}
	return s.add(name)
}

// leavesOut reports whether a folder is not part of the agent.
func (s *source) leavesOut(name string) bool {
	base := filepath.Base(name)
	if strings.HasPrefix(base, ".") || base == "__pycache__" || base == "node_modules" || exists(filepath.Join(name, "pyvenv.cfg")) || exists(filepath.Join(name, "conda-meta")) {
		return true
	}
	return slices.Contains(ours, base) && exists(filepath.Join(filepath.Dir(name), "tally.yaml"))
}

func (s *source) add(name string) error {
	data, err := store.ReadFile(store.OS{}, name, maxSourceBytes)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "%s: %w", name, refusal.WithoutPath(err))
	}
	short, err := filepath.Rel(s.top, name)
	if err != nil {
		return err
	}
	if s.bytes += int64(len(data)); s.bytes > maxSourceBytes || len(s.tree.Files) == maxSourceFiles {
		return refusal.Newf(refusal.TooLarge, "%s has more than %d files or %d bytes", s.top, maxSourceFiles, maxSourceBytes).WithHint("name the folder of the agent itself")
	}
	s.tree.Files = append(s.tree.Files, digest.File{Path: filepath.ToSlash(short), Data: data})
	return nil
}
