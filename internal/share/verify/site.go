package verify

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/share/browser/site"
)

// isSite reports whether a folder holds the pages of a workspace. One without its
// manifest is known by the signature, and is refused as a site.
func isSite(dir string) bool {
	return exists(filepath.Join(dir, site.ManifestFile)) || exists(filepath.Join(dir, site.SignatureFile))
}

// writtenSite verifies the pages of a workspace as files, and says what that proves.
func writtenSite(dir string, t Trust) (string, string, error) {
	const kind = "site"
	names, err := filesBelow(dir)
	if err != nil {
		return kind, "", err
	}
	left := int64(site.MaxBytes)
	v, err := site.Verify(names, func(name string) ([]byte, error) {
		data, err := store.ReadBelow(dir, name, left)
		left -= int64(len(data))
		return data, err
	}, t.Policy())
	if err == nil {
		err = t.checkOrigin(v.Checkpoint.Origin)
	}
	if err != nil {
		return kind, "", err
	}
	c := v.Checkpoint
	t.assume("what a page computes from many entries is right: the operator's key signed the pages, and only a recount from the ledger tells")
	t.assume("the tree of %d entries is still part of the ledger: only its newest copy tells", c.Size)
	return kind, fmt.Sprintf("%s: %d files as its key signed them, %d receipts, in a tree of %d%s", c.Origin, v.Files, v.Receipts, c.Size, cosigned(c)), nil
}

// filesBelow are the paths of a folder's files, in order. A site has no links and
// nothing else that is not a file.
func filesBelow(dir string) ([]string, error) {
	var names []string
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
			return refusal.Newf(refusal.SiteInvalid, "site: %s is not a regular file", name).WithHint("a site has no links")
		}
		if len(names) > site.MaxFiles+2 {
			return refusal.Newf(refusal.SiteInvalid, "site: more than %d files", site.MaxFiles)
		}
		names = append(names, filepath.ToSlash(name))
		return nil
	})
	return names, err
}
