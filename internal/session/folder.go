package session

import (
	"bytes"
	"os"
	"slices"
	"strings"

	"tallystick/internal/digest"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
)

// folderLimits bound a working folder, which is read into memory to be compared
// and restored.
var folderLimits = digest.TreeLimits{MaxFiles: 20_000, MaxBytes: 256 << 20}

// A Folder is the working folder of one case on the host.
type Folder struct {
	Dir   string
	start []digest.File
}

// NewFolder fills a folder with the files of a case.
func NewFolder(dir string, files []digest.File) (*Folder, error) {
	if err := store.PlantTree(dir, files); err != nil {
		return nil, err
	}
	return &Folder{Dir: dir, start: files}, nil
}

// A state is what a folder held at one moment.
type state struct {
	files  []digest.File
	digest digest.Content
}

// read takes a picture of the folder. A folder with links or odd names in it
// cannot be compared and is refused.
func (f *Folder) read() (*state, error) {
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the working folder: %w", err)
	}
	defer root.Close()
	tree, err := digest.ReadTree(root, ".", folderLimits)
	if err != nil {
		return nil, err
	}
	d, err := tree.Digest()
	return &state{tree.Files, d}, err
}

// restore puts a state back and says what is there now.
func (f *Folder) restore(to *state) (digest.Content, error) {
	if err := store.PlantTree(f.Dir, to.files); err != nil {
		return digest.Content{}, err
	}
	now, err := f.read()
	if err != nil {
		return digest.Content{}, err
	}
	return now.digest, nil
}

// A Change is a file that is not as it was at the start: nil stands for not
// there.
type Change struct {
	Path          string
	Before, After []byte
}

// Changes lists the files that differ from the start, by name.
func (f *Folder) Changes() ([]Change, error) {
	now, err := f.read()
	if err != nil {
		return nil, err
	}
	before := map[string][]byte{}
	for _, file := range f.start {
		before[file.Path] = nonNil(file.Data)
	}
	var changes []Change
	for _, file := range now.files {
		was, had := before[file.Path]
		delete(before, file.Path)
		if !had || !bytes.Equal(was, file.Data) {
			changes = append(changes, Change{file.Path, was, nonNil(file.Data)})
		}
	}
	for name, data := range before {
		changes = append(changes, Change{name, data, nil})
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes, nil
}

// File reads one file of the folder as it is now. Links are not followed out of
// it.
func (f *Folder) File(name string) ([]byte, bool) {
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, false
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > folderLimits.MaxBytes {
		return nil, false
	}
	data, err := root.ReadFile(name)
	return data, err == nil
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
