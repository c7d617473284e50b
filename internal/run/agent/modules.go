package agent

import (
	"os"
	"path/filepath"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox"
)

// modulesInside is where a program finds its packages of node. Node looks for
// them in node_modules beside a file and in every folder above it, so those of
// /agent are found here.
const modulesInside = "/node_modules"

// modules are the installed packages of a program for node.
type modules struct {
	dir    string // on the host, absolute
	digest digest.Content
}

func openModules(root, name string) (*modules, error) {
	dir, err := findAbove(root, name)
	if err != nil {
		return nil, refusal.Newf(refusal.NotFound, "node_modules: %w", err).WithHint("install them as your project does: npm ci, pnpm install")
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil, refusal.Newf(refusal.Malformed, "node_modules: %s is not a folder", dir)
	}
	m := &modules{dir: dir}
	m.digest, err = digestInstalled(dir, []string{dir})
	return m, err
}

// mount is what a sandbox needs of them. A link is followed here, since the
// folder that it leads to may not exist inside.
func (m *modules) mount() sandbox.Mount {
	host := m.dir
	if real, err := filepath.EvalSymlinks(host); err == nil {
		host = real
	}
	return sandbox.Mount{Host: host, Inside: modulesInside, Within: host}
}
