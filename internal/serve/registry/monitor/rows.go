package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/registry/client"
)

const (
	pageOfRows = 200
	// maxRows bounds a list that never ends.
	maxRows = 10_000_000
	maxSeen = 1 << 30
)

// A row is what eval/list shows of a published evaluation.
type row struct {
	ProposalID      string           `json:"proposalId"`
	IPPath          string           `json:"ipPath"`
	ArtifactPath    string           `json:"artifactPath"`
	EvalHarnessPath string           `json:"evalHarnessPath"`
	DatasetPath     string           `json:"datasetPath"`
	Metrics         canon.RawMessage `json:"metrics"`
	RunDetails      canon.RawMessage `json:"runDetails"`
	Status          string           `json:"status"`
	PublishedAt     string           `json:"publishedAt"`
	Runner          string           `json:"runner"`
	Judges          struct {
		Drawn     int `json:"drawn"`
		For       int `json:"for"`
		Against   int `json:"against"`
		Abstained int `json:"abstained"`
		Missing   int `json:"missing"`
	} `json:"judges"`
	Earlier    int    `json:"earlier"`
	Credential string `json:"credential"`
	Entry      int64  `json:"entry"`
	Receipt    string `json:"receipt"`
	Decision   int64  `json:"decision"`
}

// manifest is the part of a proposed manifest that a row repeats.
type manifest struct {
	ArtifactPath    string           `json:"artifactPath"`
	EvalHarnessPath string           `json:"evalHarnessPath"`
	DatasetPath     string           `json:"datasetPath"`
	Metrics         canon.RawMessage `json:"metrics"`
	RunDetails      canon.RawMessage `json:"runDetails"`
}

// rows reads the whole list, page by page.
func (m *Monitor) rows(ctx context.Context) ([]row, error) {
	var all []row
	seen := map[string]bool{"": true}
	for at := fmt.Sprintf("%s?limit=%d", client.ListPath, pageOfRows); ; {
		a, err := m.Client.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		var page []row
		if err := a.Decode(&page, http.StatusOK); err != nil {
			return nil, err
		}
		all = append(all, page...)
		after, more, err := nextPage(a.Header)
		if err != nil || !more {
			return all, err
		}
		if seen[after] || len(all) > maxRows {
			return nil, refusal.Newf(refusal.Malformed, "the registry's list does not end: after %q comes again", after)
		}
		seen[after] = true
		at = fmt.Sprintf("%s?after=%s&limit=%d", client.ListPath, url.QueryEscape(after), pageOfRows)
	}
}

// nextPage reads where the next page begins from the Link header (RFC 8288):
// <address?after=…>; rel="next". Only that is taken from it: the address is the one
// that the watcher has named.
func nextPage(h http.Header) (after string, more bool, err error) {
	for _, value := range h.Values("Link") {
		for _, link := range strings.Split(value, ",") {
			address, parameters, _ := strings.Cut(strings.TrimSpace(link), ";")
			if !strings.Contains(parameters, `rel="next"`) {
				continue
			}
			u, err := url.Parse(strings.Trim(strings.TrimSpace(address), "<>"))
			if err != nil {
				return "", false, refusal.Newf(refusal.Malformed, "the registry's Link header: %w", err)
			}
			return u.Query().Get("after"), true, nil
		}
	}
	return "", false, nil
}

// checkRows compares the list with the entries, both ways. mustHave is how many
// entries there were when the list was asked for: what was published before must be
// in it, what was published since may be.
func (m *Monitor) checkRows(ctx context.Context, list []row, mustHave int64, report *Report) error {
	listed := map[string]bool{}
	for i := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := &list[i]
		if listed[r.ProposalID] {
			m.report(report, RowTwice, r.Entry, r.ProposalID, "the list has it twice")
			continue
		}
		listed[r.ProposalID] = true
		if err := m.checkRow(ctx, r, report); err != nil {
			return err
		}
	}
	for _, p := range m.state.order {
		if p.body.Thing == "eval" && p.decision != nil && p.decision.Outcome == "published" && p.decisionIndex < mustHave && !listed[p.body.Proposal] {
			m.report(report, EntryWithoutRow, p.decisionIndex, p.body.Proposal, "the entry publishes it; the list does not have it")
		}
	}
	return nil
}

func (m *Monitor) report(r *Report, name string, index int64, proposal, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Name: name, Entry: index, Proposal: proposal, Detail: fmt.Sprintf(format, args...)})
}

func (m *Monitor) checkRow(ctx context.Context, r *row, report *Report) error {
	p := m.state.byID[r.ProposalID]
	if p == nil {
		m.report(report, RowWithoutEntry, -1, r.ProposalID, "the list has it; no entry of the %d that are signed proposes it", m.memory.Size)
		return nil
	}
	if p.decision == nil || p.decision.Outcome != "published" {
		m.report(report, RowWithoutEntry, p.index, r.ProposalID, "the list has it; no entry publishes it")
		return nil
	}
	report.Rows++
	for _, difference := range compareRow(r, p, count(p, m.state.draws[p.body.Content])) {
		m.report(report, RowDiffers, p.index, r.ProposalID, "%s", difference)
	}
	if err := m.checkContent(ctx, r, p, report); err != nil {
		return err
	}
	return m.checkReceipts(ctx, r, p, report)
}

// compareRow lists where a row says something else than the entries.
func compareRow(r *row, p *proposal, votes votes) []string {
	var out []string
	differ := func(member string, row, entry any) {
		if fmt.Sprint(row) != fmt.Sprint(entry) {
			out = append(out, fmt.Sprintf("%s: the row says %v, the entries %v", member, row, entry))
		}
	}
	differ("ipPath", r.IPPath, p.body.Path)
	differ("artifactPath", r.ArtifactPath, p.body.Artifact)
	differ("status", r.Status, "published")
	differ("publishedAt", r.PublishedAt, p.decisionAt)
	differ("runner", r.Runner, p.body.Runner)
	differ("earlier", r.Earlier, p.body.Earlier)
	differ("judges.drawn", r.Judges.Drawn, votes.For+votes.Against+votes.Abstained+votes.Missing)
	differ("judges.for", r.Judges.For, votes.For)
	differ("judges.against", r.Judges.Against, votes.Against)
	differ("judges.abstained", r.Judges.Abstained, votes.Abstained)
	differ("judges.missing", r.Judges.Missing, votes.Missing)
	differ("a credential", r.Credential != "", p.body.Credential != nil)
	differ("entry", r.Entry, p.index)
	differ("decision", r.Decision, p.decisionIndex)
	return out
}

// checkContent compares what a row says of the evaluation with the manifest that
// the entry names by digest. A manifest is fetched once: afterwards what the row
// said then is remembered, and every later row must say the same.
func (m *Monitor) checkContent(ctx context.Context, r *row, p *proposal, report *Report) error {
	if m.state.down[p.body.Manifest] {
		return nil // taken down: the tombstone is an entry, the text is gone
	}
	now, err := canon.Marshal(manifest{r.ArtifactPath, r.EvalHarnessPath, r.DatasetPath, r.Metrics, r.RunDetails})
	if err != nil {
		m.report(report, RowDiffers, p.index, r.ProposalID, "it is not complete: %v", err)
		return nil
	}
	if before, ok := m.seen[r.ProposalID]; ok && before == digest.IDOf(now) {
		return nil
	}
	text, err := m.blob(ctx, p.body.Manifest)
	if err != nil {
		return fmt.Errorf("manifest of %s: %w", r.ProposalID, err)
	}
	var proposed manifest
	if err := json.Unmarshal(text, &proposed); err != nil {
		return refusal.Newf(refusal.Malformed, "manifest of %s: %w", r.ProposalID, err)
	}
	want, err := canon.Marshal(proposed)
	if err != nil {
		return refusal.Newf(refusal.Malformed, "manifest of %s: %w", r.ProposalID, err)
	}
	if !bytes.Equal(now, want) {
		m.report(report, RowDiffers, p.index, r.ProposalID, "the row says %s, the manifest of the entry %s", short(now), short(want))
		return nil
	}
	m.seen[r.ProposalID] = digest.IDOf(now)
	return nil
}

func short(text []byte) string {
	const most = 400
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// blob fetches a blob and checks that it is the one.
func (m *Monitor) blob(ctx context.Context, name digest.Content) ([]byte, error) {
	a, err := m.Client.Get(ctx, client.BlobPath(name.String()))
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, a.Err()
	}
	if got := digest.ContentOf(a.Body); got != name {
		return nil, refusal.Newf(refusal.DigestMismatch, "the registry was asked for the blob %s and serves %s", name, got)
	}
	return a.Body, nil
}

// checkReceipts fetches and verifies the receipts of a row that was not there at the
// last look: of the entry that proposes it and of the one that publishes it.
func (m *Monitor) checkReceipts(ctx context.Context, r *row, p *proposal, report *Report) error {
	if p.decisionIndex < m.memory.Receipts && !m.AllReceipts {
		return nil
	}
	if !strings.HasSuffix(r.Receipt, client.ReceiptPath(p.index)) {
		m.report(report, ReceiptDoesNotProve, p.index, r.ProposalID, "the row leads to %s; the receipt of its entry is at %s", r.Receipt, client.ReceiptPath(p.index))
	}
	for _, index := range []int64{p.index, p.decisionIndex} {
		if err := m.checkReceipt(ctx, index, r.ProposalID, report); err != nil {
			return err
		}
	}
	return nil
}

func (m *Monitor) checkReceipt(ctx context.Context, index int64, proposal string, report *Report) error {
	a, err := m.Client.Get(ctx, client.ReceiptPath(index))
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		m.report(report, ReceiptDoesNotProve, index, proposal, "%v", a.Err())
		return nil
	}
	report.Receipts++
	proved, err := m.prove(ctx, a.Body, index)
	switch {
	case err != nil:
		m.report(report, ReceiptDoesNotProve, index, proposal, "%v", err)
	case proved.Index != index:
		m.report(report, ReceiptDoesNotProve, index, proposal, "%s proves entry %d", client.ReceiptPath(index), proved.Index)
	}
	return nil
}

// prove verifies a receipt, with the entry from beside it if it is too long to be
// in it, and that its tree is one that was read here.
func (m *Monitor) prove(ctx context.Context, data []byte, index int64) (*ledger.Proved, error) {
	parsed, err := ledger.ParseReceipt(data)
	if err != nil {
		return nil, err
	}
	var beside []byte
	if parsed.Entry == nil {
		page, err := m.page(ctx, index, 1)
		if err != nil {
			return nil, err
		}
		beside = page[0]
	}
	signed, err := treeHead(parsed.Checkpoint)
	if err != nil {
		return nil, err
	}
	proved, err := ledger.VerifyReceipt(data, beside, ledger.Policy{Logs: m.log.operators(signed.Size)})
	if err != nil && signed.Size > m.memory.Size {
		// The tree has grown since it was read, and who signs it may have changed.
		if err := m.follow(ctx); err != nil {
			return nil, err
		}
		proved, err = ledger.VerifyReceipt(data, beside, ledger.Policy{Logs: m.log.operators(signed.Size)})
	}
	if err != nil {
		return nil, err
	}
	head := proved.Checkpoint.TreeHead
	if head.Size <= m.memory.Size {
		if root, err := m.log.tree.Root(head.Size); err != nil || root != head.Root {
			return nil, refusal.Newf(refusal.HistoryForked, "its checkpoint says that the root of %d entries is %s; it is %s", head.Size, head.Root, root)
		}
	}
	// The tree may have grown since the entries were read; the entry has not changed.
	leaf, err := m.log.tree.ReadHashes([]int64{tlog.StoredHashIndex(0, proved.Index)})
	if err != nil || leaf[0] != proved.Leaf {
		return nil, refusal.Newf(refusal.HistoryForked, "it proves another entry %d than the registry served", proved.Index)
	}
	return proved, nil
}

// seenFile has what each row said when it was compared with its manifest.
func seenFile(dir string) string { return filepath.Join(dir, "rows.json") }

func loadSeen(dir string) (map[string]digest.ID, error) {
	seen := map[string]digest.ID{}
	data, err := store.ReadFile(store.OS{}, seenFile(dir), maxSeen)
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err == nil {
		err = canon.Unmarshal(data, &seen)
	}
	if err != nil {
		return nil, damaged(seenFile(dir), err)
	}
	return seen, nil
}

func saveSeen(dir string, seen map[string]digest.ID) error {
	data, err := canon.Marshal(seen)
	if err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, seenFile(dir), append(data, '\n'), 0o600)
}
