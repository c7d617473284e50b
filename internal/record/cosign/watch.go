package cosign

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// WatchFile is where a watch of a source remembers what it saw, below the state
// folder of this machine.
func WatchFile(stateDir, source, origin string) string {
	sum := sha256.Sum256([]byte(source + "\n" + origin))
	return filepath.Join(stateDir, "watch", hex.EncodeToString(sum[:16])+".json")
}

// A Watch follows the anchors that an operator publishes, in a folder or under
// a URL, and remembers what it saw. It needs no workspace and trusts only the
// keys that it is given: a reader runs it to know whether a ledger is rewritten
// behind their back.
type Watch struct {
	Source string        // a folder of anchors, a workspace, or an http or https URL
	Policy ledger.Policy // keys of the ledger, and witnesses
	State  string        // file that remembers
	MaxGap int           // days that may lie between two anchors; 1 is every day
	Now    func() time.Time

	client *http.Client
}

// Seen is what came of looking once.
type Seen struct {
	Origin  string `json:"origin"`
	Date    string `json:"date"` // of the newest anchor
	Size    int64  `json:"size"`
	Head    string `json:"head"`
	Anchors int    `json:"anchors"` // that were verified now
	Before  int64  `json:"before"`  // entries when it was last looked at, 0 the first time
	// Proved says that the newest tree was proved, with its tiles, to begin with
	// the one seen before. Without tiles only anchors of one size are compared.
	Proved bool   `json:"proved"`
	Note   string `json:"note,omitempty"`
}

// watchState is what is remembered.
type watchState struct {
	Schema string               `json:"schema"`
	Origin string               `json:"origin"`
	Size   int64                `json:"size"`
	Root   string               `json:"root"`
	Date   string               `json:"date"` // of the newest anchor
	Days   map[string]seenDay   `json:"days"`
	Sizes  map[string]digest.ID `json:"sizes"` // size to head, of every anchor ever seen
}

// A seenDay is the largest anchor of a day that was seen.
type seenDay struct {
	Size int64     `json:"size"`
	Head digest.ID `json:"head"`
}

const (
	watchSchema   = "tallystick-watch/" + format.Version
	maxWatchState = 64 << 20
	// lookBack is how many days are asked for at a URL that was never looked at:
	// there is no list of what it has.
	lookBack     = 14
	fetchTimeout = 30 * time.Second
)

// Once looks at what is published now, compares it with what was seen before, and
// remembers it. A fork, a rollback and a missed day are refusals; then what was
// seen before stays remembered.
func (w *Watch) Once(ctx context.Context) (*Seen, error) {
	state, err := w.load()
	if err != nil {
		return nil, err
	}
	anchors, err := w.fetch(ctx, state)
	if err != nil {
		return nil, err
	}
	if len(anchors) == 0 && state.Size > 0 {
		return nil, refusal.Newf(refusal.HistoryRolledBack, "ROLLBACK: %d entries were anchored until %s; %s has no anchor of that day or later now", state.Size, state.Date, w.Source).
			WithHint("a published anchor must stay; ask the operator why it was removed, and keep your own copy")
	}
	if len(anchors) == 0 {
		return nil, refusal.Newf(refusal.MissingAnchor, "%s has no anchor", w.Source).WithHint("name the folder or the URL that holds <date>.json files, such as audit/anchors")
	}
	slices.SortFunc(anchors, func(a, b *ledger.VerifiedAnchor) int { return strings.Compare(a.Date, b.Date) })
	newest := anchors[len(anchors)-1]
	for _, a := range anchors {
		if err := state.agrees(a); err != nil {
			return nil, err
		}
	}
	seen := &Seen{Origin: newest.Origin, Date: newest.Date, Size: newest.Size, Head: newest.Head.String(), Anchors: len(anchors), Before: state.Size}
	if err := state.goesOn(anchors, newest); err != nil {
		return nil, err
	}
	if err := w.prove(ctx, state, newest, seen); err != nil {
		return nil, err
	}
	if err := state.missed(anchors, w.Now(), w.MaxGap); err != nil {
		return nil, err
	}
	state.remember(anchors, newest)
	return seen, w.save(state)
}

// load reads what is remembered; nothing the first time.
func (w *Watch) load() (*watchState, error) {
	state := &watchState{Schema: watchSchema, Days: map[string]seenDay{}, Sizes: map[string]digest.ID{}}
	data, err := store.ReadFile(store.OS{}, w.State, maxWatchState)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err == nil {
		err = canon.Unmarshal(data, state)
	}
	if err == nil {
		err = format.Check(w.State, state.Schema, watchSchema)
	}
	if newer := format.Newer(w.State, data, "schema", watchSchema); newer != nil {
		return nil, newer
	}
	if err != nil {
		return nil, refusal.Newf(refusal.MemoryDamaged, "%s: %w", w.State, err).WithHint("it does not say what was seen; compare the anchors by hand before you move it away")
	}
	return state, nil
}

func (w *Watch) save(state *watchState) error {
	data, err := canon.Marshal(state)
	if err != nil {
		return err
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(w.State), 0o700); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, w.State, append(data, '\n'), 0o600)
}

// agrees compares an anchor with what was seen: one size has one head, and the
// anchor of a day only grows.
func (s *watchState) agrees(a *ledger.VerifiedAnchor) error {
	if s.Origin != "" && a.Origin != s.Origin {
		return refusal.Newf(refusal.AnchorMismatch, "the anchor of %s is of the ledger %s; seen before was %s", a.Date, a.Origin, s.Origin).WithHint("this is another ledger; watch it with another --state")
	}
	if head, ok := s.Sizes[fmt.Sprint(a.Size)]; ok && head != a.Head {
		return refusal.Newf(refusal.HistoryForked, "FORK: two anchors of %d entries: the head was %s, the anchor of %s now says %s", a.Size, head, a.Date, a.Head).
			WithHint("two histories cannot both be true; keep both files and ask who publishes them")
	}
	s.Sizes[fmt.Sprint(a.Size)] = a.Head
	if day, ok := s.Days[a.Date]; ok && a.Size < day.Size {
		return refusal.Newf(refusal.HistoryRolledBack, "ROLLBACK: the anchor of %s covered %d entries and covers %d now", a.Date, day.Size, a.Size).
			WithHint("the ledger was cut, or an old copy of its anchors was put back")
	}
	return nil
}

// goesOn refuses anchors that end before what was seen, go back in size from one
// day to the next, or from which a day is gone.
func (s *watchState) goesOn(anchors []*ledger.VerifiedAnchor, newest *ledger.VerifiedAnchor) error {
	if newest.Size < s.Size || newest.Date < s.Date {
		return refusal.Newf(refusal.HistoryRolledBack, "ROLLBACK: %d entries were anchored until %s; the newest anchor now is of %s with %d", s.Size, s.Date, newest.Date, newest.Size).
			WithHint("the ledger was cut, or anchors were taken away")
	}
	for i, a := range anchors {
		if i > 0 && a.Size < anchors[i-1].Size {
			return refusal.Newf(refusal.HistoryRolledBack, "ROLLBACK: the anchor of %s covers %d entries, that of %s before it %d", a.Date, a.Size, anchors[i-1].Date, anchors[i-1].Size).
				WithHint("a ledger only grows")
		}
	}
	for date := range s.Days {
		if date >= anchors[0].Date && !slices.ContainsFunc(anchors, func(a *ledger.VerifiedAnchor) bool { return a.Date == date }) {
			return refusal.Newf(refusal.HistoryRolledBack, "ROLLBACK: the anchor of %s was published and is gone", date).WithHint("a published anchor must stay; ask the operator why it was removed, and keep your own copy")
		}
	}
	return nil
}

// prove shows with the published tiles that the newest tree begins with the one
// that was seen before.
func (w *Watch) prove(ctx context.Context, s *watchState, newest *ledger.VerifiedAnchor, seen *Seen) error {
	if s.Size == 0 || s.Size == newest.Size {
		seen.Proved = true
		return nil
	}
	before, err := tlog.ParseHash(s.Root)
	if err != nil {
		return refusal.Newf(refusal.MemoryDamaged, "%s: root: %w", w.State, err)
	}
	root, err := ledger.RootAt(newest.Checkpoint.TreeHead, s.Size, func(path string) ([]byte, error) { return w.read(ctx, path, 1<<20) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		seen.Note = "no tiles are published here, so that the newest anchor extends what was seen before is not proved"
		return nil
	case err != nil:
		return refusal.Newf(refusal.Unreadable, "reading the tiles: %w", err).WithHint("they do not fit the newest anchor, or could not be fetched; nothing was remembered")
	case root != before:
		return refusal.Newf(refusal.HistoryForked, "FORK: the first %d entries had the root %s; in the tree of %d entries they have %s", s.Size, before, newest.Size, root).
			WithHint("history was rewritten after it was published; keep both anchors and ask who publishes them")
	}
	seen.Proved = true
	return nil
}

// missed refuses days without an anchor: since what was seen, and until now.
func (s *watchState) missed(anchors []*ledger.VerifiedAnchor, now time.Time, maxGap int) error {
	days := []string{}
	if s.Date != "" {
		days = append(days, s.Date)
	}
	for _, a := range anchors {
		if a.Date > s.Date {
			days = append(days, a.Date)
		}
	}
	today := now.UTC().Format(time.DateOnly)
	for i, day := range days {
		next := today
		if i+1 < len(days) {
			next = days[i+1]
		}
		// Today's may still come.
		if gap, err := daysBetween(day, next); err != nil {
			return err
		} else if gap > maxGap {
			return refusal.Newf(refusal.MissingAnchor, "MISSED DAY: after the anchor of %s there is none for %d days, until %s", day, gap-1, next).
				WithHint("the nightly job did not run, or what it published was taken away; --max-gap allows more days")
		}
	}
	return nil
}

func daysBetween(from, to string) (int, error) {
	a, err := time.Parse(time.DateOnly, from)
	if err != nil {
		return 0, err
	}
	b, err := time.Parse(time.DateOnly, to)
	return int(b.Sub(a).Hours() / 24), err
}

func (s *watchState) remember(anchors []*ledger.VerifiedAnchor, newest *ledger.VerifiedAnchor) {
	for _, a := range anchors {
		s.Days[a.Date] = seenDay{a.Size, a.Head}
	}
	s.Origin, s.Size, s.Root, s.Date = newest.Origin, newest.Size, newest.Checkpoint.Root.String(), newest.Date
}

// fetch reads and verifies the anchors: all of a folder, or at a URL those of the
// days since the newest that was seen.
func (w *Watch) fetch(ctx context.Context, s *watchState) ([]*ledger.VerifiedAnchor, error) {
	names, err := w.names(s)
	if err != nil {
		return nil, err
	}
	var out []*ledger.VerifiedAnchor
	for _, name := range names {
		data, err := w.read(ctx, name, ledger.MaxAnchorBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		a, err := ledger.VerifyAnchor(data, w.Policy)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if a.Date+".json" != name {
			return nil, refusal.Newf(refusal.AnchorMismatch, "%s is the anchor of %s", name, a.Date)
		}
		out = append(out, a)
	}
	return out, nil
}

// names are the files to look for.
func (w *Watch) names(s *watchState) ([]string, error) {
	var names []string
	if !isURL(w.Source) {
		entries, err := os.ReadDir(w.anchorsDir())
		if err != nil {
			return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", w.Source, refusal.WithoutPath(err))
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".json") {
				names = append(names, e.Name())
			}
		}
		return names, nil
	}
	now := w.Now().UTC()
	from := now.AddDate(0, 0, -lookBack)
	if s.Date != "" {
		var err error
		if from, err = time.Parse(time.DateOnly, s.Date); err != nil {
			return nil, refusal.Newf(refusal.MemoryDamaged, "%s: date: %w", w.State, err)
		}
	}
	for day := from; !day.After(now.AddDate(0, 0, 1)); day = day.AddDate(0, 0, 1) {
		names = append(names, day.Format(time.DateOnly)+".json")
	}
	return names, nil
}

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

// anchorsDir is the folder itself, or that of a workspace.
func (w *Watch) anchorsDir() string {
	if inside := filepath.Join(w.Source, "audit", "anchors"); exists(inside) {
		return inside
	}
	return w.Source
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// read reads a published file: an anchor, or a tile. What is not there is
// fs.ErrNotExist; what cannot be fetched is another matter.
func (w *Watch) read(ctx context.Context, name string, most int64) ([]byte, error) {
	if isURL(w.Source) {
		return w.get(ctx, name, most)
	}
	path := filepath.Join(w.anchorsDir(), filepath.FromSlash(name))
	if tiles := filepath.Join(w.Source, ".tally", "ledger", "tiles"); strings.HasPrefix(name, "tile/") && exists(tiles) {
		path = filepath.Join(tiles, filepath.FromSlash(name))
	}
	return store.ReadFile(store.OS{}, path, most)
}

func (w *Watch) get(ctx context.Context, name string, most int64) ([]byte, error) {
	if w.client == nil {
		w.client = &http.Client{Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	at, err := url.JoinPath(w.Source, name)
	if err != nil {
		return nil, refusal.Newf(refusal.Usage, "%s: %w", w.Source, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, refusal.Newf(refusal.Usage, "%s: %w", w.Source, err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "fetching %s: %w", at, err).WithHint("whether the ledger is sound is not known; try again")
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", at, fs.ErrNotExist)
	case resp.StatusCode != http.StatusOK:
		return nil, refusal.Newf(refusal.Unreadable, "fetching %s: the server says %s", at, resp.Status)
	case err != nil:
		return nil, refusal.Newf(refusal.Unreadable, "fetching %s: %w", at, err)
	case int64(len(data)) > most:
		return nil, refusal.Newf(refusal.TooLarge, "%s has more than %d bytes", at, most)
	}
	return data, nil
}
