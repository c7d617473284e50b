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
// All bodies of one trajectory together have the same bound; what is beyond it is
// not read, and a gap.
const maxBody = 256 << 20

// resolve puts the whole texts into the steps of a trajectory, where they have
// only a part or a digest and there is a body.
func (w *worker) resolve(t *step.Trajectory) error {
	if w.a.in.Bodies == nil {
		return nil
	}
	left := int64(maxBody)
	for i := range t.Steps {
		for _, x := range []*step.Text{&t.Steps[i].Shown, &t.Steps[i].Said} {
			if x.Whole() || x.SHA256 == "" || x.Salted {
				continue
			}
			data, err := w.a.body(x.SHA256, left)
			if err != nil {
				return err
			}
			if data != nil {
				left -= int64(len(data))
				x.Text, x.Body = data, true
			}
		}
	}
	return nil
}

// heldAgainst holds the recorder's claims about a text against its body.
func (l *leak) heldAgainst(i int, s *step.Text, gold bool) {
	for _, at := range s.Hits {
		if !l.own.gold.IsAt(s.Text, at) {
			l.lies = append(l.lies, fmt.Sprintf("task %s: step %d: gold_hits names byte %d of the body %s, which does not hold the answer", l.own.id, i, at, s.SHA256))
		}
	}
	if s.Scanned && len(s.Hits) == 0 && gold && l.own.decidable() {
		l.lies = append(l.lies, fmt.Sprintf("task %s: step %d: gold_hits says that the body %s does not hold the answer, and it does", l.own.id, i, s.SHA256))
	}
}

// body reads a whole text by its digest; nil if it is not at hand, or larger than
// what may still be read. Bytes that do not have the digest are not what was
// recorded, whatever they are.
func (a *auditor) body(sum string, most int64) ([]byte, error) {
	name := hexOf(sum)
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
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "body %s: %w", name, err)
	}
	if int64(len(data)) > maxBody {
		return nil, refusal.Newf(refusal.TooLarge, "body %s: more than %d bytes", name, maxBody)
	}
	if int64(len(data)) > most {
		return nil, nil
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
func (l *leak) demand(i int, s *step.Text, f *fetched) {
	if s.Whole() || s.SHA256 == "" || s.Salted {
		return
	}
	reason := ""
	for _, at := range s.Hits {
		if !l.own.gold.IsAt(s.Text, at) {
			reason = fmt.Sprintf("gold_hits names byte %d, which is not recorded", at)
			break
		}
	}
	if reason == "" && !s.Seen() && !f.gold && l.w.a.index.holdsQuestion(l.task, f.own&^l.echo) {
		reason = "the recorded beginning holds the question, and the recorder did not look for the answer in the rest"
	}
	if reason == "" && !s.Seen() && f.known != 0 {
		reason = "the recorded beginning names a known answer database, and the recorder did not look for the answer in the rest"
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
