package gaia

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"tallystick/internal/record/loopback"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/share/dataset"
)

// A Hub is where the data set is published.
type Hub struct {
	URL      string // of the hub; [DefaultHub] if empty
	Token    string // of a user who accepted the terms
	Revision string // a branch or a commit; main if empty
}

// DefaultHub publishes GAIA.
const DefaultHub = "https://huggingface.co"

const hubDataSet = "gaia-benchmark/GAIA"

// ReadHub downloads a split into a folder that is gone afterwards, and reads it. It
// was tested against a server on this machine and never run against the real hub.
func ReadHub(ctx context.Context, h Hub, o Options) (*Data, error) {
	dir, remove, err := store.TempDir("tally-gaia-")
	if err != nil {
		return nil, err
	}
	defer remove()
	c := &hubClient{Hub: h, dir: dir, split: o.Split, client: http.Client{Timeout: 10 * time.Minute}}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	if err := c.metadata(ctx); err != nil {
		return nil, err
	}
	o.Path, o.Revision = dir, c.commit
	return Read(o)
}

type hubClient struct {
	Hub
	dir, split, commit string
	client             http.Client
}

// check refuses to send a token where others could read it.
func (c *hubClient) check() error {
	if c.URL == "" {
		c.URL = DefaultHub
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" {
		return refusal.Newf(refusal.Usage, "--hub-url %.100q: expected an address such as %s", c.URL, DefaultHub)
	}
	if u.Scheme != "https" && !loopback.Is(u.Hostname()) {
		return refusal.Newf(refusal.Usage, "--hub-url %s: a token is sent over https only", c.URL)
	}
	if c.Token == "" {
		return refusal.Newf(refusal.Usage, "GAIA is gated: no token").WithHint("accept its terms on the hub, and put your token into the environment variable HF_TOKEN")
	}
	c.URL = strings.TrimSuffix(c.URL, "/")
	return nil
}

var commitShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}$`) })

// resolve asks which commit the revision is, so that everything comes from one.
func (c *hubClient) resolve(ctx context.Context) error {
	rev := c.Revision
	if rev == "" {
		rev = "main"
	}
	data, err := c.get(ctx, "/api/datasets/"+hubDataSet+"/revision/"+url.PathEscape(rev), 16<<20)
	if err != nil {
		return err
	}
	var about struct {
		SHA string `json:"sha"`
	}
	if json.Unmarshal(data, &about) != nil || !commitShape().MatchString(about.SHA) {
		return refusal.Newf(refusal.Malformed, "%s: the hub names no commit for the revision %.80q", c.URL, rev)
	}
	c.commit = about.SHA
	return nil
}

// metadata downloads the table of the split, and the files that its rows name.
func (c *hubClient) metadata(ctx context.Context) error {
	name := "metadata.jsonl"
	err := c.file(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		name = "metadata.parquet"
		err = c.file(ctx, name)
	}
	if err != nil {
		return err
	}
	t, _, err := dataset.ReadTable(filepath.Join(c.dir, name))
	if err != nil {
		return err
	}
	for _, row := range t.Rows {
		file, _ := row.Values["file_name"].(string)
		if file == "" || !isPlainName(file) {
			continue // reading the folder refuses it, with its place
		}
		if err := c.file(ctx, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", row.Place, err)
		}
	}
	return nil
}

func (c *hubClient) file(ctx context.Context, name string) error {
	data, err := c.get(ctx, fmt.Sprintf("/datasets/%s/resolve/%s/2023/%s/%s", hubDataSet, c.commit, c.split, url.PathEscape(name)), maxAttachment)
	if err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, filepath.Join(c.dir, name), data, 0o600)
}

// get reads one answer of the hub. The token goes to the hub alone: the client
// leaves it out when the hub sends it elsewhere.
func (c *hubClient) get(ctx context.Context, path string, most int64) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return nil, refusal.Newf(refusal.Usage, "%s: %w", c.URL, err)
	}
	q.Header.Set("Authorization", "Bearer "+c.Token)
	reply, err := c.client.Do(q)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "the hub: %w", err).WithHint("download the data set yourself and give its folder")
	}
	defer reply.Body.Close()
	switch {
	case reply.StatusCode == http.StatusNotFound:
		return nil, refusal.Newf(refusal.NotFound, "the hub has no %s: %w", path, fs.ErrNotExist)
	case reply.StatusCode == http.StatusUnauthorized || reply.StatusCode == http.StatusForbidden:
		return nil, refusal.Newf(refusal.Unreadable, "the hub refuses %s with status %d", path, reply.StatusCode).WithHint("accept the terms of the data set with the account that HF_TOKEN belongs to")
	case reply.StatusCode != http.StatusOK:
		return nil, refusal.Newf(refusal.Unreadable, "the hub answers %s with status %d", path, reply.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(reply.Body, most+1))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "the hub: %s: %w", path, err)
	}
	if int64(len(data)) > most {
		return nil, refusal.Newf(refusal.TooLarge, "%s has more than %d bytes", path, most)
	}
	return data, nil
}
