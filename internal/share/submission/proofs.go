package submission

import (
	"maps"
	"slices"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
)

// proofs reads files of receipts, all of which are for one tree.
type proofs struct {
	files  map[string][]byte
	policy ledger.Policy
	tree   *ledger.Checkpoint
	used   map[string]bool          // the files that were read: no other may be there
	proved map[int64]*ledger.Proved // every entry that a receipt shows
	class  map[int64]bool           // of them the registrations that are counted
	err    error
}

// attempt reads the attempt from the receipts.
func (x *proofs) attempt() (*Source, error) {
	ends, class, records := x.all("attempt"), x.all("class"), x.all("record")
	draws, dispositions, beside, rest := x.some("draw"), x.some("disposition"), x.some("correction"), x.some("rest")
	if x.err != nil {
		return nil, x.err
	}
	if len(ends) != 2 {
		return nil, bad("%d receipts of the attempt itself, expected its registration and its end", len(ends))
	}
	a := &Source{Origin: x.tree.Origin, TreeSize: x.tree.Size, FinishedAt: ends[1].Entry.Time}
	var registered, finished bool
	a.Registered, registered = ends[0].Body.(*evidence.AttemptRegistered)
	a.Finished, finished = ends[1].Body.(*evidence.AttemptFinished)
	if !registered || !finished || a.Registered.Origin != a.Origin {
		return nil, bad("the receipts of the attempt are of %s and %s, expected its registration in %s and its end", ends[0].Entry.Kind, ends[1].Entry.Kind, a.Origin)
	}
	for _, p := range class {
		r, ok := p.Body.(*evidence.AttemptRegistered)
		if !ok {
			return nil, bad("entry %d is of %s, expected a registration of the class", p.Index, p.Entry.Kind)
		}
		a.Class = append(a.Class, r)
		x.class[p.Index] = true
	}
	inside := between{ends[0].Index, ends[1].Index}
	for _, p := range records {
		r, ok := p.Body.(*evidence.CaseScored)
		if !ok || !inside.next(p.Index) {
			return nil, bad("entry %d is not a record between the registration and the end of the attempt, in order", p.Index)
		}
		a.Records = append(a.Records, Record{p.Index, p.Head, r})
	}
	inside = between{ends[0].Index, ends[1].Index}
	for _, p := range draws {
		d, ok := p.Body.(*evidence.JudgeDrawn)
		if !ok || !inside.next(p.Index) {
			return nil, bad("entry %d is not a draw between the registration and the end of the attempt, in order", p.Index)
		}
		a.Draws = append(a.Draws, Draw{p.Index, d})
	}
	inside = between{ends[0].Index, x.tree.Size}
	for _, p := range dispositions {
		d, ok := p.Body.(*evidence.AuditDisposed)
		if !ok || !inside.next(p.Index) {
			return nil, bad("entry %d is not a disposition after the registration of the attempt, in order", p.Index)
		}
		a.Dispositions = append(a.Dispositions, Disposed{p.Index, d})
	}
	inside = between{ends[0].Index, x.tree.Size}
	scored := a.records()
	for _, p := range beside {
		if !isBeside(p.Body) || !about(p.Body, a.Registered, scored) || !inside.next(p.Index) {
			return nil, bad("entry %d is not a correction or an amendment of a record of the attempt, in order", p.Index)
		}
		a.Beside = append(a.Beside, Beside{p.Index, p.Entry.Time, p.Body})
	}
	return a, x.span(a, ends[0].Index, len(rest) > 0)
}

// isBeside reports whether an entry sets a score beside a record.
func isBeside(body evidence.Body) bool {
	kind := body.Kind()
	return kind == evidence.ScoreCorrectedKind || kind == evidence.ScoreAmendedKind
}

// records are the entries of the attempt's records.
func (a *Source) records() map[int64]bool {
	out := map[int64]bool{}
	for _, r := range a.Records {
		out[r.Entry] = true
	}
	return out
}

// between are indexes of which each comes after the one before.
type between struct{ after, before int64 }

func (b *between) next(index int64) bool {
	ok := index > b.after && index < b.before
	b.after = index
	return ok
}

// span looks at every entry from the registration to the end of the tree, if all
// of them are shown, and refuses a package that leaves out what is about the
// attempt, or a registration of the class. So the numbers are exact for the tree:
// not because the operator says so, but because every entry was seen. If
// those before the registration are shown, too, that holds for the whole tree;
// otherwise what was before is numbered by the ledger.
func (x *proofs) span(a *Source, from int64, shown bool) error {
	told, records := a.told(), a.records()
	for _, i := range slices.Sorted(maps.Keys(x.proved)) {
		if p := x.proved[i]; about(p.Body, a.Registered, records) && !p.Entry.Manual && !told[i] && !x.counted(p, a) {
			return bad("entry %d (%s) is about the attempt or its class, and the package does not count it", i, p.Entry.Kind)
		}
	}
	missing := x.missing(from, x.tree.Size)
	if missing >= 0 && shown {
		return bad("entry %d, between the registration and the end of the tree, is left out", missing)
	}
	a.Exact = missing < 0
	a.Whole = a.Exact && x.missing(0, from) < 0
	return nil
}

// missing is the first entry of a stretch of the tree that is not shown, -1 if all
// are.
func (x *proofs) missing(from, to int64) int64 {
	for i := from; i < to; i++ {
		if x.proved[i] == nil {
			return i
		}
	}
	return -1
}

// told are the entries that an attempt is made of, by index, but for
// registrations.
func (a *Source) told() map[int64]bool {
	told := a.records()
	for _, b := range a.Beside {
		told[b.Entry] = true
	}
	for _, d := range a.Draws {
		told[d.Entry] = true
	}
	for _, d := range a.Dispositions {
		told[d.Entry] = true
	}
	return told
}

// counted reports whether an entry is a registration that is counted, or the end of
// the attempt.
func (x *proofs) counted(p *ledger.Proved, a *Source) bool {
	switch b := p.Body.(type) {
	case *evidence.AttemptRegistered:
		return x.class[p.Index]
	case *evidence.AttemptFinished:
		return b == a.Finished
	}
	return false
}

// about reports whether an entry says something that a package tells: a
// registration of the class, or a record, a draw, the end or a disposition of the
// attempt, or what sets another score beside one of its records.
func about(body evidence.Body, of *evidence.AttemptRegistered, records map[int64]bool) bool {
	switch b := body.(type) {
	case *evidence.AttemptRegistered:
		return b.Class == of.Class
	case *evidence.CaseScored:
		return b.Attempt == of.Attempt
	case *evidence.JudgeDrawn:
		return b.Attempt == of.Attempt
	case *evidence.AttemptFinished:
		return b.Attempt == of.Attempt
	case *evidence.AuditDisposed:
		return b.Attempt == of.Attempt
	case *evidence.ScoreCorrected:
		return b.Attempt == of.Attempt
	case *evidence.ScoreAmended:
		return records[b.Entry]
	}
	return false
}

// all reads the files of a name, of which there must be one.
func (x *proofs) all(name string) []*ledger.Proved {
	out := x.some(name)
	if len(out) == 0 && x.err == nil {
		x.err = bad("%s is missing", proofFile(name, 0))
	}
	return out
}

// some reads the files of a name, of which there may be none. What a person put
// into the ledger by hand is not a record.
func (x *proofs) some(name string) []*ledger.Proved {
	var out []*ledger.Proved
	for n := 0; x.err == nil; n++ {
		data, ok := x.files[proofFile(name, n)]
		if !ok {
			break
		}
		x.used[proofFile(name, n)] = true
		proved, err := ledger.VerifyProofs(data, x.policy)
		if err != nil {
			x.err = notVerified(proofFile(name, n), err)
			break
		}
		if x.tree == nil {
			x.tree = proved[0].Checkpoint
		}
		if c := proved[0].Checkpoint; c.Origin != x.tree.Origin || c.Size != x.tree.Size || c.Root != x.tree.Root {
			x.err = bad("%s is for another tree than the other receipts", proofFile(name, n))
		}
		for _, p := range proved {
			if p.Entry.Manual && name != "rest" {
				x.err = bad("entry %d was put into the ledger by hand", p.Index)
			}
			x.proved[p.Index] = p
		}
		out = append(out, proved...)
	}
	return out
}
