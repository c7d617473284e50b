package evidence

import (
	"tallystick/internal/canon"
	"tallystick/internal/refusal"
)

// A Kind says what a record is about.
type Kind string

// The kinds of records. The set is closed: it is part of what is attested.
const (
	LedgerOpened          Kind = "ledger.opened"
	SignersChangedKind    Kind = "signers.changed"
	KeyPublishedKind      Kind = "key.published"
	AttemptRegisteredKind Kind = "attempt.registered"
	CaseStartedKind       Kind = "case.started"
	CaseScoredKind        Kind = "case.scored"
	AttemptFinishedKind   Kind = "attempt.finished"
	AttemptReproducedKind Kind = "attempt.reproduced"
	ScoreAmendedKind      Kind = "score.amended"
	JudgeDrawnKind        Kind = "judge.drawn"
	CassetteRecordedKind  Kind = "cassette.recorded"
	CasePendingKind       Kind = "case.pending"
	CaseAcceptedKind      Kind = "case.accepted"
	AnchorPublishedKind   Kind = "anchor.published"
	IntegrityEventKind    Kind = "integrity.event"
	RecommendationKind    Kind = "promotion.recommendation.emitted"
	ApplyBlockedKind      Kind = "promotion.apply.blocked"
	NoteKind              Kind = "note"
)

// Kinds lists every kind in the order of the documentation.
func Kinds() []Kind {
	return []Kind{
		LedgerOpened, SignersChangedKind, KeyPublishedKind,
		AttemptRegisteredKind, CaseStartedKind, CaseScoredKind, AttemptFinishedKind,
		AttemptReproducedKind, ScoreAmendedKind, JudgeDrawnKind, CassetteRecordedKind,
		CasePendingKind, CaseAcceptedKind, AnchorPublishedKind, IntegrityEventKind,
		RecommendationKind, ApplyBlockedKind, NoteKind,
	}
}

// A Body is a record without its envelope.
type Body interface {
	// Validate checks everything about the shape that the types do not say.
	Validate() error
}

// newBody returns an empty record of the kind.
func newBody(k Kind) Body {
	switch k {
	case LedgerOpened:
		return new(Opened)
	case SignersChangedKind:
		return new(SignersChanged)
	case KeyPublishedKind:
		return new(KeyPublished)
	case AttemptRegisteredKind:
		return new(AttemptRegistered)
	case CaseStartedKind:
		return new(CaseStarted)
	case CaseScoredKind:
		return new(CaseScored)
	case AttemptFinishedKind:
		return new(AttemptFinished)
	case AttemptReproducedKind:
		return new(AttemptReproduced)
	case ScoreAmendedKind:
		return new(ScoreAmended)
	case JudgeDrawnKind:
		return new(JudgeDrawn)
	case CassetteRecordedKind:
		return new(CassetteRecorded)
	case CasePendingKind:
		return new(CasePending)
	case CaseAcceptedKind:
		return new(CaseAccepted)
	case AnchorPublishedKind:
		return new(AnchorPublished)
	case IntegrityEventKind:
		return new(IntegrityEvent)
	case RecommendationKind:
		return new(Recommendation)
	case ApplyBlockedKind:
		return new(ApplyBlocked)
	case NoteKind:
		return new(Note)
	}
	return nil
}

// Known reports whether k is one of the kinds.
func (k Kind) Known() bool { return newBody(k) != nil }

// ParseBody reads a record of the given kind as a person or a program spells
// it, and returns it with its canonical bytes. All members must be there that
// are not optional.
func ParseBody(k Kind, data []byte) (Body, []byte, error) {
	canonical, err := canon.Canonicalize(data)
	if err != nil {
		return nil, nil, err
	}
	b, err := DecodeBody(k, canonical)
	return b, canonical, err
}

// DecodeBody decodes and validates the canonical bytes of a record of the
// given kind.
func DecodeBody(k Kind, data []byte) (Body, error) {
	b := newBody(k)
	if b == nil {
		return nil, refusal.Newf(refusal.UnknownKind, "no entry kind %q", string(k)).
			WithHint("kinds: %s", kindList())
	}
	if err := canon.UnmarshalCanonical(data, b); err != nil {
		return nil, err
	}
	if err := b.Validate(); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %w", k, err)
	}
	if err := CheckDepth(k, data); err != nil {
		return nil, err
	}
	return b, nil
}

func kindList() string {
	s := ""
	for i, k := range Kinds() {
		if i > 0 {
			s += ", "
		}
		s += string(k)
	}
	return s
}
