package lab

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/judge"
)

// pollEvery is how often files are looked at. Looking at many takes longer, and
// then it is done less often, so that it never takes more than a tenth of the time.
const pollEvery = 200 * time.Millisecond

// maxCompared bounds the files whose content is compared when their time has
// changed: a larger one counts as changed by its time or size alone.
const maxCompared = 8 << 20

// A stamp is what is remembered of a file.
type stamp struct {
	modified time.Time
	size     int64
	content  digest.Content // zero for a folder, and for a large file
}

// A watchedFiles remembers what a run depends on and finds out what has changed.
type watchedFiles struct {
	place  *dossier.Place
	class  string
	target string
	known  map[string]stamp
	// changed is what has been seen to change and the caller was not told yet: one that
	// stops waiting in the middle of a change must not lose it.
	changed []string
}

// adopt adds the files of a target that was read just now. Those that are known
// keep their stamps, so that what changed since is still found.
func (w *watchedFiles) adopt(t *agent.Target) {
	for _, name := range t.Watched() {
		if _, ok := w.known[name]; ok {
			continue
		}
		if s, ok := w.stampOf(name); ok {
			w.known[name] = s
		}
	}
}

// look takes the present state for known and says what differs from the state
// before, by path, in the workspace's terms where it lies there.
func (w *watchedFiles) look(t *agent.Target) []string {
	now := make(map[string]stamp)
	for _, name := range w.files(t) {
		if s, ok := w.stampOf(name); ok {
			now[name] = s
		}
	}
	var changed []string
	for name, s := range now {
		if before, ok := w.known[name]; !ok || s.content != before.content || s.content.IsZero() && s != before {
			changed = append(changed, w.short(name))
		}
	}
	for name := range w.known {
		if _, ok := now[name]; !ok {
			changed = append(changed, w.short(name))
		}
	}
	w.known = now
	slices.Sort(changed)
	return changed
}

// stampOf reads a file only if its time or size is another than before.
func (w *watchedFiles) stampOf(name string) (stamp, bool) {
	info, err := os.Stat(name)
	if err != nil {
		return stamp{}, false
	}
	s := stamp{modified: info.ModTime(), size: info.Size()}
	if !info.Mode().IsRegular() || s.size > maxCompared {
		return s, true
	}
	if before, ok := w.known[name]; ok && before.modified.Equal(s.modified) && before.size == s.size {
		return before, true
	}
	data, err := store.ReadFile(store.OS{}, name, maxCompared)
	if err != nil {
		return stamp{}, false
	}
	s.content = digest.ContentOf(data)
	return s, true
}

// files lists what there is: the class, the target and what it brings, recordings,
// golden traces, judge and settings, signers.
func (w *watchedFiles) files(t *agent.Target) []string {
	p, file, folder := w.place, w.target, w.target
	if base, _, err := agent.ParseChoice(w.target); err == nil {
		file = base // a variant is chosen from the file of all
	}
	if t != nil {
		folder = t.Name
	}
	names := []string{p.Path(workspace.SettingsFile), p.Path(judge.SettingsFile), p.SignersFile(), p.Path(agent.TargetsDir, file+".yaml")}
	dirs := []string{filepath.Dir(p.GoldenFile(w.class, folder, "x"))}
	if !bench.IsShipped(w.class) {
		dirs = append(dirs, p.ClassDir(w.class), filepath.Dir(p.Path(bench.CassetteFile(w.class, "", "x"))))
	}
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && !scratchName(d.Name()) {
				names = append(names, name)
			}
			return nil
		})
	}
	if t != nil {
		names = append(names, t.Watched()...)
	}
	return names
}

// scratchName tells the files that editors leave beside those being edited.
func scratchName(name string) bool {
	return strings.HasPrefix(name, ".#") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") ||
		strings.HasSuffix(name, ".swp") || strings.HasSuffix(name, ".swx") || name == "4913"
}

func (w *watchedFiles) short(name string) string {
	if rel, err := filepath.Rel(w.place.Dir, name); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return name
}

// wait returns when something has changed and then nothing more for a moment: an
// editor that saves, or a checkout of another branch, is one change.
func (w *watchedFiles) wait(ctx context.Context, t *agent.Target) ([]string, error) {
	pause := pollEvery
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
		began := time.Now()
		news := w.look(t)
		pause = max(pollEvery, 10*time.Since(began))
		if len(news) == 0 && len(w.changed) > 0 {
			changed := w.changed
			w.changed = nil
			slices.Sort(changed)
			return slices.Compact(changed), nil
		}
		w.changed = append(w.changed, news...)
	}
}
