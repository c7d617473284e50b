// Package fleet spreads one attempt over many machines.
//
// A coordinator has the workspace: it registers the attempt, gives cases out,
// verifies and grades what comes back, and alone writes the ledger. Workers drive
// cases in their own sandboxes and sign what came of them. They are never given an
// expected answer.
//
// This package holds what both sides say to each other, as plain documents in
// canonical JSON, and what people ask of a fleet. It opens no connection: bus/ has
// NATS, coordinator/ and worker/ the two sides. Only the program tally-fleet links
// those.
package fleet

import (
	"time"

	"tallystick/internal/record/seal"
)

// Embedded, in place of an address, asks for a NATS server inside the coordinator.
const Embedded = "embedded"

// Silence is how long a worker may be silent before its cases are given to others.
// Five times in it a worker says that it is there.
const Silence = 15 * time.Second

// Patience is how many times [Silence] a coordinator waits for servers that are gone, and
// Loneliness how many times for a worker that may take cases, before it ends. The attempt
// is resumed with --resume.
const (
	Patience   = 2  // half a minute
	Loneliness = 40 // ten minutes
)

// Access is what NATS servers of one's own want to see besides a key: files, each ""
// for none.
type Access struct {
	Creds   string // NATS credentials (a JWT and a seed), or the seed of an nkey alone
	CA      string // certificates that vouch for the servers
	Cert    string // the certificate of this program
	CertKey string // and its key
}

// Options say how an attempt is run over a fleet.
type Options struct {
	URL     string  // of the NATS servers, with commas; or [Embedded]
	Access  Access  // for servers of one's own
	Listen  string  // address of the embedded server
	Dir     string  // folder for the embedded server's queue
	Double  float64 // share of the cases that a second worker runs too
	Version string  // of this program
	// AnyVersion lets workers of another version take part.
	AnyVersion bool
	// Silence is how long a worker may be silent before its cases are given to
	// others; 0 means [Silence]. Only tests change it.
	Silence time.Duration
	// Note tells the person something while the attempt runs.
	Note func(format string, args ...any)
}

// WorkerOptions say how a worker works.
type WorkerOptions struct {
	URL       string
	Access    Access
	Key       *seal.Key
	Line      string // that a signers file needs for it
	TrustRoot string // the digest of version 1 of the signers that this worker trusts
	Dir       string // folder of its own, for what it fetched
	Hidden    []string
	Label     string // what the status calls this machine
	Jobs      int    // cases at once
	Version   string
	Once      bool // end with the first attempt that ends
	// Silence is that of the coordinator; 0 means [Silence]. Only tests change it.
	Silence time.Duration
	Now     func() time.Time
	Note    func(format string, args ...any)
}

// StatusOptions say where the status is asked for.
type StatusOptions struct {
	URL    string
	Access Access
	Key    *seal.Key // the operator's, for servers that ask for keys; nil if there is none
	Dir    string    // folder of the embedded server of this workspace
	Wait   time.Duration
}
