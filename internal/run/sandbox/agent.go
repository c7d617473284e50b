package sandbox

import (
	"context"
	"io"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/identity"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/sandbox/runfolder"
)

// AgentOptions describe one run of an agent: any program, with as many
// processes as it likes, a folder of its own to work in, and one way out.
//
// An agent is not a rubric: it may fork, use sockets on its own loopback, and
// write to its working folder. What it cannot do is reach a file that was not
// given to it, another address than the gateway, or anything of ours.
type AgentOptions struct {
	// Accept is as in [Options]; microvm runs no agents.
	Accept []Class

	Command []string // looked for in Env's PATH, inside, if it has no slash
	Env     []string // the whole environment
	Dir     string   // where it starts; empty means /work
	Stdin   io.Reader

	// WorkFolder is the host folder that appears, writable, as /work. What is
	// written there belongs to the folder's owner afterwards. Its files must
	// be its own: one that is also linked from elsewhere can be changed here.
	// Empty means an empty folder that is thrown away.
	WorkFolder string
	// ReadOnly are further host files and folders.
	ReadOnly []Mount
	// System gives the agent the host's programs and libraries, read-only:
	// /usr and what belongs to it, and the few files of /etc that programs
	// look for. Never a home folder, /root, /var, /run or the host's /tmp.
	System bool
	// Image is the root file system in place of the host's: read-only, its /etc
	// copied, with the sandbox's own files in it. The caller verifies it. Not with
	// System.
	Image *image.Image
	// Tree is a root file system that is being made: its folders appear at their
	// places, writable, and the whole of it as the working folder. Not with WorkFolder,
	// System or Image.
	Tree string
	// Service runs the program as [ServiceUser], for programs that refuse to be user 0.
	// Only gVisor can, and there such a user writes to what is in memory alone: /tmp and
	// /dev/shm.
	Service bool
	// Expect says of host paths that are shown what they were when they were
	// digested. The run is refused if something else is there when the sandbox is
	// made: moved away, put over it by a mount, or reached by a link that was turned.
	Expect map[string]identity.ID
	// Hidden are host folders that no mount may show: the workspace, its
	// state, the folder where images and keys are. A mount that is one of
	// them, lies in one, or holds one is refused, also when it gets there
	// through a link or another mount. The working folder may lie in one.
	Hidden []string
	// Asked are absolute paths that an interpreter looks at by itself because a
	// file that is shown names them. Asking whether one of them is there is noted
	// and is not an act; opening it is.
	Asked []string

	// Gateway gets the connections that the program makes to
	// 127.0.0.1:GatewayPort. Nil means that there is no way out at all.
	Gateway     *Gateway
	GatewayPort int // 0 means DefaultGatewayPort
	// Services get the connections that the program makes to other ports of its
	// own loopback. Nothing listens on any that is not named.
	Services []Service

	world *dialer // of a world; nil for other programs

	Limits AgentLimits
	// OnStdout is given the output as it comes, up to the limit, by one
	// goroutine. The bytes are the callee's only until it returns.
	OnStdout func([]byte)

	Blind      bool   // as in Options
	Executable string // as in Options; inside it is /tally/tally
	TempDir    string // as in Options
}

// A Service is a port of the sandbox's loopback, and what gets its connections.
type Service struct {
	Port int // 1024 or more
	To   *Gateway
}

// A Mount shows a host file or folder inside, read-only.
type Mount struct {
	Host   string
	Inside string // an absolute path; empty means the same as Host
	// Within names a folder in a hidden one that may be shown all the same:
	// a target's own files lie in the workspace. Host must be in it, after
	// links.
	Within string
}

// AgentLimits bound one run. Zero fields take the defaults.
type AgentLimits struct {
	Timeout     time.Duration // wall clock, the sandbox's own start included
	MemoryBytes int64         // for everything in the sandbox together, its /tmp included
	OutputBytes int64         // of standard output and of standard error, each
	DiskBytes   int64         // by which the working folder may grow
	Files       int64         // files, folders and links by which it may grow
	Tasks       int           // processes and threads at once
}

// The defaults and the most that may be asked for.
const (
	DefaultAgentTimeout     = 10 * time.Minute
	MaxAgentTimeout         = 24 * time.Hour
	DefaultAgentMemoryBytes = 2 << 30
	MinAgentMemoryBytes     = 64 << 20
	MaxAgentMemoryBytes     = 64 << 30
	DefaultAgentOutputBytes = 4 << 20
	MaxAgentOutputBytes     = 64 << 20
	DefaultAgentDiskBytes   = 2 << 30
	MaxAgentDiskBytes       = 64 << 30
	DefaultAgentFiles       = 20_000
	MaxAgentFiles           = 1_000_000
	DefaultAgentTasks       = 512 // node alone has a dozen threads
	MaxAgentTasks           = 4096

	DefaultGatewayPort = 4180
)

func (l AgentLimits) orDefaults() (AgentLimits, error) {
	if l.Timeout == 0 {
		l.Timeout = DefaultAgentTimeout
	}
	if l.Timeout < 0 || l.Timeout > MaxAgentTimeout {
		return l, refusal.Newf(refusal.Usage, "timeout %v: must be above 0 and at most %v", l.Timeout, MaxAgentTimeout)
	}
	for _, n := range []struct {
		name              string
		value             *int64
		usual, least, top int64
	}{
		{"memory", &l.MemoryBytes, DefaultAgentMemoryBytes, MinAgentMemoryBytes, MaxAgentMemoryBytes},
		{"output", &l.OutputBytes, DefaultAgentOutputBytes, 1, MaxAgentOutputBytes},
		{"disk", &l.DiskBytes, DefaultAgentDiskBytes, 1, MaxAgentDiskBytes},
		{"files", &l.Files, DefaultAgentFiles, 1, MaxAgentFiles},
	} {
		if *n.value == 0 {
			*n.value = n.usual
		}
		if *n.value < n.least || *n.value > n.top {
			return l, refusal.Newf(refusal.Usage, "%s %d: must be between %d and %d", n.name, *n.value, n.least, n.top)
		}
	}
	if l.Tasks == 0 {
		l.Tasks = DefaultAgentTasks
	}
	if l.Tasks < 32 || l.Tasks > MaxAgentTasks {
		return l, refusal.Newf(refusal.Usage, "%d tasks: must be between 32 and %d", l.Tasks, MaxAgentTasks)
	}
	return l, nil
}

// An AgentResult is what one run of an agent did.
type AgentResult struct {
	Class    Class
	Verdict  Verdict
	ExitCode int // 128+n when signal n ended it
	// NotStarted says why the program could not even be started; empty when
	// it was. The verdict is Failed then.
	NotStarted string
	Wall       time.Duration // from before the sandbox's start to after its end
	MaxRSS     int64         // bytes, of the whole sandbox; 0 when unknown
	Stdout     []byte        // cut at the output limit
	StderrHead string        // its first and last 4 KiB, and how much is missing between them
	Attempted  []Attempt     // at most 100 different acts, and 100 others
	Watched    bool          // whether attempts could be seen at all
	// Discarded are what was taken out of the working folder because it cannot
	// be read safely: pipes, sockets, devices, paths that are too long. At most
	// ten, and Discards says how many there were.
	Discarded []string
	Discards  int
}

// ServiceUser is who a program is that runs as a service.
const ServiceUser = calls.ServiceUser

// Where things are inside.
const (
	workDir = calls.WorkDir
	// ToolPath is our own program inside an agent's sandbox.
	ToolPath = "/" + firstprocess.ProgramDir + "/tally"
)

// SystemFolders are the host's folders that [AgentOptions].System shows, where the
// host has them.
func SystemFolders() []string { return slices.Clone(systemFolders) }

// systemFolders are the host's programs and libraries. Where one is a link,
// the link is made inside instead.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives"}

// RunAgent runs a program in the strongest accepted class that works and
// waits for its end. A program that misbehaves, or does not exist, is a result
// with another verdict than OK; an error means that the sandbox could not be
// made as asked for, and nothing ran. When the program ends, what it started
// ends too. When ctx ends the run is killed and ctx's error returned, with a
// result that has only what was attempted until then.
//
// Afterwards the working folder holds only what can be read safely: regular
// files, folders and links, all the caller's own. Links may point anywhere.
// What else there was is gone, and the result says so.
func RunAgent(ctx context.Context, o AgentOptions) (AgentResult, error) {
	began := time.Now()
	if err := o.settle(); err != nil {
		return AgentResult{}, err
	}
	class, base, err := o.chooseClass(ctx)
	if err != nil {
		return AgentResult{}, err
	}
	mounts, err := o.checkMounts(base)
	if err != nil {
		return AgentResult{}, err
	}
	o.world.runs(class)
	r, err := runAgent(ctx, class, o, mounts, base)
	// After a failure too: an agent that a limit stopped did run in it.
	r.Class, r.Wall = class, time.Since(began)
	return r, err
}

// CheckAgent returns nil if one of the accepted classes can run an agent here.
// RunAgent would say the same, once for each case.
func CheckAgent(ctx context.Context, accept []Class) error {
	_, _, err := (&AgentOptions{Accept: accept}).chooseClass(ctx)
	return err
}

// chooseClass finds the strongest accepted class that works, and settles the
// program that it is made of.
func (o *AgentOptions) chooseClass(ctx context.Context) (Class, *runfolder.Base, error) {
	classes, err := accepted(o.Accept)
	if err != nil {
		return "", nil, err
	}
	if o.Service {
		if !slices.Contains(classes, GVisor) {
			return "", nil, refusal.Newf(refusal.SandboxUnavailable, "user %d in a sandbox: only %s has other users than 0", ServiceUser, GVisor)
		}
		classes = []Class{GVisor}
	}
	if o.Executable, err = resolveExecutable(o.Executable); err != nil {
		return "", nil, err
	}
	base, err := runfolder.Open(o.TempDir)
	if err != nil {
		return "", nil, err
	}
	base.Sweep()
	class, err := firstThatWorks(ctx, classes, o.profile(), ScopeCase, o.Executable, base)
	return class, base, err
}

// profile is a test's if there is no way out.
func (o *AgentOptions) profile() profile {
	switch {
	case o.world != nil:
		return worldProfile
	case o.Gateway == nil:
		return testProfile
	}
	return agentProfile
}

// settle fills what is empty and refuses what makes no sense.
func (o *AgentOptions) settle() error {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return refusal.Newf(refusal.Usage, "no program to run")
	}
	for _, s := range append(append([]string{}, o.Command...), o.Env...) {
		if strings.ContainsRune(s, 0) {
			return refusal.Newf(refusal.Usage, "%q: a zero byte in an argument or a variable", s)
		}
	}
	if o.Dir == "" {
		o.Dir = workDir
	}
	if !path.IsAbs(o.Dir) {
		return refusal.Newf(refusal.Usage, "working folder %q: must be an absolute path", o.Dir)
	}
	if o.GatewayPort == 0 {
		o.GatewayPort = DefaultGatewayPort
	}
	if o.GatewayPort < 1024 || o.GatewayPort > 65535 {
		return refusal.Newf(refusal.Usage, "gateway port %d: must be between 1024 and 65535", o.GatewayPort)
	}
	if o.Tree != "" {
		if o.WorkFolder != "" || o.System || o.Image != nil {
			return refusal.Newf(refusal.Usage, "a root that is being made, and another root or working folder")
		}
		o.WorkFolder = o.Tree
	}
	ports := map[int]bool{o.GatewayPort: true}
	for _, s := range o.Services {
		if s.Port < 1024 || s.Port > 65535 || ports[s.Port] || s.To == nil {
			return refusal.Newf(refusal.Usage, "service port %d: must be between 1024 and 65535, and taken once", s.Port)
		}
		ports[s.Port] = true
	}
	var err error
	if o.WorkFolder != "" {
		if o.WorkFolder, err = filepath.Abs(o.WorkFolder); err != nil {
			return refusal.Newf(refusal.Usage, "%w", err)
		}
	}
	o.Limits, err = o.Limits.orDefaults()
	return err
}

// A Gateway is the inside's one way out: a [net.Listener] that hands out the
// connections that agents make. Serve it with net/http, and close it after
// the last run that uses it.
type Gateway struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewGateway makes a gateway for one run, or for several.
func NewGateway() *Gateway {
	return &Gateway{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for a connection.
func (g *Gateway) Accept() (net.Conn, error) {
	select {
	case c := <-g.conns:
		return c, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return and refuses connections from now on.
func (g *Gateway) Close() error {
	g.once.Do(func() { close(g.closed) })
	return nil
}

// Addr is a name; nothing can be dialled there.
func (g *Gateway) Addr() net.Addr { return gatewayAddr{} }

type gatewayAddr struct{}

func (gatewayAddr) Network() string { return "sandbox" }
func (gatewayAddr) String() string  { return "agent gateway" }

// offer hands a connection to the caller that accepts, or closes it when the
// gateway is closed or gone says that the agent is.
func (g *Gateway) offer(c net.Conn, gone <-chan struct{}) {
	select {
	case g.conns <- c:
	case <-g.closed:
		c.Close()
	case <-gone:
		c.Close()
	}
}
