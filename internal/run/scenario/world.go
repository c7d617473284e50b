package scenario

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/tools"
)

// A World is the environment of a case: a program that the agent acts on by tools and
// services, and whose state is graded. It runs in a sandbox of its own, fresh for each
// case. The agent is shown nothing of its files.
type World struct {
	// Command is started in /world, which holds the case's folder world/ and the files
	// of Tree, read-only.
	Command []string `json:"command"`

	// Tree names a list of files in the class's [bench.TreesFile].
	Tree *digest.Content `json:"tree,omitempty"`

	// Image is the root file system, by digest; without one it is the host's programs.
	Image *digest.Content `json:"image,omitempty"`

	// Seed and Data are what the world is reset with.
	Seed int64            `json:"seed,omitempty"`
	Data canon.RawMessage `json:"data,omitempty"`

	// Tools says how it speaks MCP: stdio (if left out), or http at MCP.
	Tools string        `json:"tools,omitempty"`
	MCP   *WorldAddress `json:"mcp,omitempty"`

	// ToolsDigest pins what it says of its tools.
	ToolsDigest *digest.Content `json:"tools_digest,omitempty"`

	// Services are the ports of it that the agent may reach.
	Services []WorldService `json:"services,omitempty"`

	// Deterministic says that the same calls give the same bytes: it is run again
	// wherever tools run again, and compared. Of another one the recording answers.
	Deterministic bool `json:"deterministic,omitempty"`

	// Tracebacks is show (if left out), or hide: of a failed tool the agent is told the
	// last line of the traceback, without the names of files.
	Tracebacks string `json:"tracebacks,omitempty"`

	Limits *WorldLimits `json:"limits,omitempty"`
}

// Bounds are the limits that the case gives.
func (w *World) Bounds() WorldLimits {
	if w.Limits == nil {
		return WorldLimits{}
	}
	return *w.Limits
}

// A WorldAddress is a place on the world's own loopback.
type WorldAddress struct {
	Port int    `json:"port"`
	Path string `json:"path,omitempty"`
}

// A WorldService is a port that the agent may reach, at the same number of its own
// loopback.
type WorldService struct {
	Name     string `json:"name"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
}

// WorldLimits bound a world. What is 0 has a default.
type WorldLimits struct {
	StartSeconds int   `json:"start_seconds,omitempty"` // until it is reset and says that it is healthy
	CallSeconds  int   `json:"call_seconds,omitempty"`  // for each call
	MemoryBytes  int64 `json:"memory_bytes,omitempty"`
	DiskBytes    int64 `json:"disk_bytes,omitempty"`
	StateBytes   int64 `json:"state_bytes,omitempty"`
	Processes    int   `json:"processes,omitempty"`
}

// How a world speaks MCP.
const (
	WorldStdio = "stdio"
	WorldHTTP  = "http"
)

// What an agent is told of a tool that failed.
const (
	ShowTracebacks = "show"
	HideTracebacks = "hide"
)

// The protocols that a service may name. Nothing of them is parsed: the name is for
// people.
var worldProtocols = []string{"tcp", "http", "postgresql", "mysql", "redis", "smtp", "imap", "ssh"}

// gatewayPort is taken in every agent's sandbox.
const gatewayPort = 4180

// Bounds on what a world is told.
const (
	maxWorldData     = 1 << 20
	maxWorldServices = 16
	maxWorldState    = 16 << 20
)

// validate checks what the types do not say.
func (w *World) validate() error {
	switch {
	case len(w.Command) == 0 || w.Command[0] == "" || len(w.Command) > 256:
		return field("command", "found %d words, expected a program and its arguments", len(w.Command))
	case slices.ContainsFunc(w.Command, func(s string) bool { return len(s) > 4096 || strings.ContainsRune(s, 0) }):
		return field("command", "found a word of more than 4096 bytes, or with a zero byte")
	case w.Seed < 0 || w.Seed > 1<<53-1:
		return field("seed", "found %d, expected 0 to %d", w.Seed, int64(1<<53-1))
	case len(w.Data) > maxWorldData:
		return field("data", "found %d bytes, expected at most %d", len(w.Data), maxWorldData)
	case w.Tools != "" && w.Tools != WorldStdio && w.Tools != WorldHTTP:
		return field("tools", "found %.40q, expected stdio or http", w.Tools)
	case (w.Tools == WorldHTTP) != (w.MCP != nil):
		return field("mcp", "expected a port exactly when tools is http")
	case w.Tracebacks != "" && w.Tracebacks != ShowTracebacks && w.Tracebacks != HideTracebacks:
		return field("tracebacks", "found %.40q, expected show or hide", w.Tracebacks)
	}
	if m := w.MCP; m != nil {
		if err := checkWorldPort(m.Port); err != nil {
			return strictyaml.At([]string{"mcp", "port"}, err)
		}
		if m.Path != "" && (m.Path[0] != '/' || !fs.ValidPath(strings.Trim(m.Path, "/")) || len(m.Path) > 200) {
			return strictyaml.At([]string{"mcp", "path"}, fmt.Errorf("found %.80q, expected a path such as /mcp", m.Path))
		}
	}
	if len(w.Services) > maxWorldServices {
		return field("services", "found %d, expected at most %d", len(w.Services), maxWorldServices)
	}
	names, ports := map[string]bool{}, map[int]bool{}
	if w.MCP != nil {
		ports[w.MCP.Port] = true
	}
	for i, s := range w.Services {
		err := s.validate()
		switch {
		case err != nil:
		case names[s.Name]:
			err = fmt.Errorf("two services are called %s", s.Name)
		case ports[s.Port]:
			err = fmt.Errorf("port %d is taken already", s.Port)
		}
		if err != nil {
			return fieldAt("services", i, err)
		}
		names[s.Name], ports[s.Port] = true, true
	}
	limits := w.Bounds()
	return limits.validate()
}

func (s *WorldService) validate() error {
	if err := bench.CheckID(s.Name); err != nil {
		return err
	}
	if !slices.Contains(worldProtocols, s.Protocol) {
		return fmt.Errorf("found the protocol %.40q, expected one of %s", s.Protocol, strings.Join(worldProtocols, ", "))
	}
	return checkWorldPort(s.Port)
}

func checkWorldPort(port int) error {
	if port < 1024 || port > 65535 || port == gatewayPort {
		return fmt.Errorf("found the port %d, expected 1024 to 65535, and not %d, which is the gateway's", port, gatewayPort)
	}
	return nil
}

func (l *WorldLimits) validate() error {
	for _, n := range []struct {
		name       string
		value      int64
		least, top int64
	}{
		{"start_seconds", int64(l.StartSeconds), 1, 600}, {"call_seconds", int64(l.CallSeconds), 1, 600},
		{"memory_bytes", l.MemoryBytes, 64 << 20, 64 << 30}, {"disk_bytes", l.DiskBytes, 1, 64 << 30},
		{"state_bytes", l.StateBytes, 1, maxWorldState}, {"processes", int64(l.Processes), 32, 4096},
	} {
		if n.value != 0 && (n.value < n.least || n.value > n.top) {
			return strictyaml.At([]string{"limits", n.name}, fmt.Errorf("found %d, expected %d to %d", n.value, n.least, n.top))
		}
	}
	return nil
}

// validateWorld checks the world of a case, and that only a case with one has tools of
// a world.
func (s *Scenario) validateWorld() error {
	if s.World == nil {
		for i, d := range s.Tools {
			if d.Source == tools.World {
				return strictyaml.At([]string{"tools", fmt.Sprint(i), "source"}, fmt.Errorf("the tool %s is one of the case's world, and the case has none", d.Name))
			}
		}
		return nil
	}
	if err := s.World.validate(); err != nil {
		return strictyaml.At(append([]string{"world"}, strictyaml.PathOf(err)...), err)
	}
	return nil
}

// checkWorld checks the files of the case's world.
func (c *Task) checkWorld() error {
	if len(c.World) == 0 {
		return nil
	}
	if c.Scenario.World == nil {
		return refusal.Newf(refusal.Malformed, "there are files for a world, and the case has none").
			WithHint("say what to start with world: in scenario.yaml, or take the folder world/ away")
	}
	if _, err := (&digest.Tree{Files: c.World}).Digest(); err != nil {
		return refusal.Newf(refusal.Malformed, "the files of its world, of the tree and of world/ together: %w", err)
	}
	return nil
}

// WorldDigest names the files of the case's world; zero if it has none.
func (c *Task) WorldDigest() (digest.Content, error) {
	if len(c.World) == 0 {
		return digest.Content{}, nil
	}
	return (&digest.Tree{Files: c.World}).Digest()
}

// GraderFiles are what a program that grades the case finds: the tree, if it names one,
// and the case's own.
func (c *Task) GraderFiles(tree *digest.Content) ([]digest.File, error) {
	files := c.Grader
	if tree != nil {
		if c.tree == nil {
			return nil, refusal.Newf(refusal.Malformed, "case %s: a line of a dataset has no trees; the grader's files stand in grader_files", c.ID)
		}
		shared, err := c.tree(*tree)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
		files = append(shared, files...)
	}
	if len(files) == 0 {
		return nil, nil
	}
	if _, err := (&digest.Tree{Files: files}).Digest(); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "case %s: the files of its grader: %w", c.ID, err)
	}
	return files, nil
}
