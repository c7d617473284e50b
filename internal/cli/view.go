package cli

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/viewer"
	"tallystick/internal/serve/viewer/desk"
)

type viewOptions struct {
	addr   string
	noOpen bool
	files  []string

	bundle    string
	overwrite bool
	attempts  []string

	public bool
	publicOptions

	write bool
	writeOptions
}

func newView(env *Env) *cobra.Command {
	var o viewOptions
	cmd := &cobra.Command{
		Use:     "view [FILE...]",
		Short:   "Look at the workspace in a browser",
		Example: "tally view",
		Long: `Verify the ledger and show the workspace as web pages on this machine: classes, attempts,
cases with their transcripts, comparisons, the corpus, the ledger. It prints the address,
which has a token that lets one browser in, once, and opens a browser; it runs until it is
stopped. The pages only read, unless --write is given. They follow the ledger while it grows. The operator's key, if
it is here, signs each page that is sent, so that the browser can tell a page that was
changed on its way; it signs nothing else.

A FILE is a result of another harness, as "tally import" reads it: it is shown beside.

No browser is opened with --no-open, with TALLY_NO_BROWSER=1, or when the output is not a
terminal.

--public shows the pages to others on the network. A reader who has the token of --token-file
opens http://HOST:PORT/?token=TOKEN once, or types it into the form that everybody else
sees; the token becomes a cookie. Behind a proxy that
knows who people are, --proxy-header names the header in which it says so, which counts only
from the addresses of --proxy-from. The server speaks plain HTTP: put a proxy with TLS before
it. Requests that name it otherwise than by its address or a --host are refused. --cors lets
pages of other origins, such as a verify.html opened from disk, ask for receipts, the
checkpoint and the keys, with the token as "Authorization: Bearer".

--write lets the one browser that is let in review, label and correct cases and sign and
accept drafts, as the person whose --key or --gpg it is. Nothing is signed in the browser:
for each signature this terminal shows what it read from the disk, and asks. With
--agent-asks it shows the same and does not ask, for a key in an agent that asks by itself
("ssh-add -c"; give the .pub file). It is for this machine only.

--bundle writes the pages into a new folder instead, for any web server that sends files:
every page that links lead to, with receipts, keys and scripts, so that browsers check them
there too. What the viewer hides stays out. The operator's key signs the list of the files
if it is at hand, and "tally verify DIR" verifies them.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = args
			return o.run(cmd, env)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.addr, "listen", "127.0.0.1:0", "`ADDRESS` to listen on, of this machine's loopback unless --public is given; port 0 takes a free one")
	f.BoolVar(&o.noOpen, "no-open", false, "print the address and open no browser")
	f.StringVar(&o.bundle, "bundle", "", "write the pages as files into the new folder `DIR`, and serve nothing")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace an earlier bundle in DIR")
	f.StringArrayVar(&o.attempts, "attempt", nil, "write only the pages of attempt `ID`, and none of the ledger's entries; may be given again")
	f.BoolVar(&o.public, "public", false, "let others on the network look; needs --token-file, or --proxy-header with --proxy-from")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the token that lets readers in")
	f.StringVar(&o.proxyHeader, "proxy-header", "", "header `NAME` in which a proxy says who a reader is")
	f.StringArrayVar(&o.proxyFrom, "proxy-from", nil, "addresses `CIDR` of the proxy; may be given again")
	f.StringArrayVar(&o.hosts, "host", nil, "`NAME` by which readers reach the server; may be given again")
	f.BoolVar(&o.write, "write", false, "review, label, correct and accept in the browser; every signature is confirmed at this terminal")
	f.StringVar(&o.key, "key", "", "SSH key `FILE` of the person who works in the browser")
	f.StringVar(&o.gpg, "gpg", "", gpgFlag)
	f.BoolVar(&o.agentAsks, "agent-asks", false, "the key's agent asks before it signs, so this terminal does not")
	f.BoolVar(&o.cors, "cors", false, "let pages of other origins ask for receipts, checkpoint and keys")
	return cmd
}

// run does what the flags ask for: pages on this machine, for others, or as files.
func (o *viewOptions) run(cmd *cobra.Command, env *Env) error {
	given := func(names ...string) string {
		for _, name := range names {
			if cmd.Flags().Changed(name) {
				return name
			}
		}
		return ""
	}
	if name := given("overwrite", "attempt"); name != "" && o.bundle == "" {
		return refusal.Newf(refusal.Usage, "--%s is for --bundle", name)
	}
	if name := given("token-file", "proxy-header", "proxy-from", "host", "cors"); name != "" && !o.public {
		return refusal.Newf(refusal.Usage, "--%s is for --public", name)
	}
	if name := given("key", "gpg", "agent-asks"); name != "" && !o.write {
		return refusal.Newf(refusal.Usage, "--%s is for --write", name)
	}
	switch {
	case o.write && (o.public || o.bundle != ""):
		return refusal.Newf(refusal.Usage, "--write is for the owner of this machine: not with --public, and not with --bundle")
	case o.write:
		if err := o.writeOptions.check(env); err != nil {
			return err
		}
	}
	switch {
	case o.bundle != "" && o.public:
		return refusal.Newf(refusal.Usage, "--bundle writes files and --public serves pages: give one of them")
	case o.bundle != "":
		return runBundle(cmd.Context(), env, *o)
	case o.public:
		return runPublic(cmd.Context(), env, *o)
	}
	return runView(cmd.Context(), env, *o)
}

func runBundle(ctx context.Context, env *Env, o viewOptions) error {
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	v, err := viewer.Open(viewer.Config{Place: p, Files: o.files, Still: true})
	if err != nil {
		return err
	}
	defer v.Close()
	b, err := v.WriteBundle(ctx, viewer.BundleAsk{Dir: o.bundle, Overwrite: o.overwrite, Attempts: o.attempts, Accept: acceptSite(env)})
	if err != nil {
		return err
	}
	return env.Answer(b, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d files, %d bytes, of %d entries of %s\n", plain.Line(b.Dir), b.Files, b.Bytes, b.TreeSize, plain.Line(b.Origin))
		if b.Signed {
			fmt.Fprintf(w, "signed; \"tally verify %s --key KEY\" verifies it anywhere\n", plain.Line(b.Dir))
		} else {
			fmt.Fprintf(w, "NOT SIGNED, so \"tally verify\" refuses it: %s\n", plain.Line(b.Unsigned))
		}
	})
}

func runView(ctx context.Context, env *Env, o viewOptions) error {
	at, err := netip.ParseAddrPort(strings.Replace(o.addr, "localhost:", "127.0.0.1:", 1))
	if err != nil || !at.Addr().IsLoopback() {
		return refusal.Newf(refusal.Usage, "--listen %s: expected a loopback address, as in 127.0.0.1:7575", o.addr).
			WithHint("--public is for others on the network")
	}
	var d *desk.Desk
	if o.write {
		if d, err = openDesk(ctx, env, o.writeOptions); err != nil {
			return err
		}
		defer d.Close()
	}
	v, err := openViewer(env, viewer.Config{Files: o.files, Owner: true, Desk: d})
	if err != nil {
		return err
	}
	defer v.Close()
	token := viewer.NewToken()
	removeDoorstep := func() error { return nil }
	defer func() { removeDoorstep() }()
	return viewer.Serve(ctx, v, viewer.Door{Token: token, Write: o.write}, at.String(), func(url string) error {
		url += "/?token=" + token
		if !o.noOpen && env.Getenv("TALLY_NO_BROWSER") != "1" && isTerminal(env.Stdout) {
			removeDoorstep = viewer.OpenBrowser(url)
		}
		return env.Answer(map[string]string{"url": url}, func(w io.Writer) { fmt.Fprintln(w, url) })
	})
}

// openViewer opens the pages of the workspace.
func openViewer(env *Env, c viewer.Config) (*viewer.Viewer, error) {
	viewer.StayFrugal()
	p, err := openPlace(env)
	if err != nil {
		return nil, err
	}
	c.Place, c.Now = p, env.Now
	v, err := viewer.Open(c)
	if err == nil {
		v.Prepare()
	}
	return v, err
}

// publicOptions say who else may look.
type publicOptions struct {
	tokenFile   string
	proxyHeader string
	proxyFrom   []string
	hosts       []string
	cors        bool
}

func runPublic(ctx context.Context, env *Env, o viewOptions) error {
	door, err := o.door()
	if err != nil {
		return err
	}
	v, err := openViewer(env, viewer.Config{Files: o.files})
	if err != nil {
		return err
	}
	defer v.Close()
	return viewer.Serve(ctx, v, door, o.addr, func(url string) error {
		return env.Answer(map[string]string{"url": url}, func(w io.Writer) { fmt.Fprintln(w, url) })
	})
}

// door is who may come in.
func (o publicOptions) door() (viewer.Door, error) {
	door := viewer.Door{ProxyHeader: o.proxyHeader, Hosts: o.hosts, CORS: o.cors}
	switch {
	case (o.tokenFile == "") == (o.proxyHeader == ""):
		return door, refusal.Newf(refusal.Usage, "give --token-file, or --proxy-header with --proxy-from").
			WithHint("otherwise every user who reaches the address could read everything")
	case (o.proxyHeader == "") != (len(o.proxyFrom) == 0):
		return door, refusal.Newf(refusal.Usage, "--proxy-header and --proxy-from belong together: every client can write a header")
	}
	for _, s := range o.proxyFrom {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return door, refusal.Newf(refusal.Usage, "--proxy-from %s: expected a network, as in 10.0.0.5/32", s)
		}
		door.ProxyFrom = append(door.ProxyFrom, p)
	}
	if o.tokenFile == "" {
		return door, nil
	}
	var err error
	door.Shared, err = viewer.LoadToken(o.tokenFile)
	return door, err
}
