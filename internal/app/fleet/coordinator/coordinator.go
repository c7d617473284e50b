// Package coordinator is the side of a fleet that has the workspace: it offers cases,
// shows each to the worker that claimed it, and takes back what the worker signed.
//
// Workers are untrusted; a signature over every message identifies each, by a key that
// the signers file lists as a worker. That a case is its own says the claim, and what it
// brings back is verified by the harness as a stranger's would be. What is refused leaves
// an event in the ledger, and a worker that signed something no honest one does gets
// nothing more. Answers go below the inbox of the worker that signed the message, and
// nothing else of the envelope of a message is trusted.
package coordinator

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/app/lab"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/harness"
)

// silence is how long a worker may be silent before its cases are given to others.
func (c *Coordinator) silence() time.Duration { return cmp.Or(c.o.Silence, fleet.Silence) }

// secondWait is how long a case that a second worker is to run waits while no other
// worker does anything: two minutes.
func (c *Coordinator) secondWait() time.Duration { return 8 * c.silence() }

// atOnce is how many cases are offered at a time. Each waits for a worker, so there
// should be more than any fleet drives at once.
const atOnce = 2048

// A Coordinator offers the cases of one attempt to workers.
type Coordinator struct {
	o        fleet.Options
	crew     lab.Crew
	id       string // of this fleet: the attempt, and this start of its coordinator
	server   *bus.Server
	nc       *nats.Conn
	queue    *bus.Queue
	start    harness.Start
	running  context.Context // of the attempt
	byes     chan string     // names of workers that know that the fleet has ended
	welcome  fleet.Welcome
	shared   map[digest.Content][]byte              // what every worker may fetch
	folders  map[digest.Content]*agent.FolderSource // the same, by the digests of their lists
	seed     [32]byte                               // decides which cases are run twice
	started  time.Time
	stop     context.CancelFunc
	over     context.Context // ends, with the reason, when the fleet cannot continue
	endFleet context.CancelCauseFunc
	watched  chan struct{} // closed when the watch has ended

	carried agent.Carried // the target

	mu      sync.Mutex
	offers  map[string]*offer  // by ticket, those that are not done
	late    map[string]string  // tickets whose worker was lost, by its key
	done    map[string]string  // tickets that were taken back lately, by the worker's key
	recent  []string           // of these, the oldest first
	workers map[string]*worker // by the fingerprint of their keys
	users   map[string]*worker // the same, by their names at the server
	counts  fleet.Status
	rate    []time.Time // of results in the last minute
	alone   string      // the only worker that takes anything, if there is only one
}

// An offer is a case that is offered, or with a worker.
type offer struct {
	harness.Offer
	ticket  string
	since   time.Time
	claimed chan *claim // of one
	claim   *claim      // nil while no worker has it

	noSecond chan struct{} // closed if no second worker takes it
}

// A worker is what the coordinator knows of one.
type worker struct {
	fleet.WorkerStatus
	user    string
	events  int
	busy    time.Time // when it last took a case or ended one
	strikes int       // how often in a row it did not bring back what it took
	struck  time.Time // when it did not for the last time
	atWork  int       // its messages that are being answered
	bytes   int       // of these
	held    int       // bytes of pieces of its that wait for their results
	dropped int       // messages in its name that were not looked at

	claims map[string]*claim // that it asked for and were not ended, by the names that it gave them
}

// Open opens the coordinator's side of a fleet, and tells the person how workers join.
func Open(ctx context.Context, s *lab.Setup, o fleet.Options) (harness.Drivers, func(), error) {
	crew, err := s.Crew()
	if err != nil {
		return nil, nil, err
	}
	c := newCoordinator(o, crew)
	if err := c.pack(); err != nil {
		return nil, nil, err
	}
	if err := c.connect(); err != nil {
		c.close()
		return nil, nil, err
	}
	return c, c.close, nil
}

// newCoordinator is one that has not offered anything yet.
func newCoordinator(o fleet.Options, crew lab.Crew) *Coordinator {
	random := make([]byte, 8)
	rand.Read(random)
	return &Coordinator{o: o, crew: crew, id: hex.EncodeToString(random), shared: map[digest.Content][]byte{},
		offers: map[string]*offer{}, late: map[string]string{}, done: map[string]string{}, workers: map[string]*worker{}, users: map[string]*worker{}}
}

// pack takes the target apart for the journey. What cannot travel is refused here,
// before anything is registered.
func (c *Coordinator) pack() (err error) {
	if c.crew.Target.Kind == agent.KindCommand && c.crew.Spec.Unsafe() {
		return refusal.Newf(refusal.Usage, "--fleet with --sandbox none: workers run an agent in a sandbox only").WithHint("leave --sandbox none out, or run the class on this machine")
	}
	c.carried, c.shared, c.folders, err = c.crew.Target.Carry()
	return err
}

// connect opens the embedded server, or the connection to an existing one.
func (c *Coordinator) connect() error {
	workers, err := c.crew.Workers()
	if err != nil {
		return err
	}
	if len(workers) == 0 {
		return refusal.Newf(refusal.RoleMissing, "version %d of the signers names no worker", c.crew.Signers.Version()).
			WithHint(`on each worker's machine "tally fleet worker --join …" prints the line that "tally signers next" is to get; docs/scale.md has the steps`)
	}
	if c.o.Double > 0 && len(workers) < 2 {
		return refusal.Newf(refusal.Usage, "--double needs two workers, and version %d of the signers has one", c.crew.Signers.Version())
	}
	if c.o.URL != fleet.Embedded {
		if err := bus.AsksForKeys(c.o.URL, c.o.Access); err != nil {
			return err
		}
		c.nc, err = bus.ConnectCoordinator(c.o.URL, c.crew.Key, c.o.Access)
		return err
	}
	var names []string
	for _, w := range workers {
		name, err := bus.UserOf(w.Key)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	if c.server, err = bus.Start(bus.ServerOptions{Listen: c.o.Listen, Dir: filepath.Join(c.o.Dir, "queue"), Workers: names}); err != nil {
		return err
	}
	if c.nc, err = c.server.Connect(); err != nil {
		return err
	}
	if err := c.leaveSeed(); err != nil {
		return err
	}
	c.o.Note("workers join with: tally fleet worker --join %s --trust-root %s", c.server.URL(), c.crew.TrustRoot)
	return nil
}

// statusFile has where "tally fleet status" of this user finds the embedded server.
const statusFile = "status.json"

type statusAccess struct {
	URL  string `json:"url"`
	Seed string `json:"seed"`
}

func (c *Coordinator) leaveSeed() error {
	seed, err := c.server.Seed()
	if err != nil {
		return err
	}
	data, err := canon.Marshal(&statusAccess{c.server.URL(), seed})
	if err != nil {
		return err
	}
	if err := store.MakeDir(store.OS{}, c.o.Dir, 0o700); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, filepath.Join(c.o.Dir, statusFile), data, 0o600)
}

// Ask asks the coordinator of a fleet how it stands.
func Ask(ctx context.Context, o fleet.StatusOptions) (*fleet.Status, error) {
	nc, err := connectToAsk(o)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	within, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	word := rand.Text()
	m, err := bus.Ask(within, nc, fleet.StatusSubject, fleet.StatusAnswer(word), []byte(word))
	if err != nil {
		return nil, refusal.Newf(refusal.NotFound, "no coordinator answers: %w", err).WithHint("an attempt over a fleet must be running")
	}
	s := &fleet.Status{}
	if err := json.Unmarshal(m.Data, s); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the coordinator's status: %w", err)
	}
	return s, nil
}

func connectToAsk(o fleet.StatusOptions) (*nats.Conn, error) {
	if o.URL != "" {
		return bus.ConnectCoordinator(o.URL, o.Key, o.Access)
	}
	data, err := store.ReadFile(store.OS{}, filepath.Join(o.Dir, statusFile), 4096)
	if err != nil {
		return nil, refusal.Newf(refusal.NotFound, "no fleet runs in this workspace: %w", err).
			WithHint(`"tally run CLASS --fleet embedded" starts one; for another one give --join`)
	}
	var at statusAccess
	if err := canon.Unmarshal(data, &at); err != nil {
		return nil, err
	}
	return bus.ConnectSeed(at.URL, at.Seed)
}

// close ends the fleet. What workers still have is theirs to throw away.
func (c *Coordinator) close() {
	if c.stop != nil {
		c.stop()
	}
	if c.watched != nil {
		<-c.watched
	}
	_ = fleet.RemoveStatus(c.o.Dir)
	there := c.nc != nil && c.nc.Status() == nats.CONNECTED
	if c.queue != nil && there {
		within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = c.queue.Remove(within) // a resumed attempt makes another
		cancel()
	}
	if there {
		c.sayGoodbye()
	}
	if c.nc != nil {
		c.nc.Close()
	}
	if c.server != nil {
		c.server.Stop()
		_ = store.RemoveTree(filepath.Join(c.o.Dir, statusFile))
	}
}

// sayGoodbye tells workers that the fleet has ended, and waits a little until those that
// are there have heard it: the server may end with this program.
func (c *Coordinator) sayGoodbye() {
	there := map[string]bool{}
	c.mu.Lock()
	for _, w := range c.workers {
		if _ = c.nc.Publish(fleet.EndSubject(w.user), []byte(c.id)); w.Quarantined == "" && c.crew.Now().Sub(w.LastSeen.Go()) < c.silence() {
			there[w.user] = true
		}
	}
	c.mu.Unlock()
	_ = c.nc.Flush()
	for wait := time.After(5 * time.Second); len(there) > 0 && c.byes != nil; {
		select {
		case user := <-c.byes:
			delete(there, user)
		case <-wait:
			return
		}
	}
}

// Begin makes the queue and begins to answer.
func (c *Coordinator) Begin(ctx context.Context, s harness.Start) error {
	c.start, c.running, c.started = s, ctx, c.crew.Now()
	c.over, c.endFleet = context.WithCancelCause(ctx)
	rand.Read(c.seed[:]) // after the registration: no worker can know which cases are run twice
	c.counts = fleet.Status{Attempt: s.Registered.Attempt, Class: s.Registered.Class, Target: s.Registered.Target, Planned: s.Left}
	if err := c.setUp(); err != nil {
		return err
	}
	var err error
	if c.queue, err = bus.OpenQueue(ctx, c.nc, c.id); err != nil {
		return err
	}
	if c.server != nil {
		if err := c.queue.RemoveOthers(ctx); err != nil {
			return err
		}
	} else {
		c.o.Note("the work queue lies on %d of the servers", c.queue.Replicas)
	}
	c.byes = make(chan string, 1024)
	for verb, answer := range map[string]func(*request, *worker){"hello": c.hello, "claim": c.takeClaim, "fetch": c.fetch, "result": c.takeResult, "put": c.takePiece, "model": c.callModel, "beat": c.beat, "bye": c.bye} {
		if _, err := c.nc.Subscribe(fleet.Subject(verb, "*"), func(m *nats.Msg) { c.serve(verb, m, answer) }); err != nil {
			return refusal.Newf(refusal.Failed, "listening to workers: %w", err)
		}
	}
	if _, err := c.nc.Subscribe(fleet.StatusSubject, c.tell); err != nil {
		return refusal.Newf(refusal.Failed, "listening for questions: %w", err)
	}
	c.leaveStatus()
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = cancel
	c.watched = make(chan struct{})
	go func() { defer close(c.watched); c.watch(within) }()
	return c.nc.Flush()
}

// setUp writes what all cases share.
func (c *Coordinator) setUp() error {
	setup := fleet.Setup{Version: fleet.Version, Registered: *c.start.Registered, Registration: c.crew.Registration, Offered: c.start.Offered, Target: c.carried,
		Sandbox: c.crew.Spec.Classes(), Unsafe: c.crew.Spec.Unsafe(), Replies: c.crew.Spec.Replies(), Live: c.start.Registered.Mode == "live", Harness: c.o.Version}
	for _, v := range c.crew.Versions {
		setup.Signers = append(setup.Signers, fleet.SignersVersion{Signers: v.Signers, Signatures: v.Signatures})
	}
	// Signed, because the registration does not cover all of it: not how the agent is
	// isolated, and of an environment only what is installed.
	data, err := fleet.Sign(c.crew.Key, seal.NamespaceWork, &setup)
	if err != nil {
		return err
	}
	d := digest.ContentOf(data)
	c.shared[d] = data
	c.welcome = fleet.Welcome{Version: fleet.Version, Fleet: c.id, Setup: d, Bytes: int64(len(data))}
	return nil
}

// AtOnce is how many cases to offer at a time.
func (c *Coordinator) AtOnce() int { return atOnce }

// Doubled reports whether a second worker is to run a case too. Which ones is decided
// by a secret that was drawn after the registration.
func (c *Coordinator) Doubled(caseID string, repeat int) bool {
	if c.o.Double <= 0 {
		return false
	}
	d := digest.IDOf(fmt.Appendf(c.seed[:32:32], "%s %d", caseID, repeat))
	n := uint64(0)
	for _, b := range d[:8] {
		n = n<<8 | uint64(b)
	}
	return float64(n)/(1<<64) < c.o.Double
}

// watch looks for workers that were lost and tickets that no worker has any more.
func (c *Coordinator) watch(ctx context.Context) {
	every := c.silence() / 5
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := time.Now()
	var reach reach
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A coordinator that was itself stopped has heard no worker, and that is not
		// the workers' doing.
		now := time.Now()
		if slept := now.Sub(last) - every; slept > every {
			c.excuse(slept)
		}
		last = now
		if !c.reachable(&reach, every) {
			continue // no worker can be heard: that is not the workers' doing
		}
		c.dropSilent()
		c.dropLonely()
		c.mendQueue(ctx)
		c.offerAgain(ctx)
		if ctx.Err() == nil {
			c.leaveStatus()
		}
	}
}

// reach is how long the coordinator has reached no one, in running time.
type reach struct {
	gone   time.Duration // the servers
	lonely time.Duration // no worker is there that may take cases
}

// reachable looks whether the servers are there and a worker is, tells the person when it
// is not so, and ends the fleet when that does not change. The attempt stays resumable:
// nothing is recorded of cases that are not back.
func (c *Coordinator) reachable(r *reach, every time.Duration) bool {
	if c.nc.Status() != nats.CONNECTED {
		c.excuse(every)
		if r.gone += every; r.gone == every {
			c.o.Note("the NATS servers (%s) are gone; waiting for them for %s", c.where(), fleet.Patience*c.silence())
		}
		if r.gone > fleet.Patience*c.silence() {
			c.endFleet(refusal.Newf(refusal.ServerGone, "the NATS servers (%s) did not answer for %s", c.where(), fleet.Patience*c.silence()).
				WithHint("start them again, then resume the attempt with the same command and --resume"))
		}
		return false
	}
	if r.gone > 0 {
		c.o.Note("the NATS servers are back")
		r.gone = 0
	}
	soon := c.silence() / 3 // a worker that is just being started is not told of
	missing := c.missing()
	if missing == "" {
		if r.lonely >= soon {
			c.o.Note("a worker is there")
		}
		r.lonely = 0
		return true
	}
	before := r.lonely
	if r.lonely += every; before < soon && r.lonely >= soon {
		c.o.Note("%s; workers join with: tally fleet worker --join %s --trust-root %s", missing, c.where(), c.crew.TrustRoot)
	}
	if r.lonely > fleet.Loneliness*c.silence() {
		c.endFleet(refusal.Newf(refusal.ServerGone, "%s, for %s", missing, fleet.Loneliness*c.silence()).
			WithHint("start workers with: tally fleet worker --join %s --trust-root %s; then resume the attempt with the same command and --resume", c.where(), c.crew.TrustRoot))
	}
	return true
}

// missing says that no worker is there that may take cases, and what became of those that
// came; "" if one is there.
func (c *Coordinator) missing() string {
	var silent, quarantined, refused int
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.workers {
		switch {
		case w.LastSeen.Go().IsZero(): // something came in its name, and it did not sign that
		case w.Quarantined != "":
			quarantined++
		case c.admit(w.Version) != nil:
			refused++
		case c.crew.Now().Sub(w.LastSeen.Go()) > c.silence():
			silent++
		default:
			return ""
		}
	}
	if silent+quarantined+refused == 0 {
		return "no worker has come"
	}
	return fmt.Sprintf("no worker is there that may take cases: %d not heard of for %s, %d quarantined, %d of another version", silent, c.silence(), quarantined, refused)
}

// where is the address of the servers, without a password.
func (c *Coordinator) where() string {
	if c.server != nil {
		return c.server.URL()
	}
	return bus.Shown(c.o.URL)
}

// excuse gives every worker the time that the coordinator did not run.
func (c *Coordinator) excuse(slept time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.offers {
		if k := o.claim; k != nil {
			k.heard, k.deadline = k.heard.Add(slept), k.deadline.Add(slept)
		}
	}
}

// leaveStatus writes how the attempt stands for the pages of "tally view". That it could
// not does not stop the fleet: "tally fleet status" asks for itself.
func (c *Coordinator) leaveStatus() {
	s := c.status()
	_ = s.Save(c.o.Dir)
}

// dropSilent gives up on workers that have not been heard of. What one has brought back
// is graded in peace.
func (c *Coordinator) dropSilent() {
	var enough []*worker
	c.mu.Lock()
	now := c.crew.Now()
	for _, o := range c.offers {
		if k := o.claim; k != nil && k.answered == nil && (now.Sub(k.heard) > c.silence() || now.After(k.deadline)) {
			c.lose(o)
			c.strike(k)
			if k.worker.strikes >= maxStrikes {
				enough = append(enough, k.worker)
			}
		}
	}
	c.mu.Unlock()
	for _, w := range enough {
		c.quarantine(w, tooOften)
	}
}

// lose gives up on the worker that has a case. Mu is held.
func (c *Coordinator) lose(o *offer) {
	k := o.claim
	delete(c.offers, o.ticket)
	c.late[o.ticket] = k.worker.Key
	c.counts.Lost++
	k.worker.Lost++
	k.worker.busy = c.crew.Now()
	close(k.lost)
}

// dropLonely gives up on second runs that no other worker takes: there is none, or it
// does nothing. Once that is known the others need not find it out for as long.
func (c *Coordinator) dropLonely() {
	now, told := c.crew.Now(), false
	c.mu.Lock()
	for _, o := range c.offers {
		if o.Not == "" || o.claim != nil {
			continue
		}
		wait := c.secondWait()
		if c.alone == o.Not {
			wait = c.silence()
		}
		if last := c.othersBusy(o.Not, now); now.Sub(last) <= wait || now.Sub(o.since) <= wait {
			continue
		}
		told, c.alone = told || c.alone != o.Not, o.Not
		delete(c.offers, o.ticket)
		close(o.noSecond)
	}
	c.mu.Unlock()
	if told {
		c.o.Note("for %s no second worker took anything: cases that --double chose are recorded as unscored (NotDoubled) until one does", c.secondWait())
	}
}

// othersBusy is when a worker other than one of a key last had something to do. Mu is held.
func (c *Coordinator) othersBusy(key string, now time.Time) (last time.Time) {
	for _, o := range c.offers {
		if k := o.claim; k != nil && k.worker.Key != key {
			return now
		}
	}
	for _, w := range c.workers {
		if w.Key != key && w.Quarantined == "" && w.busy.After(last) {
			last = w.busy
		}
	}
	return last
}

// offerAgain puts tickets back into a queue that has run dry although cases wait: a
// worker took them and did nothing, or said that it was done with them.
func (c *Coordinator) offerAgain(ctx context.Context) {
	var again []string
	c.mu.Lock()
	for _, o := range c.offers {
		if o.claim == nil && c.crew.Now().Sub(o.since) > 2*bus.AckWait {
			again = append(again, o.ticket)
		}
	}
	c.mu.Unlock()
	if len(again) == 0 {
		return
	}
	if idle, err := c.queue.Idle(ctx); err != nil || !idle {
		return
	}
	c.putAgain(ctx, again)
}

func (c *Coordinator) putAgain(ctx context.Context, tickets []string) {
	for _, t := range tickets {
		_ = c.queue.Put(ctx, fleet.Ticket{Fleet: c.id, Ticket: t})
	}
}

// mendQueue makes a queue that was lost again, with a ticket for every case that no worker
// has. Servers that are away are asked the next time.
func (c *Coordinator) mendQueue(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, c.silence()/5)
	defer cancel()
	if lost, err := c.queue.Mend(within); !lost || err != nil {
		return
	}
	var waiting []string
	c.mu.Lock()
	for _, o := range c.offers {
		if o.claim == nil {
			waiting = append(waiting, o.ticket)
		}
	}
	c.mu.Unlock()
	c.o.Note("the servers lost the work queue; it is made again with %d cases that wait", len(waiting))
	c.putAgain(ctx, waiting)
}

// tell answers "tally fleet status", where status is answered and nowhere else.
func (c *Coordinator) tell(m *nats.Msg) {
	to := fleet.StatusAnswer(string(m.Data))
	if to == "" {
		return
	}
	if data, err := json.Marshal(c.status()); err == nil {
		_ = c.nc.Publish(to, data)
	}
}

func (c *Coordinator) status() fleet.Status {
	standing := c.start.Standing()
	c.mu.Lock()
	defer c.mu.Unlock()
	s, now := c.counts, c.crew.Now()
	s.CostMicroUSD, s.Unpriced, s.Disagreed = standing.CostMicroUSD, standing.Unpriced, standing.Disagreed
	has := map[string][]string{}
	for _, o := range c.offers {
		if o.claim == nil {
			s.Waiting++
			continue
		}
		s.Running++
		has[o.claim.worker.Key] = append(has[o.claim.worker.Key], o.Case)
	}
	s.Workers = []fleet.WorkerStatus{}
	for key, w := range c.workers {
		ws := w.WorkerStatus
		ws.Cases = append([]string{}, has[key]...)
		s.Workers = append(s.Workers, ws)
	}
	for len(c.rate) > 0 && now.Sub(c.rate[0]) > time.Minute {
		c.rate = c.rate[1:]
	}
	if n := len(c.rate); n > 1 {
		s.PerSecond = float64(n) / max(1, now.Sub(c.rate[0]).Seconds())
		left := float64(s.Planned-s.Done) / s.PerSecond
		s.SecondsLeft = &left
	}
	s.At = evidence.At(now)
	return s
}

// signerOf finds a worker by its name at the server.
func (c *Coordinator) signerOf(user string) (seal.Entry, bool) {
	workers, err := c.crew.Workers()
	if err != nil {
		return seal.Entry{}, false
	}
	for _, e := range workers {
		if name, err := bus.UserOf(e.Key); err == nil && name == user {
			return e, true
		}
	}
	return seal.Entry{}, false
}

// userIn is the worker that published to a subject.
func userIn(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// newTicket is a name that cannot be guessed: a worker that knows it was given it.
func newTicket() string {
	random := make([]byte, 16)
	rand.Read(random)
	return hex.EncodeToString(random)
}
