package answer

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/read/difference"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/agent"
)

// A Part is one thing besides the outcomes in which two attempts differ: a file or a
// setting of the target, a parameter, the bench, the recordings.
type Part struct {
	What     string
	Was, Now string // in a few words; "" where Diff says it
	// Diff is how its text differs, by lines if it is a file and by words if it is a
	// setting; nil where no text of it is at hand, and Note says why.
	Diff  *difference.Difference
	Lines bool
	Note  string
	// Target says that it belongs to the agent under test.
	Target bool
}

// maxPartBytes bounds a text that is compared for people.
const maxPartBytes = 256 << 10

// Apart lists in what two attempts differ, what is of the target first. Of the target it
// tells the files and settings that the evidence has, or that the workspace still has
// as they were; of the others it says that only their digests are known.
func Apart(a, b *dossier.Dossier) []Part {
	p := &parting{a: newHeld(a), b: newHeld(b)}
	defer p.a.close()
	defer p.b.close()
	p.target()
	p.plans()
	return p.parts
}

// targetApart lists in what the target differs between two attempts.
func targetApart(a, b *dossier.Dossier) []Part {
	p := &parting{a: newHeld(a), b: newHeld(b)}
	defer p.a.close()
	defer p.b.close()
	p.target()
	return p.parts
}

type parting struct {
	a, b  *held
	parts []Part
}

func (p *parting) add(what, was, now string) {
	if was != now {
		p.parts = append(p.parts, Part{What: what, Was: was, Now: now})
	}
}

// target adds what differs of the agent under test.
func (p *parting) target() {
	before := len(p.parts)
	a, b := p.a.Attempt, p.b.Attempt
	if a.Target != b.Target && len(a.Plan.Parameters)+len(b.Plan.Parameters) == 0 {
		p.add("target", a.Target, b.Target)
	}
	p.parameters()
	if a.Plan.TargetDigest != b.Plan.TargetDigest {
		p.settings()
		if p.files(); len(p.parts) == before {
			p.parts = append(p.parts, Part{What: "files of the target", Note: p.unknown()})
		}
	}
	for i := before; i < len(p.parts); i++ {
		p.parts[i].Target = true
	}
}

// unknown says why no text of the target can be compared.
func (p *parting) unknown() string {
	var without []string
	for _, h := range []*held{p.a, p.b} {
		if h.settings == nil {
			without = append(without, h.Attempt.ID)
		}
	}
	if len(without) == 0 {
		return "the settings are the same; what differs is known only by its digest"
	}
	return fmt.Sprintf("only digests are known: the target as it was in %s is neither in the evidence nor in the workspace any more", strings.Join(without, " and "))
}

// parameters are those of variants.
func (p *parting) parameters() {
	was, now := parametersOf(p.a.Attempt), parametersOf(p.b.Attempt)
	for _, name := range bothNames(was, now) {
		x, y := was[name], now[name]
		if x.Value == y.Value && sameDigest(x.Digest, y.Digest) {
			continue
		}
		part := Part{What: name, Was: orNothing(x.Value), Now: orNothing(y.Value)}
		if x.Value == y.Value { // one file that was edited
			part.Was, part.Now = "", ""
		}
		if x.Digest != nil && y.Digest != nil {
			part.Lines = true
			part.Diff, part.Note = diffOf(p.a.file(*x.Digest, x.Value), p.b.file(*y.Digest, y.Value))
		}
		p.parts = append(p.parts, part)
	}
}

func parametersOf(a *history.Attempt) map[string]evidence.PlannedParameter {
	all := map[string]evidence.PlannedParameter{}
	for _, x := range a.Plan.Parameters {
		all[x.Name] = x
	}
	return all
}

// bothNames are the names that either has, in order.
func bothNames[T any](a, b map[string]T) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func sameDigest(a, b *digest.Content) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func orNothing(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// settings are what a target's file says, member by member.
func (p *parting) settings() {
	if p.a.settings == nil || p.b.settings == nil {
		return
	}
	was, now := leavesOf(p.a.settings), leavesOf(p.b.settings)
	for _, name := range bothNames(was, now) {
		if was[name] == now[name] || strings.HasPrefix(name, "parameters") || name == "files" || p.isParameter(name) {
			continue
		}
		x, inWas := was[name]
		y, inNow := now[name]
		_, what, found := strings.Cut(name, ".")
		if !found {
			what = name
		}
		part := Part{What: what}
		if inWas && inNow && (isLong(x) || isLong(y)) {
			part.Diff, part.Note = diffOf(&x, &y)
			if d := difference.Words(x, y); part.Diff != nil {
				part.Diff = &d
			}
		} else {
			part.Was, part.Now = orNothing(x), orNothing(y)
		}
		p.parts = append(p.parts, part)
	}
}

// isParameter reports whether a setting of the built-in agent is what a parameter put
// there, which is told as that.
func (p *parting) isParameter(name string) bool {
	_, setting, _ := strings.Cut(name, ".")
	for _, part := range p.parts {
		ofBoth := part.Was != orNothing("") && part.Now != orNothing("")
		if ofBoth && (part.What == setting || part.What == "prompt_file" && setting == "system") {
			return true
		}
	}
	return false
}

// isLong reports whether a setting is a text more than a value.
func isLong(s string) bool { return len(s) > 40 || strings.Contains(s, "\n") }

// leavesOf are the values of a JSON document that are no objects, by path.
func leavesOf(data []byte) map[string]string {
	var doc any
	all := map[string]string{}
	if json.Unmarshal(data, &doc) != nil {
		return all
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				walk(strings.TrimPrefix(path+"."+name, "."), member)
			}
		case string:
			all[path] = v
		default:
			text, _ := json.Marshal(v)
			all[path] = string(text)
		}
	}
	walk("", doc)
	return all
}

// files are those of the program of a target.
func (p *parting) files() {
	was, knownA := p.a.files()
	now, knownB := p.b.files()
	if !knownA || !knownB {
		if x, y := p.a.treeDigest(), p.b.treeDigest(); x != y {
			p.parts = append(p.parts, Part{What: "files of the program", Note: "only digests are known: the evidence does not have the files of both, and the workspace has other ones now"})
		}
		return
	}
	for _, name := range bothNames(was, now) {
		x, inWas := was[name]
		y, inNow := now[name]
		switch {
		case !inWas:
			p.parts = append(p.parts, Part{What: name, Now: "new", Was: "none"})
		case !inNow:
			p.parts = append(p.parts, Part{What: name, Was: "there", Now: "removed"})
		case x != y:
			part := Part{What: name, Lines: true}
			part.Diff, part.Note = diffOf(&x, &y)
			p.parts = append(p.parts, part)
		}
	}
}

// diffOf compares two texts by lines; nil and why if that cannot be done.
func diffOf(was, now *string) (*difference.Difference, string) {
	switch {
	case was == nil || now == nil:
		return nil, "only digests are known: the text is neither in the evidence nor in the workspace any more"
	case len(*was) > maxPartBytes || len(*now) > maxPartBytes:
		return nil, "it is too long to be shown"
	case !isText(*was) || !isText(*now):
		return nil, "it is not a text"
	}
	d := difference.Lines(*was, *now)
	return &d, ""
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// plans adds what else the two plans fix differently.
func (p *parting) plans() {
	a, b := p.a.Attempt, p.b.Attempt
	x, y := &a.Plan, &b.Plan
	p.add("class", a.Class, b.Class)
	changed := func(what string, differs bool) {
		if differs {
			p.parts = append(p.parts, Part{What: what, Note: "its digest differs"})
		}
	}
	changed("cases, rubric or limits of the bench", a.Class == b.Class && x.ScoringDigest != y.ScoringDigest)
	changed("tiers, thresholds or gates", a.Class == b.Class && x.RegistrationDigest != y.RegistrationDigest && x.ScoringDigest == y.ScoringDigest)
	changed("rubric", !sameDigest(x.RubricDigest, y.RubricDigest))
	changed("judge", !sameDigest(x.JudgeDigest, y.JudgeDigest))
	changed("what judges are asked", !sameDigest(x.JudgesDigest, y.JudgesDigest) || !sameDigest(x.JudgeQuestion, y.JudgeQuestion))
	changed("who plays users", !sameDigest(x.UserDigest, y.UserDigest))
	p.add("mode", a.Mode, b.Mode)
	p.add("repetitions", fmt.Sprint(x.Repeat), fmt.Sprint(y.Repeat))
	if x.AgentRoot != nil || y.AgentRoot != nil {
		p.add("root file system of the agent", digestedRoot(x.AgentRoot), digestedRoot(y.AgentRoot))
	}
	recordings, context := 0, map[[3]string]bool{}
	before := map[string]*history.Case{}
	for c := range a.Cases() {
		before[fmt.Sprint(c.ID, c.Repeat)] = c
	}
	for c := range b.Cases() {
		was := before[fmt.Sprint(c.ID, c.Repeat)]
		if was == nil {
			continue
		}
		if !sameDigest(was.Cassette, c.Cassette) {
			recordings++
		}
		if was.Context != nil && c.Context != nil {
			context[[3]string{"version of tally", was.Context.HarnessVersion, c.Context.HarnessVersion}] = true
			context[[3]string{"isolation", was.Context.Isolation, c.Context.Isolation}] = true
		}
	}
	if recordings > 0 {
		p.parts = append(p.parts, Part{What: "recordings", Note: fmt.Sprintf("of %d cases they differ", recordings)})
	}
	all := slices.SortedFunc(maps.Keys(context), func(x, y [3]string) int { return slices.Compare(x[:], y[:]) })
	for _, c := range all {
		p.add(c[0], c[1], c[2])
	}
}

// A held is an attempt with what is known of its target as it was then.
type held struct {
	*dossier.Dossier
	root     *os.Root      // of the workspace; nil if it cannot be opened
	present  *agent.Target // in the workspace, if it is the same still
	settings []byte        // nil if they are not known
}

func newHeld(d *dossier.Dossier) *held {
	h := &held{Dossier: d}
	h.root, _ = os.OpenRoot(d.Reading().Dir)
	if h.root != nil {
		h.present = presentTarget(h.root, d.Attempt)
	}
	if data, ok := d.Reading().Content(d.Plan.TargetDigest); ok {
		h.settings = data
	} else if h.present != nil {
		h.settings, _ = h.present.Settings()
	}
	return h
}

func (h *held) close() {
	if h.root != nil {
		h.root.Close()
	}
}

// presentTarget is the target of the workspace, if it is the one that the attempt ran.
func presentTarget(root *os.Root, a *history.Attempt) *agent.Target {
	all, err := agent.LoadAll(root, a.Target)
	if err != nil {
		return nil
	}
	for _, t := range all {
		if t.Digest == a.Plan.TargetDigest {
			return t
		}
	}
	return nil
}

// file is a text by its digest: of the evidence, or of the workspace if it is the same
// there; nil if neither has it.
func (h *held) file(d digest.Content, path string) *string {
	data, ok := h.Reading().Content(d)
	if !ok && h.root != nil {
		f, err := h.root.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, maxPartBytes+1))
		ok = err == nil && digest.ContentOf(data) == d
	}
	if !ok {
		return nil
	}
	text := string(data)
	return &text
}

// treeDigest names the files of the program, as the settings have it.
func (h *held) treeDigest() string { return leavesOf(h.settings)["files"] }

// files are those of the program, by path; false if they are not known.
func (h *held) files() (map[string]string, bool) {
	all := map[string]string{}
	if h.present != nil {
		for _, f := range h.present.Files() {
			all[f.Path] = string(f.Data)
		}
		return all, true
	}
	if h.Plan.Sources != nil {
		return h.sources(*h.Plan.Sources)
	}
	named := h.treeDigest()
	if named == "" {
		return all, h.settings != nil // it has none
	}
	d, err := digest.ParseContent(named)
	if err != nil {
		return nil, false
	}
	data, ok := h.Reading().Content(d)
	if !ok {
		return nil, false
	}
	return all, readTar(data, all) == nil
}

// sources are the files that an attempt listed which was recorded for a submission.
func (h *held) sources(list digest.Content) (map[string]string, bool) {
	data, ok := h.Reading().Content(list)
	var named evidence.Sources
	if !ok || canon.Unmarshal(data, &named) != nil {
		return nil, false
	}
	all := map[string]string{}
	for _, f := range named.Files {
		path, ours := strings.CutPrefix(f.Path, "target/")
		if !ours {
			continue
		}
		data, ok := h.Reading().Content(f.Digest)
		if !ok {
			return nil, false
		}
		all[path] = string(data)
	}
	return all, true
}

// readTar reads the files of a tree as its digest covers them.
func readTar(data []byte, into map[string]string) error {
	r := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		into[header.Name] = string(text)
	}
}
