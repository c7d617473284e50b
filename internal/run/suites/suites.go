// Package suites holds the benches that come with the program, and the targets
// that show what they find: one agent that falls for everything, one with its
// defences on, and two that cannot do long work.
//
// The files are part of the program, so a user who trusts the program may trust
// them as much; no signer of a workspace has signed them. Therefore they are
// scratch classes: results are recorded and labelled, and never count for
// promotion. docs/suites.md says what each case is about and what it does not
// show.
package suites

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
)

// files is a workspace without keys and ledger.
//
//go:embed bench targets
var files embed.FS

// DefaultTarget is the target of a run of a shipped class that names none: the
// reference agent with its defences on.
const DefaultTarget = "mitigated"

// Classes lists the shipped classes by the names that records have.
func Classes() []string {
	var names []string
	for _, name := range list(bench.Dir) {
		names = append(names, bench.ShippedPrefix+name)
	}
	return names
}

// Glance lists the cases of a shipped class.
func Glance(class string) []bench.Glanced {
	return bench.Glance(files, strings.TrimPrefix(class, bench.ShippedPrefix))
}

// Targets lists the shipped targets.
func Targets() []string {
	var names []string
	for _, name := range list(agent.TargetsDir) {
		names = append(names, strings.TrimSuffix(name, ".yaml"))
	}
	return names
}

func list(dir string) []string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic("suites: a folder of the program itself is missing: " + err.Error())
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// Verify returns a shipped class, given its name with the prefix. It is written
// to a temporary folder and read back as any class is; what is returned holds
// the bytes, and the folder is gone.
func Verify(class string, now time.Time) (v *bench.Verified, err error) {
	name := strings.TrimPrefix(class, bench.ShippedPrefix)
	tree, err := tree(path.Join(bench.Dir, name))
	if !bench.IsShipped(class) || bench.CheckID(name) != nil || errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Newf(refusal.UnknownName, "no class %q comes with this program", class).
			Suggest(class, Classes(), "there are %s", strings.Join(Classes(), ", "))
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", class, err)
	}
	dir, remove, err := store.TempDir("tally-suite-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if rerr := remove(); err == nil {
			err = rerr
		}
	}()
	work := filepath.Join(dir, "suite")
	if err := store.PlantTree(work, tree); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(work)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the temporary folder: %w", err)
	}
	defer root.Close()
	return bench.VerifyShipped(root, name, now)
}

// tree reads a folder of the program.
func tree(dir string) ([]digest.File, error) {
	var list []digest.File
	err := fs.WalkDir(files, dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		list = append(list, digest.File{Path: name, Data: data})
		return err
	})
	return list, err
}

// Target returns a shipped target. A missing name is not an error:
// then it is for the workspace to have one.
func Target(name string) (*agent.Target, error) {
	file := path.Join(agent.TargetsDir, name+".yaml")
	data, err := files.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading the shipped target %s: %w", name, err)
	}
	return agent.Parse(name, file, data)
}
