package evidence

import (
	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

// A Kind says what a record is about.
type Kind string

// The kinds of records. The set is closed: it is part of what is attested.
const (
	LedgerOpened           Kind = "ledger.opened"
	SignersChangedKind     Kind = "signers.changed"
	KeyPublishedKind       Kind = "key.published"
	AttemptRegisteredKind  Kind = "attempt.registered"
	CaseStartedKind        Kind = "case.started"
	CaseScoredKind         Kind = "case.scored"
	AttemptFinishedKind    Kind = "attempt.finished"
	AttemptReproducedKind  Kind = "attempt.reproduced"
	AttemptNamedKind       Kind = "attempt.named"
	ScoreAmendedKind       Kind = "score.amended"
	ScoreCorrectedKind     Kind = "score.corrected"
	ReviewLabelledKind     Kind = "review.labelled"
	JudgeDrawnKind         Kind = "judge.drawn"
	JudgeCalibratedKind    Kind = "judge.calibrated"
	CassetteRecordedKind   Kind = "cassette.recorded"
	ReplyDrawnKind         Kind = "reply.drawn"
	CasePendingKind        Kind = "case.pending"
	CaseAcceptedKind       Kind = "case.accepted"
	AnchorPublishedKind    Kind = "anchor.published"
	IntegrityEventKind     Kind = "integrity.event"
	RecommendationKind     Kind = "promotion.recommendation.emitted"
	ApplyBlockedKind       Kind = "promotion.apply.blocked"
	CredentialIssuedKind   Kind = "credential.issued"
	CredentialRevokedKind  Kind = "credential.revoked"
	AuditDisposedKind      Kind = "audit.disposed"
	RegistryConfiguredKind Kind = "registry.configured"
	RegistryAgentKind      Kind = "registry.agent"
	RegistryAPIKeyKind     Kind = "registry.api_key"
	RegistryJudgeKind      Kind = "registry.judge"
	RegistryCalibratedKind Kind = "registry.calibrated"
	RegistryProposedKind   Kind = "registry.proposed"
	RegistryDrawnKind      Kind = "registry.drawn"
	RegistryJudgedKind     Kind = "registry.judged"
	RegistryDecidedKind    Kind = "registry.decided"
	RegistryTakenDownKind  Kind = "registry.taken_down"
	NoteKind               Kind = "note"
)

// records has every kind, in the order of the documentation. A new kind is a
// line here and a type with the methods of [Body]; everything that goes over
// all kinds goes over this list.
var records = []row{
	{func() Body { return new(Opened) }, history},
	{func() Body { return new(SignersChanged) }, history},
	{func() Body { return new(KeyPublished) }, aside},
	{func() Body { return new(AttemptRegistered) }, history},
	{func() Body { return new(CaseStarted) }, history},
	{func() Body { return new(CaseScored) }, history},
	{func() Body { return new(AttemptFinished) }, history},
	{func() Body { return new(AttemptReproduced) }, history},
	{func() Body { return new(AttemptNamed) }, history},
	{func() Body { return new(ScoreAmended) }, history},
	{func() Body { return new(ScoreCorrected) }, history},
	{func() Body { return new(ReviewLabelled) }, history},
	{func() Body { return new(JudgeDrawn) }, history},
	{func() Body { return new(JudgeCalibrated) }, history},
	{func() Body { return new(CassetteRecorded) }, history},
	{func() Body { return new(ReplyDrawn) }, aside},
	{func() Body { return new(CasePending) }, history},
	{func() Body { return new(CaseAccepted) }, history},
	{func() Body { return new(AnchorPublished) }, history},
	{func() Body { return new(IntegrityEvent) }, history},
	{func() Body { return new(Recommendation) }, aside},
	{func() Body { return new(ApplyBlocked) }, aside},
	{func() Body { return new(CredentialIssued) }, aside},
	{func() Body { return new(CredentialRevoked) }, aside},
	{func() Body { return new(AuditDisposed) }, aside},
	{func() Body { return new(RegistryConfigured) }, aside},
	{func() Body { return new(RegistryAgent) }, aside},
	{func() Body { return new(RegistryAPIKey) }, aside},
	{func() Body { return new(RegistryJudge) }, aside},
	{func() Body { return new(RegistryCalibrated) }, aside},
	{func() Body { return new(RegistryProposed) }, aside},
	{func() Body { return new(RegistryDrawn) }, aside},
	{func() Body { return new(RegistryJudged) }, aside},
	{func() Body { return new(RegistryDecided) }, aside},
	{func() Body { return new(RegistryTakenDown) }, aside},
	{func() Body { return new(Note) }, aside},
}

const (
	history = true
	aside   = false
)

// A Body is a record without its envelope.
type Body interface {
	// Kind is the kind of the record.
	Kind() Kind

	// Validate checks everything about the shape that the types do not say.
	Validate() error
}

// A row is what is known of a kind besides its type.
type row struct {
	empty   func() Body
	history bool // see [Kind.InHistory]
}

var rows = func() map[Kind]row {
	m := make(map[Kind]row, len(records))
	for _, r := range records {
		m[r.empty().Kind()] = r
	}
	return m
}()

// Kinds lists every kind in the order of the documentation.
func Kinds() []Kind {
	var kinds []Kind
	for _, r := range records {
		kinds = append(kinds, r.empty().Kind())
	}
	return kinds
}

// NewBody returns an empty record of the kind, nil if there is no such kind.
func NewBody(k Kind) Body {
	if r, ok := rows[k]; ok {
		return r.empty()
	}
	return nil
}

// Known reports whether k is one of the kinds.
func (k Kind) Known() bool { return rows[k].empty != nil }

// InHistory reports whether records of the kind say something about attempts,
// their people or the ledger's own past, which a reader who counts scores must
// know.
func (k Kind) InHistory() bool { return rows[k].history }

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
	b := NewBody(k)
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
