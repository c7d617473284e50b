package refusal

// Could not do the work (exit 1).
const (
	Failed          Name = "Failed"
	Unreadable      Name = "Unreadable"
	Malformed       Name = "Malformed"
	NewerFormat     Name = "NewerFormat"
	TooLarge        Name = "TooLarge"
	NotFound        Name = "NotFound"
	AlreadyExists   Name = "AlreadyExists"
	WriteFailed     Name = "WriteFailed"
	DiskFull        Name = "DiskFull"
	LedgerBusy      Name = "LedgerBusy"
	TornTail        Name = "TornTail"
	KeyModeTooOpen  Name = "KeyModeTooOpen"
	NotAnOperator   Name = "NotAnOperator"
	WitnessFailed   Name = "WitnessFailed"
	Interrupted     Name = "Interrupted"
	MemoryDamaged   Name = "MemoryDamaged"
	NothingToRepair Name = "NothingToRepair"

	ServerOpen Name = "ServerOpen"
	ServerGone Name = "ServerGone"

	StoreUnreachable Name = "StoreUnreachable"
	StoreUnfit       Name = "StoreUnfit"
	StoreConflict    Name = "StoreConflict"
	LedgerMoved      Name = "LedgerMoved"
	NothingVouches   Name = "NothingVouches"

	TaskClassAlreadyRegistered Name = "TaskClassAlreadyRegistered"
	WeakBench                  Name = "WeakBench"

	PromotionMustBeHumanAuthorized Name = "PromotionMustBeHumanAuthorized"
	BenchChanged                   Name = "BenchChanged"
	BlockCodeStands                Name = "BlockCodeStands"

	SandboxUnavailable Name = "SandboxUnavailable"
	SandboxFailed      Name = "SandboxFailed"
	RubricFailed       Name = "RubricFailed"
	CassetteMiss       Name = "CassetteMiss"
	TokenRefused       Name = "TokenRefused"
	LimitReached       Name = "LimitReached"
	ApprovalPending    Name = "ApprovalPending"
	GoldenRefused      Name = "GoldenRefused"
	AgentFailed        Name = "AgentFailed"
	FolderUnreadable   Name = "FolderUnreadable"
	PlanChanged        Name = "PlanChanged"
	ShownChanged       Name = "ShownChanged"
	JournalDiffers     Name = "JournalDiffers"
	ProviderFailed     Name = "ProviderFailed"
	WorldFailed        Name = "WorldFailed"
	WorldDiffers       Name = "WorldDiffers"

	Unauthenticated     Name = "Unauthenticated"
	NotAllowed          Name = "NotAllowed"
	PathTaken           Name = "PathTaken"
	UnknownPath         Name = "UnknownPath"
	PathDisagrees       Name = "PathDisagrees"
	RunTaken            Name = "RunTaken"
	IdempotencyConflict Name = "IdempotencyConflict"
	TooLate             Name = "TooLate"
	TakenDown           Name = "TakenDown"
	CalibrationFailed   Name = "CalibrationFailed"
	RateLimited         Name = "RateLimited"

	RecordingInCI         Name = "RecordingInCI"
	RecordingNotConfirmed Name = "RecordingNotConfirmed"
	SpendingNotPermitted  Name = "SpendingNotPermitted"
	PermissionInvalid     Name = "PermissionInvalid"
)

// Asked wrongly (exit 2).
const (
	Usage        Name = "Usage"
	UnknownName  Name = "UnknownName"
	UnknownKind  Name = "UnknownKind"
	Unrecognised Name = "Unrecognised"

	NotComparable Name = "NotComparable"
)

// Evidence does not verify (exit 3).
const (
	ChainTamperDetected    Name = "ChainTamperDetected"
	SealInvalid            Name = "SealInvalid"
	HistoryRolledBack      Name = "HistoryRolledBack"
	HistoryForked          Name = "HistoryForked"
	TimeWentBack           Name = "TimeWentBack"
	MissingAnchor          Name = "MissingAnchor"
	AnchorMismatch         Name = "AnchorMismatch"
	AnchorSignatureInvalid Name = "AnchorSignatureInvalid"
	CheckpointInvalid      Name = "CheckpointInvalid"
	WitnessQuorumMissing   Name = "WitnessQuorumMissing"
	ReceiptInvalid         Name = "ReceiptInvalid"
	SubmissionInvalid      Name = "SubmissionInvalid"
	SiteInvalid            Name = "SiteInvalid"
	TileMismatch           Name = "TileMismatch"
	EntryInvalid           Name = "EntryInvalid"
	StrictGap              Name = "StrictGap"
	SignatureInvalid       Name = "SignatureInvalid"
	SignerUnknown          Name = "SignerUnknown"
	SignerNotValidThen     Name = "SignerNotValidThen"
	NamespaceNotAllowed    Name = "NamespaceNotAllowed"
	TwoPersonRule          Name = "TwoPersonRule"
	RoleMissing            Name = "RoleMissing"
	SignersChainBroken     Name = "SignersChainBroken"
	WeakKey                Name = "WeakKey"
	DuplicateKey           Name = "DuplicateKey"
	DigestMismatch         Name = "DigestMismatch"

	BundleInvalid   Name = "BundleInvalid"
	BundleUnsigned  Name = "BundleUnsigned"
	OutcomeMismatch Name = "OutcomeMismatch"

	RecomputeMismatch Name = "RecomputeMismatch"

	CredentialInvalid   Name = "CredentialInvalid"
	CredentialRevoked   Name = "CredentialRevoked"
	ResultsHashMismatch Name = "ResultsHashMismatch"

	BenchCaseDigestMismatch    Name = "BenchCaseDigestMismatch"
	RubricDigestMismatch       Name = "RubricDigestMismatch"
	CassetteDigestMismatch     Name = "CassetteDigestMismatch"
	JudgeDigestMismatch        Name = "JudgeDigestMismatch"
	UserDigestMismatch         Name = "UserDigestMismatch"
	ReplyInvalid               Name = "ReplyInvalid"
	RegistrationDigestMismatch Name = "RegistrationDigestMismatch"
	DatasetDigestMismatch      Name = "DatasetDigestMismatch"
	ManifestMismatch           Name = "ManifestMismatch"
	BenchTreeInvalid           Name = "BenchTreeInvalid"
	BenchRepositoryUnproved    Name = "BenchRepositoryUnproved"
	BenchIncomplete            Name = "BenchIncomplete"
	PinMismatch                Name = "PinMismatch"
	IndexDiffers               Name = "IndexDiffers"
	FenceMissing               Name = "FenceMissing"
	FenceDidNotRun             Name = "FenceDidNotRun"

	ResultRefused Name = "ResultRefused"

	RegistryMismatch Name = "RegistryMismatch"

	NotIssued Name = "NotIssued"
)

// Evidence verifies and the gate is not met (exit 4).
const (
	GateNotMet         Name = "GateNotMet"
	GoldenDiverged     Name = "GoldenDiverged"
	NotReproduced      Name = "NotReproduced"
	TierNotRecommended Name = "TierNotRecommended"
	LevelNotMet        Name = "LevelNotMet"
	NotSubmittable     Name = "NotSubmittable"
	AuditNotClean      Name = "AuditNotClean"
	AuditNotComplete   Name = "AuditNotComplete"
)

// An offline run would have had to ask a model something new (exit 5).
const (
	NotAnswered Name = "NotAnswered"
)

type meaning struct {
	exit int
	text string
}

var meanings = map[Name]meaning{
	Failed:          {ExitFailed, "the work could not be done; the message says why"},
	Unreadable:      {ExitFailed, "a file or folder could not be read: missing, a folder where a file is expected, or no permission"},
	Malformed:       {ExitFailed, "the bytes were read and are not in the expected form"},
	NewerFormat:     {ExitFailed, "the file was written by a newer version of this program, which says nothing about its contents; install a newer version"},
	TooLarge:        {ExitFailed, "the input is larger than the stated limit"},
	NotFound:        {ExitFailed, "something that the work needs does not exist in this workspace, ledger or machine"},
	AlreadyExists:   {ExitFailed, "the thing to create exists already and is not overwritten"},
	WriteFailed:     {ExitFailed, "writing or syncing a file failed; what was acknowledged before is kept"},
	DiskFull:        {ExitFailed, "the disk is full; what was acknowledged before is kept"},
	LedgerBusy:      {ExitFailed, "another process is writing to this ledger"},
	TornTail:        {ExitFailed, "the ledger ends in bytes that a crash left behind and no seal covers"},
	KeyModeTooOpen:  {ExitFailed, "a private key file can be read by others"},
	NotAnOperator:   {ExitFailed, "the key is not an operator's in the signers file in force, so nothing is appended"},
	WitnessFailed:   {ExitFailed, "a witness could not be reached or refused; the local anchor stands"},
	Interrupted:     {ExitFailed, "stopped by a signal; the state left behind can be resumed"},
	MemoryDamaged:   {ExitFailed, "the memory of signed checkpoints in the state folder cannot be read"},
	NothingToRepair: {ExitFailed, "repair was asked for and the ledger has no torn tail"},

	ServerOpen: {ExitFailed, "a NATS server lets in clients whose keys it does not know, so it does not keep the workers of a fleet apart"},
	ServerGone: {ExitFailed, "the NATS servers of a fleet did not answer for too long, or no worker was there; the attempt can be resumed"},

	StoreUnreachable: {ExitFailed, "the object store that holds the ledger could not be asked; this says nothing about what it holds"},
	StoreUnfit:       {ExitFailed, "the object store does not refuse to overwrite an object (If-None-Match), so two machines could fork a ledger there"},
	StoreConflict:    {ExitFailed, "another machine appended to the ledger in the object store first; nothing of this batch was acknowledged"},
	LedgerMoved:      {ExitFailed, "the ledger was moved to another place, which the message names; nothing is appended to the old one"},
	NothingVouches:   {ExitFailed, "neither this machine's memory, an anchor nor a witness knows this ledger, so a tail cut off the object store would not be noticed"},

	TaskClassAlreadyRegistered: {ExitFailed, "a task class of this name, or of one that looks like it, exists already"},
	WeakBench:                  {ExitFailed, "an answer that takes no work passes nine of ten cases of a class, or more, so that the class would test next to nothing"},

	PromotionMustBeHumanAuthorized: {ExitFailed, "a program was asked to change a tier; only people change tiers, and the request is recorded"},
	BlockCodeStands:                {ExitFailed, "a correction would raise the score of a record with a block-severity failure; no correction may do that"},
	BenchChanged:                   {ExitFailed, "the bench has changed since the attempt ran"},

	SandboxUnavailable: {ExitFailed, "no accepted isolation class works on this machine, so the rubric was not run"},
	RubricFailed:       {ExitFailed, "the rubric did not answer with a score within its limits"},
	CassetteMiss:       {ExitFailed, "a replay asked for something that the cassette does not hold; the case stops"},
	TokenRefused:       {ExitFailed, "a request to the gateway of a case has no token, or the token of another case"},
	SandboxFailed:      {ExitFailed, "the sandbox itself failed; nothing can be said about the rubric"},
	ProviderFailed:     {ExitFailed, "a live provider or MCP server could not be reached, or sent something that is not a reply"},
	WorldFailed:        {ExitFailed, "the world of a case could not be started, died, hung, or said something that is not an answer; the case is not scored"},
	WorldDiffers:       {ExitFailed, "a world that the case calls deterministic was run again and did something else; the case is not scored"},
	LimitReached:       {ExitFailed, "a limit on turns, tokens, cost, time or output stopped a case; it is truncated and has no score"},
	ApprovalPending:    {ExitFailed, "a case waits for a person's approval and no answer came"},
	GoldenRefused:      {ExitFailed, "a case did not run to its own end or has no score, so its golden trace is not written"},
	ShownChanged:       {ExitFailed, "something that an agent, a test or a rubric could see changed after it was digested, so the case does not count"},
	PlanChanged:        {ExitFailed, "cannot resume: the bench, target or case selection has changed since the attempt was registered"},
	JournalDiffers:     {ExitFailed, "an interrupted case was resumed and made requests that differ from its journal of paid calls; the case is started again"},
	FolderUnreadable:   {ExitFailed, "what an agent left in its working folder cannot be compared with its start: a socket, a pipe, too much, a name that is too long; the case fails"},
	AgentFailed:        {ExitFailed, "the agent under test died, never answered, or answered with something that cannot be read"},

	Unauthenticated:     {ExitFailed, "a request to the registry has no API key, or one that is unknown or revoked"},
	NotAllowed:          {ExitFailed, "the registry knows who asks, and they may not do this: not drawn, their own proposal, not their credential"},
	PathTaken:           {ExitFailed, "a path of the catalogue is taken, or looks like one that is"},
	UnknownPath:         {ExitFailed, "a proposal names a path that the catalogue does not have"},
	PathDisagrees:       {ExitFailed, "a proposal lists a result under a path that its body does not name"},
	RunTaken:            {ExitFailed, "a run was recorded before with another content"},
	IdempotencyConflict: {ExitFailed, "an idempotency key was used before with another body"},
	TooLate:             {ExitFailed, "the deadline has passed, or the proposal is decided"},
	TakenDown:           {ExitFailed, "the operator took this text down; a tombstone is left"},
	CalibrationFailed:   {ExitFailed, "the answers to the calibration set are copied, or every attempt is used"},
	RateLimited:         {ExitFailed, "too many requests in a short time"},

	RecordingInCI:         {ExitFailed, "recording was asked for where CI is set, without --ci and a limit"},
	RecordingNotConfirmed: {ExitFailed, "the operator did not confirm the recording, at a terminal or with --yes and a limit, so nothing was sent"},
	SpendingNotPermitted:  {ExitFailed, "a run was to pay models, and the operator gave no permission and no limit for it; nothing was sent"},
	PermissionInvalid:     {ExitFailed, "a permission to spend in the user's state folder is a link, of another user, writable by others, or does not parse"},

	Usage:        {ExitUsage, "wrong flags or arguments"},
	UnknownName:  {ExitUsage, "no class, case, target, attempt, key or entry is called that"},
	UnknownKind:  {ExitUsage, "no such entry kind"},
	Unrecognised: {ExitUsage, "not a Tallystick file"},

	NotComparable: {ExitUsage, "the two attempts are of different benches, and --across-benches was not given; or two result files have no sample or scorer in common"},

	ChainTamperDetected:    {ExitUnverified, "an entry is not the one that was sealed: changed, dropped, added or moved"},
	SealInvalid:            {ExitUnverified, "a seal is not a signature of an operator in force over the tree at that point"},
	HistoryRolledBack:      {ExitUnverified, "the ledger is shorter than a checkpoint that was signed or published before"},
	HistoryForked:          {ExitUnverified, "the ledger contradicts a checkpoint that was signed or published before"},
	TimeWentBack:           {ExitUnverified, "an entry has an earlier date than the entry before it"},
	MissingAnchor:          {ExitUnverified, "no anchor where one is required"},
	AnchorMismatch:         {ExitUnverified, "an anchor and the ledger disagree"},
	AnchorSignatureInvalid: {ExitUnverified, "an anchor is not signed by a trusted operator"},
	CheckpointInvalid:      {ExitUnverified, "a checkpoint is malformed or not signed by a trusted key"},
	WitnessQuorumMissing:   {ExitUnverified, "fewer witnesses cosigned than the policy asks for"},
	ReceiptInvalid:         {ExitUnverified, "a receipt does not prove that its entry is in the ledger"},
	SubmissionInvalid:      {ExitUnverified, "a submission package is not what its receipts and its evidence give"},
	SiteInvalid:            {ExitUnverified, "the folder of a written site is not what its operator signed"},
	TileMismatch:           {ExitUnverified, "a published tile differs from the tree of the entries"},
	EntryInvalid:           {ExitUnverified, "a sealed entry is not canonical or not in the form of its kind"},
	StrictGap:              {ExitUnverified, "strict verification found a gap"},
	SignatureInvalid:       {ExitUnverified, "a signature does not match what it should cover"},
	SignerUnknown:          {ExitUnverified, "the signing key is not in the signers file"},
	SignerNotValidThen:     {ExitUnverified, "the signing key was not valid at that point of the ledger"},
	NamespaceNotAllowed:    {ExitUnverified, "the signature was made for another act, or the key may not sign this one"},
	TwoPersonRule:          {ExitUnverified, "fewer distinct people or distinct keys signed than required"},
	RoleMissing:            {ExitUnverified, "no signer holds the required role"},
	SignersChainBroken:     {ExitUnverified, "the signers file does not follow from the version before it or from the trust root"},
	WeakKey:                {ExitUnverified, "a public key is of small order, not canonical, too short or of a refused type"},
	DuplicateKey:           {ExitUnverified, "one public key is listed for, or signed as, more than one person"},
	IndexDiffers:           {ExitUnverified, "the database of a registry is not the index of its ledger: ahead of it, of another one, or changed by hand"},
	DigestMismatch:         {ExitUnverified, "the bytes do not have the digest that was pinned"},

	BundleInvalid:   {ExitUnverified, "a bundle contradicts itself: sizes, counts, flags, totals and sections must agree"},
	BundleUnsigned:  {ExitUnverified, "a bundle lacks a signature or receipt that the verification asks for"},
	OutcomeMismatch: {ExitUnverified, "the test log of a bundle does not support its outcome"},

	RecomputeMismatch: {ExitUnverified, "a number that was written down is not what the ledger's records and their evidence give"},

	CredentialInvalid:   {ExitUnverified, "a credential, a signed body or a key document is not of the form that a verifier relies on: contexts, type, members, dates, proofs"},
	CredentialRevoked:   {ExitUnverified, "the issuer's status list says that the credential is revoked or suspended"},
	ResultsHashMismatch: {ExitUnverified, "resultsHash of an attestation is not the hash of its results; the hint has the computed value"},

	BenchCaseDigestMismatch:    {ExitUnverified, "a case's files do not have the digest that is pinned for them"},
	RubricDigestMismatch:       {ExitUnverified, "the rubric or one of its helpers is not the one in the signed manifest"},
	CassetteDigestMismatch:     {ExitUnverified, "a case's cassette is not the one that its people signed for"},
	ReplyInvalid:               {ExitUnverified, "a file of the library of replies is not the reply that its name, its endpoint or the ledger says"},
	JudgeDigestMismatch:        {ExitUnverified, "judge.yaml is not the one that the registration of a task class pins, or judges/ is not what its manifest pins"},
	UserDigestMismatch:         {ExitUnverified, "user.yaml, or the prompt of this version of the program, is not what the registration of a task class pins"},
	RegistrationDigestMismatch: {ExitUnverified, "the registration of a task class is not the one in the signed manifest"},
	DatasetDigestMismatch:      {ExitUnverified, "the dataset is not the one in the signed manifest"},
	ManifestMismatch:           {ExitUnverified, "the manifest of a task class and its cases disagree: one was added, dropped or changed"},
	BenchTreeInvalid:           {ExitUnverified, "a bench holds a link, a device, an odd or look-alike name, or a file that does not belong in a bench"},
	BenchRepositoryUnproved:    {ExitUnverified, "a case says that it is an issue of a repository, and its git objects, trees or tests do not prove it"},
	BenchIncomplete:            {ExitUnverified, "a task class or the pins lack a file that they must have"},
	PinMismatch:                {ExitUnverified, "something is not what the signed pins say: the fence's CI file, an image, the list of classes"},
	FenceMissing:               {ExitUnverified, "the CI file is gone, or is not the fence in its one shape"},
	FenceDidNotRun:             {ExitUnverified, "the marker that the fence leaves is missing or not of this commit and CI file"},

	ResultRefused: {ExitUnverified, "what a worker of a fleet sent is not a result of the case that it was given"},

	NotIssued: {ExitUnverified, "a document that was about to be issued is refused by this program's own verifier; nothing was written"},

	RegistryMismatch: {ExitUnverified, "what a registry shows is not what its own signed entries say"},

	NotReproduced:      {ExitGate, "an attempt was run again and gave a different result"},
	GoldenDiverged:     {ExitGate, "a case diverges from its golden trace, or has none"},
	GateNotMet:         {ExitGate, "a threshold of the signed registration is not met"},
	TierNotRecommended: {ExitGate, "the evidence does not support the tier that was required"},
	NotSubmittable:     {ExitGate, "the attempt lacks what a submission needs: intent, level, recording or a task"},
	LevelNotMet:        {ExitGate, "the attempt lacks a property that --require-level asks for"},
	AuditNotClean:      {ExitGate, "the audit found signs of cheating"},
	AuditNotComplete:   {ExitGate, "the audit found nothing in what was recorded, and --strict wants all evidence"},

	NotAnswered: {ExitUnanswered, "cases asked for replies that are not recorded, and no model might be asked: there is no score and no verdict"},
}
