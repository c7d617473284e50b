package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"tallystick/internal/read/step"
	"tallystick/internal/record/refusal"
)

// maxBody bounds a body, which is read whole: an answer may be anywhere in it.
const maxBody = 256 << 20

// body reads the whole text of a step if there is one, adds what it holds, and
// holds the recorder's claims against it.
func (l *leak) body(i int, s *step.Text, f *fetched) (bool, error) {
	data, err := l.w.a.body(s)
	if data == nil || err != nil {
		return false, err
	}
	b := l.w.see(data, l.task)
	f.own |= b.own
	f.gold = f.gold || b.gold
	f.record = f.record || b.record
	f.known |= b.known
	f.answers = max(f.answers, b.answers)
	f.tooMany = f.tooMany || b.tooMany
	for _, o := range b.others {
		f.addOther(o)
	}
	for _, at := range s.Hits {
		if !l.own.gold.IsAt(data, at) {
			l.lies = append(l.lies, fmt.Sprintf("task %s: step %d: gold_hits names byte %d of the body %s, which does not hold the answer", l.own.id, i, at, s.SHA256))
		}
	}
	if s.Scanned && len(s.Hits) == 0 && b.gold && !l.own.gold.Weak {
		l.lies = append(l.lies, fmt.Sprintf("task %s: step %d: gold_hits says that the body %s does not hold the answer, and it does", l.own.id, i, s.SHA256))
	}
	return true, nil
}

// body reads the whole text of a step; nil if it is not at hand. Bytes that do not
// have the digest are not what was recorded, whatever they are.
func (a *auditor) body(s *step.Text) ([]byte, error) {
	if a.in.Bodies == nil || s.SHA256 == "" || s.Salted {
		return nil, nil
	}
	name := hexOf(s.SHA256)
	if raw, err := hex.DecodeString(name); err != nil || len(raw) != sha256.Size {
		return nil, nil
	}
	f, err := a.in.Bodies(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "body %s: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBody+1))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "body %s: %w", name, err)
	}
	if len(data) > maxBody {
		return nil, refusal.Newf(refusal.TooLarge, "body %s: more than %d bytes", name, maxBody)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, refusal.Newf(refusal.DigestMismatch, "body %s: its SHA-256 is %x", name, sum).WithHint("this is not the text that was recorded; get the body from the recorder of the trajectory")
	}
	if len(data) == 0 {
		data = []byte{}
	}
	return data, nil
}

func hexOf(sum string) string {
	if len(sum) == 7+64 && sum[:7] == "sha256:" {
		return sum[7:]
	}
	return sum
}

// demand lists the bodies that would settle what is only claimed.
func (l *leak) demand(i int, s *step.Text, f *fetched, whole bool) {
	if whole || s.SHA256 == "" || s.Salted {
		return
	}
	reason := ""
	for _, at := range s.Hits {
		if !l.own.gold.IsAt(s.Text, at) {
			reason = fmt.Sprintf("gold_hits names byte %d, which is not recorded", at)
			break
		}
	}
	if reason == "" && s.Cut && !s.Scanned && !f.gold && l.w.a.index.holdsQuestion(l.task, f.own&^l.echo) {
		reason = "the recorded beginning holds the question, and nobody looked for the answer in the rest"
	}
	if reason == "" && s.Cut && !s.Scanned && f.known != 0 {
		reason = "the recorded beginning names a known answer database, and nobody looked for the answer in the rest"
	}
	if reason != "" {
		l.o.demands = append(l.o.demands, BodyDemand{TaskID: l.own.id, Step: i, SHA256: hexOf(s.SHA256), Reason: reason})
	}
}

// demanded is the list of bodies, in order.
func (a *auditor) demanded() []BodyDemand {
	slices.SortStableFunc(a.demands, func(x, y BodyDemand) int {
		return cmp.Or(cmp.Compare(x.TaskID, y.TaskID), cmp.Compare(x.Step, y.Step))
	})
	return append([]BodyDemand{}, a.demands...)
}
