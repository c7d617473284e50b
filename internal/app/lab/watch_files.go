package lab

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/sandbox/identity"
	"tallystick/internal/run/user"
)

// pollEvery is how often files are looked at. Looking at many takes longer, and
// then it is done less often, so that it never takes more than a tenth of the time.
const pollEvery = 100 * time.Millisecond

// maxCompared bounds the files whose content is compared when they may have
// changed: a larger one counts as changed by its identity alone.
const maxCompared = 8 << 20

// settled is how old the last change of a file must be when it is read, so that a
// later one is sure to give it another time: some file systems count in two seconds.
// A younger file is read at every look.
const settled = 2500 * time.Millisecond

// A stamp is what is remembered of a file.
type stamp struct {
	id      identity.ID
	read    time.Time      // when the content was
	content digest.Content // zero for a folder, and for a large file
}

// still reports whether a file of this identity has the content that was read.
func (s stamp) still(id identity.ID) bool {
	changed := time.Unix(0, max(id.Changed, id.Modified))
	return s.id == id && !s.read.IsZero() && s.read.Sub(changed) > settled
}

// A watchedFiles remembers what a run depends on and finds out what has changed. It
// looks again and again: that misses nothing, whichever way an editor saves, on every
// file system, and needs no kernel to tell.
type watchedFiles struct {
	place   *dossier.Place
	class   string
	targets []string   // as they were asked for
	mu      sync.Mutex // of what follows: a run asks while another goroutine looks
	known   map[string]stamp
	ignored string // a folder to which the watch itself adds
	// changed is what has been seen to change and the caller was not told yet: one that
	// stops waiting in the middle of a change must not lose it.
	changed []string
}

// adopt adds the files of targets that were read just now, and reports whether any is
// new. Those that are known keep their stamps, so that what changed since is still found.
func (w *watchedFiles) adopt(targets []*agent.Target) (news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.files(targets) {
		if _, ok := w.known[name]; ok {
			continue
		}
		if s, ok := w.stampOf(name); ok {
			w.known[name], news = s, true
		}
	}
	return news
}

// look takes the present state for known and says what differs from the state
// before, by path, in the workspace's terms where it lies there.
func (w *watchedFiles) look(targets []*agent.Target) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := make(map[string]stamp)
	for _, name := range w.files(targets) {
		if s, ok := w.stampOf(name); ok {
			now[name] = s
		}
	}
	var changed []string
	for name, s := range now {
		before, ok := w.known[name]
		if !ok && w.ignored != "" && strings.HasPrefix(name, w.ignored) {
			continue
		}
		if !ok || s.content != before.content || s.content.IsZero() && s.id != before.id {
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

// stampOf reads a file only if it may be another than before.
func (w *watchedFiles) stampOf(name string) (stamp, bool) {
	at := name
	if to, err := os.Readlink(name); err == nil && to != "" {
		at, _ = filepath.EvalSymlinks(name) // what it leads to is what is read
	}
	id, err := identity.Of(at)
	if err != nil {
		return stamp{}, false
	}
	info, err := os.Stat(at)
	if err != nil {
		return stamp{}, false
	}
	if !info.Mode().IsRegular() || id.Size > maxCompared {
		return stamp{id: id}, true
	}
	if before, ok := w.known[name]; ok && before.still(id) {
		return before, true
	}
	s := stamp{id: id, read: time.Now()}
	data, err := store.ReadFile(store.OS{}, at, maxCompared)
	if err != nil {
		return stamp{}, false
	}
	s.content = digest.ContentOf(data)
	return s, true
}

// ignore takes files that come into a folder of the workspace for known, until resume.
func (w *watchedFiles) ignore(dir string) (resume func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ignored = w.place.Path(dir) + string(filepath.Separator)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, name := range w.files(nil) {
			if _, ok := w.known[name]; !ok && strings.HasPrefix(name, w.ignored) {
				if s, ok := w.stampOf(name); ok {
					w.known[name] = s
				}
			}
		}
		w.ignored = ""
	}
}

// digestOf names the state of files as it is known.
func (w *watchedFiles) digestOf(names []string) digest.Content {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []byte
	for _, name := range names {
		s := w.known[name]
		all = fmt.Appendf(all, "%q %s", name, s.content)
		if s.content.IsZero() {
			all = fmt.Appendf(all, " %v", s.id)
		}
	}
	return digest.ContentOf(all)
}

// below lists the known files of a folder of the workspace.
func (w *watchedFiles) below(dir string) map[string]digest.Content {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]digest.Content{}
	for name, s := range w.known {
		if strings.HasPrefix(name, w.place.Path(dir)+string(filepath.Separator)) {
			out[name] = s.content
		}
	}
	return out
}

// files lists what there is: the class, the targets and what they bring, recordings,
// replies, golden traces, judge, providers and settings, signers.
func (w *watchedFiles) files(targets []*agent.Target) []string {
	p := w.place
	names := []string{p.Path(workspace.SettingsFile), p.Path(judge.SettingsFile), p.Path(user.SettingsFile), p.Path(provider.SettingsFile), p.SignersFile()}
	dirs := []string{filepath.Dir(filepath.Dir(p.GoldenFile(w.class, "x", "x")))}
	if !bench.IsShipped(w.class) {
		dirs = append(dirs, p.ClassDir(w.class), filepath.Dir(p.Path(bench.CassetteFile(w.class, "", "x"))), p.Path(repliesDir))
	}
	for _, t := range w.targets {
		if strings.ContainsAny(t, "*?") && !strings.Contains(t, "[") {
			dirs = append(dirs, p.Path(agent.TargetsDir)) // a file that comes may fit
			continue
		}
		base, _, _ := strings.Cut(t, "[") // a variant is chosen from the file of all
		base, _, _ = strings.Cut(base, "~")
		names = append(names, p.Path(agent.TargetsDir, base+".yaml"))
	}
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !scratchName(d.Name()) {
				names = append(names, name)
			}
			return nil
		})
	}
	for _, t := range targets {
		files, _ := t.Watched()
		names = append(append(names, p.Path(t.File())), slices.DeleteFunc(files, func(name string) bool { return scratchName(filepath.Base(name)) })...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// scratchName tells the files that editors leave beside those being edited.
func scratchName(name string) bool {
	return strings.HasPrefix(name, ".#") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") ||
		strings.HasSuffix(name, ".swp") || strings.HasSuffix(name, ".swx") || strings.HasSuffix(name, ".swo") || name == "4913"
}

func (w *watchedFiles) short(name string) string {
	if rel, err := filepath.Rel(w.place.Dir, name); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return name
}

// wait returns when something has changed and then nothing more for a moment: an
// editor that saves, or a checkout of another branch, is one change.
func (w *watchedFiles) wait(ctx context.Context, targets []*agent.Target) ([]string, error) {
	pause := pollEvery
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
		began := time.Now()
		news := w.look(targets)
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
