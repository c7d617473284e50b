package verify

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/share/submission"
)

// maxPackageBytes bounds all files of a submission together: they are in memory
// while they are derived again.
const maxPackageBytes = 2 << 30

// isPackage reports whether a folder holds a submission. It is known by the file
// that only a submission has, so that one without its manifest is refused as a package.
func isPackage(dir string) bool {
	return exists(filepath.Join(dir, submission.ManifestFile)) || exists(filepath.Join(dir, submission.SignatureFile)) ||
		exists(filepath.Join(dir, submission.ResultsFile)) && exists(filepath.Join(dir, submission.AuditFile))
}

// isZip reports whether a file is a package in one file. Anything but a regular file
// is not opened: a pipe would wait for ever.
func isZip(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := store.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	_, err = io.ReadFull(f, head)
	return err == nil && submission.IsZip(head)
}

// readZip reads a package in one file.
func readZip(path string) (map[string][]byte, error) {
	data, err := store.ReadFile(store.OS{}, path, maxPackageBytes)
	if err != nil {
		return nil, err
	}
	return submission.Unzip(data)
}

// submitted verifies a package, which is a folder or one file, and says what it
// proves.
func submitted(path string, read func(string) (map[string][]byte, error), t Trust) (string, string, error) {
	const kind = "submission"
	files, err := read(path)
	if err != nil {
		return kind, "", err
	}
	v, err := submission.Verify(files, t.Policy())
	if err == nil {
		err = t.checkOrigin(v.Checkpoint.Origin)
	}
	if err != nil {
		return kind, "", err
	}
	a := v.Attempt
	*t.claim = &Claim{Origin: a.Origin, TreeSize: a.TreeSize, Class: v.Class, Target: v.Target, Attempt: a.ID, Number: a.Number, Of: a.Of, Score: v.Headline.PassRate, Level: a.Level}
	t.assume("people signed the bench, and not example people: the package shows that the ledger's key signed the registration, and no more")
	if v.Headline.Corrected != nil {
		t.assume("the keys that signed corrections are of people who may correct: the package shows that these keys signed, and not whose they are")
	}
	switch {
	case a.Whole:
		t.assume("the tree of %d entries is still part of the ledger; then there are %d attempts of the class in that tree, and no more: every entry of it is in the package", a.TreeSize, a.Of)
	case a.Exact:
		t.assume("the tree of %d entries is still part of the ledger, and no two registrations before this attempt's have one number; then there are %d attempts of the class in that tree, and no more", a.TreeSize, a.Of)
	default:
		t.assume("the tree of %d entries is still part of the ledger; of %d attempts it proves that there were at least as many, and whether scores were corrected besides what it shows is not known", a.TreeSize, a.Of)
	}
	return kind, v.Text(), nil
}

// readPackage reads every file of a folder.
func readPackage(dir string) (map[string][]byte, error) {
	files, left := map[string][]byte{}, int64(maxPackageBytes)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return refusal.Newf(refusal.Unreadable, "reading %s: %w", path, refusal.WithoutPath(err))
		}
		if d.IsDir() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return refusal.Newf(refusal.SubmissionInvalid, "submission: %s is not a regular file", name).WithHint("a package has no links")
		}
		name = filepath.ToSlash(name)
		data, err := store.ReadBelow(dir, name, left)
		left -= int64(len(data))
		files[name] = data
		return err
	})
	return files, err
}
