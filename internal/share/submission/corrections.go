package submission

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/seal"
)

// A Beside is an entry that sets another score beside a record: people corrected
// it (score.corrected), or it was graded again (score.amended). The record stays.
type Beside struct {
	Entry int64
	Time  evidence.Time
	Body  evidence.Body
}

// record is the entry of the record that it is about.
func (s *Beside) record() int64 {
	switch b := s.Body.(type) {
	case *evidence.ScoreCorrected:
		return b.Entry
	case *evidence.ScoreAmended:
		return b.Entry
	}
	return -1
}

// A Correction is such an entry in the words of a package.
type Correction struct {
	At evidence.Time `json:"at"`
	// By are the keys that signed a correction, or the author that an amendment
	// names. Whose keys they are the signers file says, which a package has not.
	By      []string `json:"by"`
	Entry   int64    `json:"entry"`
	Ignored string   `json:"ignored,omitempty"` // why it does not count
	Kind    string   `json:"kind"`
	Passed  bool     `json:"passed"`
	Reason  string   `json:"reason"`
	Repeat  int      `json:"repeat"` // of the record
	Score   float64  `json:"score"`
	// Was is what the record says.
	Was evidence.Mark `json:"was"`
}

// CorrectedHeadline is the headline with every correction that counts.
type CorrectedHeadline struct {
	PassRate *float64    `json:"pass_rate"`
	Passed   int         `json:"passed"`
	CI95     *[2]float64 `json:"ci95"`
	Unscored int         `json:"unscored"`
	Entries  int         `json:"entries"` // corrections and amendments of the attempt
	Ignored  int         `json:"ignored"` // of them those that do not count
}

// Text is the corrected result for a person.
func (c *CorrectedHeadline) Text(n int) string {
	result := "unscored"
	if c.PassRate != nil {
		result = fmt.Sprintf("pass rate %s, %d of n = %d, 95 %% interval %.4f to %.4f", plain.Score(*c.PassRate, 4), c.Passed, n, c.CI95[0], c.CI95[1])
	}
	return fmt.Sprintf("%s (%d corrections and amendments, of which %d do not count)", result, c.Entries, c.Ignored)
}

// basisRecorded says that the headline counts what the records say.
const basisRecorded = "recorded"

// settled is what stands beside one record after all entries about it, by the rules
// of package history, but for one: history wants the person of a key among the
// signers, and a package does not know people.
type settled struct {
	list      []Correction
	amendment *amendment
	corrected *correction
}

type amendment struct {
	entry         int64
	passed, fills bool
}

type correction struct {
	last    int64 // entry
	number  int
	passed  bool
	message digest.ID
	signers map[string]bool
}

// settle reads the entries beside a record, in their order.
func (a *Source) settle(r Record) (*settled, error) {
	s := &settled{}
	for i := range a.Beside {
		e := &a.Beside[i]
		if e.record() != r.Entry {
			continue
		}
		line := Correction{At: e.Time, By: []string{}, Entry: e.Entry, Kind: string(e.Body.Kind()), Repeat: r.Repeat, Was: evidence.Mark{Outcome: r.Outcome}}
		if r.Score != nil {
			line.Was.Scored, line.Was.Score = true, r.Score.Score
		}
		switch b := e.Body.(type) {
		case *evidence.ScoreAmended:
			line.By, line.Passed, line.Score, line.Reason = []string{b.Author}, b.Score.Passed, b.Score.Score, b.Reason
			line.Ignored = s.amend(r, e.Entry, b)
		case *evidence.ScoreCorrected:
			line.Passed, line.Score, line.Reason = b.Now.Passed, b.Now.Score, b.Reason
			keys, why := signersOf(b)
			if keys != nil {
				line.By = keys
			}
			if why == "" {
				var err error
				if why, err = s.correct(a, r, e.Entry, b, keys); err != nil {
					return nil, err
				}
			}
			line.Ignored = why
		}
		s.list = append(s.list, line)
	}
	return s, nil
}

// amend sets an amendment beside the record. It may lower a score, and gives an
// unscored record its first one; it says why it does neither.
func (s *settled) amend(r Record, entry int64, b *evidence.ScoreAmended) string {
	filled := s.filled(r)
	next := &amendment{entry, b.Score.Passed, b.Fills}
	if filled {
		next.passed, next.fills = s.amendment.passed && next.passed, true
	}
	s.amendment = next
	scored := r.Outcome == evidence.Passed || r.Outcome == evidence.Failed
	if !s.filled(r) && (b.Score.Passed && r.Outcome != evidence.Passed || !scored || r.Score != nil && b.Score.Score > r.Score.Score) {
		return "an amendment lowers a score, or is the first of an unscored record"
	}
	return ""
}

// filled reports whether an unscored record got its score later.
func (s *settled) filled(r Record) bool {
	return r.Outcome == evidence.Unscored && s.amendment != nil && s.amendment.fills
}

// correct sets a correction beside the record, or adds a person to the last one. It
// says why it does neither. One whose number shows that another came before it,
// which is not there, makes the package one that hides something.
func (s *settled) correct(a *Source, r Record, entry int64, b *evidence.ScoreCorrected, keys []string) (ignored string, err error) {
	if why := a.misplaced(r, b); why != "" {
		return why, nil
	}
	message, err := b.Message()
	if err != nil {
		return "", err
	}
	const own = "it is signed only by the key that ran the attempt"
	others := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == a.runner() })
	last, id := s.corrected, digest.IDOf(message)
	if last != nil && last.message == id {
		if len(others) == 0 {
			return own, nil
		}
		if why := last.sign(others); why != "" {
			return why, nil
		}
		last.last = entry
		return "", nil
	}
	number := 1
	if last != nil {
		number = last.number + 1
	}
	switch {
	case b.Number > number:
		return "", bad("entry %d is correction %d of the record in entry %d, and number %d is left out", entry, b.Number, r.Entry, number)
	case b.Number < number:
		return fmt.Sprintf("it was signed as correction %d of the record, and would be number %d", b.Number, number), nil
	case len(others) == 0:
		return own, nil
	}
	s.corrected = &correction{last: entry, number: number, passed: b.Now.Passed, message: id, signers: map[string]bool{}}
	s.corrected.sign(others)
	return "", nil
}

// sign adds signers to a correction.
func (c *correction) sign(keys []string) (ignored string) {
	before := len(c.signers)
	for _, k := range keys {
		c.signers[k] = true
	}
	if len(c.signers) == before {
		return "its signers have signed this correction already"
	}
	return ""
}

// misplaced says why a correction is not one of this record.
func (a *Source) misplaced(r Record, b *evidence.ScoreCorrected) string {
	was := evidence.Grade{Passed: r.Outcome == evidence.Passed}
	if r.Score != nil {
		was.Score = r.Score.Score
	}
	switch {
	case b.Sensible() != nil:
		return b.Sensible().Error()
	case b.Origin != a.Origin:
		return "it was signed for the ledger " + b.Origin
	case b.Head != r.Head:
		return fmt.Sprintf("it was signed for the head %s, the record has %s", b.Head, r.Head)
	case b.CaseID != r.CaseID || b.Repeat != r.Repeat:
		return fmt.Sprintf("it was signed for case %s, repetition %d", b.CaseID, b.Repeat)
	case r.Outcome != evidence.Passed && r.Outcome != evidence.Failed:
		return fmt.Sprintf("the record is %s and has no score to correct", r.Outcome)
	case b.Was != was:
		return "it says that the record has another score"
	}
	return ""
}

// openPGP stands for the key of an OpenPGP signature: only the signers file has it,
// so that a package cannot verify the signature.
const openPGP = "an OpenPGP key, which the package does not have"

// signersOf verifies the signatures of a correction, and names the keys.
func signersOf(b *evidence.ScoreCorrected) (keys []string, ignored string) {
	message, err := b.Message()
	if err != nil {
		return nil, err.Error()
	}
	for _, armored := range b.Signatures {
		if strings.HasPrefix(armored, "-----BEGIN PGP SIGNATURE-----") {
			keys = append(keys, openPGP)
			continue
		}
		key, err := seal.VerifySignature([]byte(armored), message, seal.NamespaceCorrection)
		if err != nil {
			return nil, fmt.Sprintf("a signature does not verify: %v", err)
		}
		keys = append(keys, key.Fingerprint())
	}
	return keys, ""
}

// runner is the key that signed the registration.
func (a *Source) runner() string {
	message, err := a.Registered.Message()
	if err != nil {
		return ""
	}
	key, err := seal.VerifySignature([]byte(a.Registered.Signature), message, seal.NamespaceAttempt)
	if err != nil {
		return ""
	}
	return key.Fingerprint()
}

// outcome is that of the record with all that stands beside it.
func (s *settled) outcome(r Record) evidence.Outcome {
	of := map[bool]evidence.Outcome{true: evidence.Passed, false: evidence.Failed}
	lowered := s.amendment != nil && !s.amendment.passed
	switch {
	case s.filled(r):
		return of[s.amendment.passed]
	case s.corrected != nil:
		return of[s.corrected.passed && !(lowered && s.amendment.entry > s.corrected.last)]
	case r.Outcome == evidence.Passed && lowered:
		return evidence.Failed
	}
	return r.Outcome
}

// besides tells what stands beside the records of a task, and whether the answer
// that is submitted counts as correct with it.
func (b *builder) besides(t *task, chosen *told) error {
	for _, r := range t.records {
		s, err := b.settle(r)
		if err != nil {
			return err
		}
		chosen.Corrections = append(chosen.Corrections, s.list...)
		if r.Entry == chosen.Entry {
			chosen.Corrected = correctness(s.outcome(r))
		}
	}
	if len(chosen.Corrections) == 0 {
		chosen.Corrected = nil
	}
	return nil
}

// correctness is whether an outcome counts as correct, nil if unknown.
func correctness(o evidence.Outcome) *bool {
	if o == evidence.Unscored {
		return nil
	}
	correct := o == evidence.Passed
	return &correct
}

// corrected is the headline with corrections, nil if there are none.
func (b *builder) corrected() *CorrectedHeadline {
	if len(b.Beside) == 0 {
		return nil
	}
	c := &CorrectedHeadline{Entries: len(b.Beside)}
	told, scored := 0, 0
	for _, t := range b.answers {
		if t == nil {
			continue
		}
		correct := t.Correct
		if len(t.Corrections) > 0 {
			correct = t.Corrected
		}
		if correct == nil {
			c.Unscored++
		} else {
			scored++
			if *correct {
				c.Passed++
			}
		}
		for _, one := range t.Corrections {
			told++
			if one.Ignored != "" {
				c.Ignored++
			}
		}
	}
	c.Ignored += c.Entries - told // of what is not a record
	c.PassRate, c.CI95 = rateOf(c.Passed, len(b.tasks), scored)
	return c
}

// rateOf is a pass rate with its interval; nil if nothing is scored. A task without
// a score counts as one that did not pass: n is what was planned.
func rateOf(passed, n, scored int) (*float64, *[2]float64) {
	if scored == 0 {
		return nil, nil
	}
	rate := float64(passed) / float64(n)
	lo, hi := wilson(rate, float64(n))
	return &rate, &[2]float64{lo, hi}
}
