package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// Dir is the folder of the benches in a workspace.
const Dir = "bench"

// The files of a class, relative to its folder.
const (
	RegistrationFile = "registration.yaml"
	ManifestFile     = "manifest.yaml"
	DatasetFile      = "dataset.jsonl"
	CasesDir         = "cases"
	PendingDir       = "cases-pending"
	DigestsFile      = "cases/digests.yaml"
	CaseFile         = "case.yaml"
	ScenarioFile     = "scenario.yaml" // what the harness says and answers; never shown to the agent
	GradingFile      = "grading.yaml"  // how the case is graded, in place of the class's rubric
	helpersDir       = "rubric"
	JudgesDir        = "judges" // templates of the prompts that judges are asked with
	readmeFile       = "README.md"
)

// Limits of what one class may hold: its bytes are kept in memory.
const (
	maxClassFiles    = 200_000
	maxClassBytes    = 1 << 30
	maxCassetteBytes = 256 << 20
	// keptCassette is the largest cassette that is kept in memory when there
	// is a store for larger ones.
	keptCassette = 4 << 20
)

// A Draft is a class as it lies on disk: well-formed, and not yet trusted.
type Draft struct {
	Class        string
	Registration Registration
	Rubric       Rubric
	Judges       Judges
	Dataset      *Dataset
	Cases        []*CaseFolder // in the order of their ids

	// Manifest and Digests are what the files say; nil when there is no file.
	Manifest   *Manifest
	Digests    *CaseDigests
	Signatures [][]byte // beside the manifest

	lineTapes    map[string]map[string]*Cassette // of lines of the dataset, by target and id
	registration []byte                          // canonical JSON
	blobs        blobStore
	files        map[string][]byte
}

// A Rubric is the program that scores, with its helpers, as bytes.
type Rubric struct {
	Main   string // rubric.star or rubric.py
	Files  map[string][]byte
	Digest digest.Content // of the tree of these files
}

// Judges are the templates that graders of a class ask models with, by the name
// of the file in judges/. There are none in most classes.
type Judges struct {
	Files  map[string][]byte
	Digest digest.Content // of the tree of these files, if there are any
}

// Program returns the files as the rubric finds them where it runs: what is in
// rubric/ lies beside it.
func (r Rubric) Program() map[string][]byte {
	files := make(map[string][]byte, len(r.Files))
	for name, data := range r.Files {
		files[strings.TrimPrefix(name, helpersDir+"/")] = data
	}
	return files
}

// A CaseFolder is a case as it lies on disk.
type CaseFolder struct {
	Case
	Pending bool
	Files   []digest.File  // everything in the folder but case.yaml
	Digest  digest.Content // of the tree of these files
	YAML    []byte         // case.yaml as it is

	// Cassette is the one in the old place, which targets share; nil when there
	// is none. ByTarget are those that belong to one target each.
	Cassette *Cassette
	ByTarget map[string]*Cassette
	// Made is how the cassette came to be, as far as the command that digests
	// the class can tell; "" if it did not look.
	Made    CassetteProvenance
	MadeFor map[string]CassetteProvenance // the same for those of targets

	class string
	blobs blobStore // the files of the class's trees
}

// A Cassette is the recording that a case replays, as bytes or as a name in
// the store that took it.
type Cassette struct {
	Digest digest.Content
	Bytes  int64
	data   []byte
	blobs  *store.Blobs
}

// CassetteOf is a recording that came with a case from elsewhere.
func CassetteOf(data []byte) *Cassette {
	return &Cassette{Digest: digest.ContentOf(data), Bytes: int64(len(data)), data: data}
}

// Data returns the recording. If it was put into a store, what comes back was
// compared with its digest again.
func (c *Cassette) Data() ([]byte, error) {
	if c.blobs == nil {
		return c.data, nil
	}
	return c.blobs.Get(c.Digest, c.Bytes)
}

// Class is the class that the case is in.
func (c *CaseFolder) Class() string { return c.class }

// Message returns what the two signatures of the case cover.
func (c *CaseFolder) Message() ([]byte, error) { return c.message(c.class, c.Digest) }

// Load reads a class from a workspace without verifying anything but its
// shape.
func Load(root *os.Root, class string) (*Draft, error) { return load(root, class, nil) }

func load(root *os.Root, class string, blobs *store.Blobs) (*Draft, error) {
	if err := CheckID(class); err != nil {
		return nil, refusal.Newf(refusal.Usage, "class: %w", err).WithHint(`list the classes with "tally bench list"`)
	}
	d := &Draft{Class: class}
	if err := d.load(root, blobs); err != nil {
		return nil, fmt.Errorf("class %s: %w", class, err)
	}
	return d, nil
}

func (d *Draft) load(root *os.Root, blobs *store.Blobs) error {
	dir := path.Join(Dir, d.Class)
	if _, err := root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		classes, _ := Classes(root) // to suggest one; that they cannot be listed is not the mistake here
		return refusal.Newf(refusal.UnknownName, "there is no folder %s", dir).
			Suggest(d.Class, classes, `"tally bench new %s" makes one; "tally bench list" shows what there is`, d.Class)
	}
	// One reading gives every byte that is looked at below: nothing can change
	// between a check and a use.
	tree, err := digest.ReadTree(root, dir, digest.TreeLimits{MaxFiles: maxClassFiles, MaxBytes: maxClassBytes})
	if err != nil {
		return treeRefusal(err)
	}
	d.files = make(map[string][]byte, len(tree.Files))
	for _, f := range tree.Files {
		d.files[f.Path] = f.Data
	}
	d.blobs = storeOf(d.files[TreesFile])
	if err := d.checkNames(); err != nil {
		return err
	}
	if err := d.checkFolders(root); err != nil {
		return err
	}
	for _, step := range []func() error{d.loadRegistration, d.loadRubric, d.loadJudges, d.loadDataset, d.loadDigests, d.loadManifest} {
		if err := step(); err != nil {
			return err
		}
	}
	t := &tapes{root: root, class: d.Class, blobs: blobs}
	if err := d.loadCases(t); err != nil {
		return err
	}
	if err := d.loadTargets(t); err != nil {
		return err
	}
	return d.checkLinesAgainstFolders()
}

// treeRefusal says of a link, a device or an odd name that the bench cannot be
// trusted; what merely could not be read is left as it is.
func treeRefusal(err error) error {
	if refusal.Is(err, refusal.Malformed) {
		return refusal.Newf(refusal.BenchTreeInvalid, "%w", err).
			WithHint("a bench holds regular files with plain names and nothing else; remove it or put the file itself there")
	}
	return err
}

func invalidTree(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.BenchTreeInvalid, format, args...)
}

// checkNames refuses files that belong to nothing: people do not review what
// they do not expect.
func (d *Draft) checkNames() error {
	for _, p := range slices.Sorted(keysOf(d.files)) {
		top, rest, nested := strings.Cut(p, "/")
		switch {
		case !nested && (slices.Contains([]string{RegistrationFile, ManifestFile, SignedFile, DatasetFile, TreesFile, "rubric.star", "rubric.py", readmeFile}, top) || isSignatureOf(ManifestFile, top)):
		case nested && (top == helpersDir || top == PendingDir):
		case top == JudgesDir && strings.HasSuffix(rest, ".md") && !strings.Contains(rest, "/"):
		case p == DigestsFile:
		case top == CasesDir && strings.Contains(rest, "/"):
		default:
			return invalidTree("%s does not belong in a task class", p).
				WithHint("a class has %s, %s, rubric.star or rubric.py, rubric/, %s/NAME.md, %s, %s/ID/, %s/ID/ and %s", RegistrationFile, ManifestFile, JudgesDir, DatasetFile, CasesDir, PendingDir, readmeFile)
		}
	}
	return nil
}

// isSignatureOf accepts FILE.sig and FILE.NAME.sig.
func isSignatureOf(file, name string) bool {
	return name == file+".sig" || strings.HasPrefix(name, file+".") && strings.HasSuffix(name, ".sig")
}

// checkFolders finds folders without any file in cases/, which a tree does not
// show: digests.yaml must list exactly the folders.
func (d *Draft) checkFolders(root *os.Root) error {
	dir, err := root.Open(path.Join(Dir, d.Class, CasesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "listing the cases: %w", err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxClassFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return refusal.Newf(refusal.Unreadable, "listing the cases: %w", err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	seen := nameSet{}
	for _, e := range entries {
		if !e.IsDir() {
			continue // digests.yaml, or refused already
		}
		if err := CheckID(e.Name()); err != nil {
			return invalidTree("case %s: %w", e.Name(), err).WithHint("rename the folder")
		}
		if _, ok := d.files[path.Join(CasesDir, e.Name(), CaseFile)]; !ok {
			return invalidTree("case %s: the folder has no %s, so it is not a case", e.Name(), CaseFile).
				WithHint("remove the folder, or add the case")
		}
		if other := seen.add(e.Name()); other != "" {
			return invalidTree("case %s: looks like case %s", e.Name(), other).
				WithHint("rename one: ids differ in more than case, 0 and O, 1 and l and I, rn and m, vv and w, - and _")
		}
	}
	return nil
}

// checkLinesAgainstFolders refuses a line of the dataset that looks like a case
// with a folder: records name a case by its id alone.
func (d *Draft) checkLinesAgainstFolders() error {
	if d.Dataset == nil {
		return nil
	}
	folders := nameSet{}
	for _, c := range d.Cases {
		folders.add(c.CaseID)
	}
	for n, line := range d.Dataset.Lines {
		if other := folders.find(line.ID); other != "" {
			return refusal.Newf(refusal.Malformed, "%s:%d: the id %q looks like that of the case folder %s", DatasetFile, n+1, line.ID, other).
				WithHint("rename one of them")
		}
	}
	return nil
}

func (d *Draft) loadRegistration() error {
	data, ok := d.files[RegistrationFile]
	if !ok {
		return incomplete("there is no %s", RegistrationFile)
	}
	doc, err := decodeRegistration(data, &d.Registration)
	if err != nil {
		return err
	}
	if d.Registration.Class != d.Class {
		return doc.Refuse(badField("class", "found %q, the folder is %q", d.Registration.Class, d.Class))
	}
	d.registration = doc.JSON
	return nil
}

func incomplete(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.BenchIncomplete, format, args...).
		WithHint("restore the file; a class that lost a part is not the one that was signed")
}

func (d *Draft) loadRubric() error {
	r := &d.Rubric
	for _, name := range []string{"rubric.star", "rubric.py"} {
		if _, ok := d.files[name]; !ok {
			continue
		}
		if r.Main != "" {
			return invalidTree("there is a %s and a %s, expected one of them", r.Main, name).WithHint("remove the one that does not score")
		}
		r.Main = name
	}
	r.Files = map[string][]byte{}
	for p, data := range d.files {
		switch {
		case p == r.Main:
			r.Files[p] = data
		case !strings.HasPrefix(p, helpersDir+"/"):
		case r.Main == "":
			return incomplete("there is %s and no rubric.star and no rubric.py", p)
		case p == path.Join(helpersDir, r.Main):
			return invalidTree("%s would take the place of %s, beside which helpers are put", p, r.Main).WithHint("rename the helper")
		default:
			r.Files[p] = data
		}
	}
	if r.Main == "" {
		return nil
	}
	var err error
	r.Digest, err = treeOf(r.Files).Digest()
	return err
}

func (d *Draft) loadJudges() error {
	files := map[string][]byte{}
	for p, data := range d.files {
		if name, ok := strings.CutPrefix(p, JudgesDir+"/"); ok {
			files[name] = data
		}
	}
	if len(files) == 0 {
		return nil
	}
	d.Judges.Files = files
	var err error
	d.Judges.Digest, err = treeOf(files).Digest()
	return err
}

// CheckGraded refuses a case of a class without a rubric that does not say in
// its own file how it is graded and has no scenario, which may name a test.
// Whether it does, and how lines of a dataset are graded, is looked at by who
// runs them.
func (d *Draft) CheckGraded(c *CaseFolder) error {
	says := func(f digest.File) bool { return f.Path == GradingFile || f.Path == ScenarioFile }
	if d.Rubric.Main != "" || slices.ContainsFunc(c.Files, says) {
		return nil
	}
	return refusal.Newf(refusal.BenchIncomplete, "there is no rubric.star and no rubric.py, and the case has no %s and no %s", GradingFile, ScenarioFile).
		WithHint("add a %s; docs/formats/grading.md has the format", GradingFile)
}

func treeOf(files map[string][]byte) *digest.Tree {
	t := &digest.Tree{}
	for _, p := range slices.Sorted(keysOf(files)) {
		t.Files = append(t.Files, digest.File{Path: p, Data: files[p]})
	}
	return t
}

func (d *Draft) loadDigests() error {
	data, ok := d.files[DigestsFile]
	if !ok {
		return nil
	}
	d.Digests = &CaseDigests{}
	_, err := decode(DigestsFile, data, d.Digests)
	return err
}

func (d *Draft) loadManifest() error {
	var err error
	if d.Signatures, err = signaturesIn(d.files, ManifestFile); err != nil {
		return err
	}
	data, ok := d.files[ManifestFile]
	if !ok {
		return nil
	}
	d.Manifest = &Manifest{}
	doc, err := decode(ManifestFile, data, d.Manifest)
	if err != nil {
		return err
	}
	if d.Manifest.Class != d.Class {
		return doc.Refuse(badField("class", "found %q, the folder is %q", d.Manifest.Class, d.Class))
	}
	return nil
}

// signaturesIn collects the signatures beside a file: FILE.sig, which may hold
// several, and FILE.NAME.sig, as people send them who sign by hand.
func signaturesIn(files map[string][]byte, file string) ([][]byte, error) {
	var sigs [][]byte
	for _, name := range slices.Sorted(keysOf(files)) {
		if !isSignatureOf(file, name) {
			continue
		}
		blocks, err := seal.SplitArmored(files[name])
		if err != nil {
			// Signatures that cannot be read are signatures that do not verify.
			return nil, refusal.Newf(refusal.SignatureInvalid, "%s: %w", name, err).WithHint("have it signed again")
		}
		sigs = append(sigs, blocks...)
	}
	return sigs, nil
}

func (d *Draft) loadCases(t *tapes) error {
	for _, p := range slices.Sorted(keysOf(d.files)) {
		id, ok := strings.CutPrefix(p, CasesDir+"/")
		if !ok {
			continue
		}
		if id, ok = strings.CutSuffix(id, "/"+CaseFile); !ok || strings.Contains(id, "/") {
			continue
		}
		c, err := d.loadCase(CasesDir, id)
		if err == nil {
			err = d.CheckGraded(c)
		}
		if err != nil {
			return fmt.Errorf("case %s: %w", id, err)
		}
		if c.Cassette, err = t.load("", id); err != nil {
			return fmt.Errorf("case %s: %w", id, err)
		}
		d.Cases = append(d.Cases, c)
	}
	return nil
}

// loadCase reads the case in one folder of cases or of drafts.
func (d *Draft) loadCase(dir, id string) (*CaseFolder, error) {
	c := &CaseFolder{Pending: dir == PendingDir, class: d.Class, blobs: d.blobs}
	prefix := path.Join(dir, id) + "/"
	for p, data := range d.files {
		name, ok := strings.CutPrefix(p, prefix)
		if ok && name != CaseFile {
			c.Files = append(c.Files, digest.File{Path: name, Data: data})
		}
	}
	slices.SortFunc(c.Files, func(a, b digest.File) int { return strings.Compare(a.Path, b.Path) })
	c.YAML = d.files[prefix+CaseFile]
	doc, err := decode(prefix+CaseFile, c.YAML, &c.Case)
	if err != nil {
		return nil, err
	}
	if c.CaseID != id {
		return nil, doc.Refuse(badField("case_id", "found %q, the folder is %q", c.CaseID, id))
	}
	c.Digest, err = (&digest.Tree{Files: c.Files}).Digest()
	return c, err
}

// drafts are the names of the cases and of the drafts in cases-pending/.
func (d *Draft) drafts() []string {
	var names []string
	for file := range d.files {
		dir := path.Dir(file)
		if path.Base(file) == CaseFile && (path.Dir(dir) == PendingDir || path.Dir(dir) == CasesDir) {
			names = append(names, path.Base(dir))
		}
	}
	return names
}

// Pending reads one draft of cases-pending/. Drafts are loaded one by one, on
// request, and are never part of what [Verify] returns.
func (d *Draft) Pending(id string) (*CaseFolder, error) {
	if err := CheckID(id); err != nil {
		return nil, refusal.Newf(refusal.Usage, "case: %w", err)
	}
	if _, ok := d.files[path.Join(PendingDir, id, CaseFile)]; !ok {
		return nil, refusal.Newf(refusal.UnknownName, "class %s has no case and no draft called %s", d.Class, id).
			Suggest(id, d.drafts(), `"tally bench list %s" shows what there is`, d.Class)
	}
	c, err := d.loadCase(PendingDir, id)
	if err != nil {
		return nil, fmt.Errorf("class %s: draft %s: %w", d.Class, id, err)
	}
	return c, nil
}

// PendingIDs lists the drafts.
func (d *Draft) PendingIDs() []string {
	var ids []string
	for _, p := range slices.Sorted(keysOf(d.files)) {
		parts := strings.Split(p, "/")
		if len(parts) == 3 && parts[0] == PendingDir && parts[2] == CaseFile {
			ids = append(ids, parts[1])
		}
	}
	return ids
}

// Case returns the case of that id, or the draft if there is no such case.
func (d *Draft) Case(id string) (*CaseFolder, error) {
	for _, c := range d.Cases {
		if c.CaseID == id {
			return c, nil
		}
	}
	return d.Pending(id)
}

// LooksTaken returns the id of a case, a draft or a line of the dataset that
// looks like id, or "".
func (d *Draft) LooksTaken(id string) string {
	seen := nameSet{}
	for _, c := range d.Cases {
		seen.add(c.CaseID)
	}
	for _, p := range d.PendingIDs() {
		seen.add(p)
	}
	if d.Dataset != nil {
		for _, line := range d.Dataset.Lines {
			seen.add(line.ID)
		}
	}
	return seen.find(id)
}

// readPlain reads a regular file of the workspace that is reached without any
// link.
func readPlain(root *os.Root, name string, most int64) ([]byte, error) {
	parts := strings.Split(name, "/")
	var info fs.FileInfo
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		var err error
		if info, err = root.Lstat(at); err != nil {
			return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", name, err)
		}
		last := i == len(parts)-1
		if last && !info.Mode().IsRegular() || !last && !info.IsDir() {
			return nil, invalidTree("%s: %s is a %s, expected a regular file in plain folders", name, at, kindOf(info.Mode())).
				WithHint("put the file itself there")
		}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", name, err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", name, err)
	}
	if !os.SameFile(info, opened) {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: it changed while it was read", name).WithHint("try again when nothing writes to it")
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", name, err)
	}
	if int64(len(data)) > most {
		return nil, refusal.Newf(refusal.TooLarge, "%s is larger than the %d bytes that such a file may have", name, most)
	}
	return data, nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "link"
	case mode.IsDir():
		return "folder"
	case mode.IsRegular():
		return "file"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	}
	return "special file"
}

// Compute returns the manifest and the case digests of what is there.
func (d *Draft) Compute() (*Manifest, *CaseDigests, error) {
	m := &Manifest{Version: 1, Class: d.Class, Registration: digest.ContentOf(d.registration), Cases: map[string]ManifestCase{}}
	if d.Rubric.Main != "" {
		m.Rubric = &d.Rubric.Digest
	}
	if d.Judges.Files != nil {
		m.Judges = &d.Judges.Digest
	}
	if d.Dataset != nil {
		m.Dataset = &d.Dataset.Digest
	}
	var err error
	if m.DatasetCassettes, err = d.lineDigests(); err != nil {
		return nil, nil, err
	}
	digests := &CaseDigests{SchemaVersion: 1, Cases: map[string]digest.Content{}}
	for _, c := range d.Cases {
		message, err := c.Message()
		if err != nil {
			return nil, nil, fmt.Errorf("class %s: case %s: %w", d.Class, c.CaseID, err)
		}
		m.Cases[c.CaseID] = ManifestCase{Signed: digest.IDOf(message), Cassette: c.CassetteDigest}
		digests.Cases[c.CaseID] = c.Digest
	}
	if d.Manifest != nil && d.Manifest.Documents != nil {
		if err := d.pinDocuments(m, digests); err != nil {
			return nil, nil, err
		}
	}
	return m, digests, nil
}

// ComputeNew is [Draft.Compute] for a manifest that is about to be written: one
// that changes anyway pins signed.json, one that people signed before there was
// such a file stays as it is.
func (d *Draft) ComputeNew() (*Manifest, *CaseDigests, error) {
	m, digests, err := d.Compute()
	if err != nil || d.Registration.Trust == Scratch || m.Documents != nil {
		return m, digests, err
	}
	if d.Manifest != nil {
		same, err := sameMessage(m, d.Manifest)
		if err != nil || same {
			return m, digests, err
		}
	}
	return m, digests, d.pinDocuments(m, digests)
}

func (d *Draft) pinDocuments(m *Manifest, digests *CaseDigests) error {
	docs, err := d.documents(digests)
	if err != nil {
		return err
	}
	m.Documents, err = digestOfDocuments(docs)
	return err
}

func sameMessage(a, b *Manifest) (bool, error) {
	x, err := a.Message()
	if err != nil {
		return false, err
	}
	y, err := b.Message()
	return bytes.Equal(x, y), err
}

// RegistrationJSON returns the canonical JSON of the registration.
func (d *Draft) RegistrationJSON() canon.RawMessage { return slices.Clone(d.registration) }

// Classes lists the folders of classes in a workspace, in order. Invalid names,
// and two that look alike, are refused.
func Classes(root *os.Root) ([]string, error) {
	dir, err := root.Open(Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "listing the classes: %w", err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "listing the classes: %w", err)
	}
	var classes []string
	for _, e := range entries {
		switch {
		case e.IsDir():
			classes = append(classes, e.Name())
		case e.Type().IsRegular() && (e.Name() == path.Base(PinsFile) || e.Name() == SignedFile || isSignatureOf(path.Base(PinsFile), e.Name()) || e.Name() == readmeFile):
		default:
			return nil, invalidTree("%s/%s is neither a class nor a file of pins", Dir, e.Name()).
				WithHint("%s/ holds one folder for each class, %s and its signatures", Dir, PinsFile)
		}
	}
	slices.Sort(classes)
	seen := nameSet{}
	for _, c := range classes {
		if err := CheckID(c); err != nil {
			return nil, invalidTree("class %s: %w", c, err).WithHint("rename the folder")
		}
		if other := seen.add(c); other != "" {
			return nil, refusal.Newf(refusal.TaskClassAlreadyRegistered, "class %s: looks like class %s, which is registered already", c, other).
				WithHint("rename one, or remove it")
		}
	}
	return classes, nil
}

// Taken returns the class that has this name or looks like it, or "".
func Taken(root *os.Root, class string) (string, error) {
	classes, err := Classes(root)
	if err != nil {
		return "", err
	}
	pins, _, err := LoadPins(root)
	if err != nil {
		return "", err
	}
	seen := nameSet{}
	for _, c := range classes {
		seen.add(c)
	}
	if pins != nil {
		for _, c := range pins.Classes {
			seen.add(c)
		}
	}
	return seen.find(class), nil
}
