package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/record/seal"
)

// A cluster is three NATS servers in this process.
type cluster struct {
	servers map[string]*bus.Server // by name
	urls    []string
	key     *seal.Key // of the operator
}

// TestCluster runs an attempt over three NATS servers and kills one of them.
func TestCluster(t *testing.T) {
	c := &cluster{servers: map[string]*bus.Server{}}
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.Stop()
		}
	})
	testscript.Run(t, testscript.Params{Dir: "testdata/cluster", RequireExplicitExec: true, RequireUniqueNames: true, Setup: isolate,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"root": cmdRoot, "cases": cmdCases, "cluster": c.start, "kill-leader": c.killLeader, "recorded-once": cmdRecordedOnce}})
}

// cases N writes a dataset of N cases.
func cmdCases(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"c%06d","input":"x","model":[{"text":"y"}],"expected":"y","grade":{"kind":"exact"}}`+"\n", i)
	}
	ts.Check(os.WriteFile(ts.MkAbs("bench/sums/dataset.jsonl"), []byte(lines.String()), 0o644))
}

// cluster OPERATOR-KEY WORKER.pub... starts three servers that know these, and sets
// $CLUSTER to their addresses.
func (c *cluster) start(ts *testscript.TestScript, _ bool, args []string) {
	var err error
	c.key, err = seal.ParseKey([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	coordinator, err := bus.UserOf(c.key.Public())
	ts.Check(err)
	var workers []string
	for _, file := range args[1:] {
		key, err := seal.ParsePublicKey([]byte(strings.TrimSpace(ts.ReadFile(file))))
		ts.Check(err)
		user, err := bus.UserOf(key)
		ts.Check(err)
		workers = append(workers, user)
	}
	routes, err := freeAddresses(3)
	ts.Check(err)
	for i, route := range routes {
		name := fmt.Sprintf("n%d", i)
		s, err := bus.Start(bus.ServerOptions{Listen: "127.0.0.1:0", Dir: ts.MkAbs(name), Name: name, Coordinator: coordinator, Workers: workers, Cluster: route, Routes: routes})
		ts.Check(err)
		c.servers[name], c.urls = s, append(c.urls, s.URL())
	}
	ts.Setenv("CLUSTER", strings.Join(c.urls, ","))
}

func freeAddresses(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, fmt.Sprint(l.Addr()))
	}
	return addresses, nil
}

const isScored = `"kind":"case.scored"`

const segment = ".tally/ledger/segments/0000000000000000.log"

// countRecorded counts the records of cases that are in the ledger now.
func countRecorded(ts *testscript.TestScript) int {
	data, err := os.ReadFile(ts.MkAbs(segment))
	ts.Check(err)
	return bytes.Count(data, []byte(isScored))
}

// kill-leader N kills the server that leads the queue when N cases are recorded.
func (c *cluster) killLeader(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	deadline := time.Now().Add(5 * time.Minute)
	for countRecorded(ts) < n {
		if time.Now().After(deadline) {
			ts.Fatalf("%d cases are not recorded after five minutes", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	nc, err := bus.ConnectCoordinator(strings.Join(c.urls, ","), c.key, fleet.Access{})
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	leader := ""
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		leader = info.Cluster.Leader
	}
	ts.Check(streams.Err())
	s := c.servers[leader]
	if s == nil {
		ts.Fatalf("no server leads the queue: %q", leader)
	}
	s.Stop()
	delete(c.servers, leader)
	ts.Logf("killed %s after %d records", leader, countRecorded(ts))
}

// recorded-once N wants N cases in the ledger, each recorded once.
func cmdRecordedOnce(ts *testscript.TestScript, _ bool, args []string) {
	seen, id := map[string]int{}, regexp.MustCompile(`"case_id":"([^"]*)"`)
	for line := range strings.Lines(ts.ReadFile(segment)) {
		if strings.Contains(line, isScored) {
			seen[id.FindStringSubmatch(line)[1]]++
		}
	}
	for id, n := range seen {
		if n != 1 {
			ts.Fatalf("case %s is recorded %d times", id, n)
		}
	}
	if got := strconv.Itoa(len(seen)); got != args[0] {
		ts.Fatalf("%s cases are recorded, expected %s", got, args[0])
	}
}
