package dossier

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/loopback"
	"tallystick/internal/run/bench"
)

// Outside is who else than this machine has seen the history, the most of it first:
// witnesses that two people signed for and that are not themselves, and remotes of
// git that they signed for. What no people signed for is told to the caller and
// counts for nothing: any unsigned file of the workspace is the operator's.
//
// A remote is judged by what this clone has of it: that a push or a fetch put an
// anchor under refs/remotes. Who has a shell here can write such a ref; people look
// at the remote itself before they approve.
func (r *Reading) Outside(ctx context.Context) ([]evidence.Outside, error) {
	seen := make(map[evidence.Outside]int64)
	note := func(kind evidence.OutsideKind, by string, size int64) {
		seen[evidence.Outside{Kind: kind, By: by}] = max(seen[evidence.Outside{Kind: kind, By: by}], size)
	}
	cosigned, err := r.cosigned(r.verified)
	if err != nil {
		return nil, err
	}
	for _, c := range cosigned {
		for _, name := range c.Witnesses {
			note(evidence.OutsideWitness, name, c.Size)
		}
	}
	if r.pins != nil {
		for _, why := range r.ownWitnesses(r.pins, r.verified) {
			r.Note("%s", why)
		}
	}
	for _, address := range r.pinnedRemotes() {
		if isHere(address) {
			r.Note("the remote %s of %s does not count: it is on this machine", address, bench.PinsFile)
			continue
		}
		if size := r.onRemote(ctx, address); size > 0 {
			note(evidence.OutsideGit, address, size)
		}
	}
	out := []evidence.Outside{}
	for o, size := range seen {
		o.Size = size
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b evidence.Outside) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.By, b.By))
	})
	return out, nil
}

func (r *Reading) pinnedRemotes() []string {
	if r.pins == nil || r.pins.Anchors == nil {
		return nil
	}
	return r.pins.Anchors.Remotes
}

// onRemote is the size of the largest anchor of this very ledger that git has from
// a remote of that address; 0 if it has none.
func (r *Reading) onRemote(ctx context.Context, address string) int64 {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	largest := int64(0)
	for _, repository := range r.repositories() {
		pushed := repository.pushedTo(ctx, address)
		if len(pushed) == 0 {
			continue
		}
		anchors, _ := repository.anchors(ctx, r.Settings.Origin)
		for _, a := range anchors {
			_, err := ledger.VerifyAnchor(a.Data, ledger.Policy{Logs: r.verified.EveryKey()})
			if err == nil && pushed[a.Blob] && a.Size > largest && r.History.HeadAfter(a.Size) == a.Head {
				largest = a.Size
			}
		}
	}
	return largest
}

// pushedTo are the files in folders of anchors that the refs of remotes of that
// address lead to.
func (r Repository) pushedTo(ctx context.Context, address string) map[string]bool {
	names, err := r.Run(ctx, nil, "remote")
	if err != nil {
		return nil
	}
	var commits []string
	for name := range strings.Lines(string(names)) {
		name = strings.TrimSuffix(name, "\n")
		// As git would use it: settings may put another in its place.
		used, err := r.Run(ctx, nil, "ls-remote", "--get-url", "--", name)
		if err != nil || !sameAddress(strings.TrimSpace(string(used)), address) {
			continue
		}
		refs, err := r.Run(ctx, nil, "for-each-ref", "--format=%(objectname)", "refs/remotes/"+name+"/")
		if err != nil {
			continue
		}
		commits = append(commits, strings.Fields(string(refs))...)
	}
	found, _ := r.reachable(ctx, commits...)
	return found
}

// sameAddress compares addresses as people write them.
func sameAddress(a, b string) bool {
	plain := func(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "/"), ".git") }
	return plain(a) == plain(b)
}

// isHere reports whether an address of git is on this machine: a path, a file, a
// host that is this one, a program.
func isHere(address string) bool {
	host := ""
	if u, err := url.Parse(address); strings.Contains(address, "://") {
		if err != nil || u.Scheme == "file" {
			return true
		}
		host = u.Hostname()
	} else {
		// host:path, as of scp; everything else is a path, or a program (ext::).
		before, path, found := strings.Cut(address, ":")
		if !found || strings.Contains(before, "/") || strings.HasPrefix(path, ":") || len(before) == 1 {
			return true
		}
		host = strings.Trim(before[strings.LastIndex(before, "@")+1:], "[]")
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	own, _ := os.Hostname()
	ip := net.ParseIP(host)
	return host == "" || loopback.Is(host) || strings.HasSuffix(host, ".localhost") || host == strings.ToLower(own) || ip != nil && ip.IsUnspecified()
}
