package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// runNamespace runs the program on the host's kernel.
func (a *agentRun) runNamespace(ctx context.Context) (AgentResult, error) {
	limits := a.options.Limits
	group := newCgroup(a.folder, limits.MemoryBytes+namespaceOverhead, limits.Tasks+64)
	if group != nil {
		defer group.remove()
	}
	plan := a.plan()
	plan.Build = &agentBuild{Root: a.folder.path("root"), TmpSize: limits.MemoryBytes, Watch: !a.options.Blind, Rlimits: agentRlimits(limits)}
	for i, m := range a.mounts {
		plan.Build.Mounts = append(plan.Build.Mounts, buildMount{From: a.binds[i].source(), At: m.inside, Folder: m.folder, Writable: m.writable})
	}
	if err := a.channel.send(plan); err != nil {
		return AgentResult{}, err
	}
	l := &launch{
		executable: a.options.Executable,
		args:       []string{agentName},
		cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		files:      []*os.File{a.theirs},
		binds:      a.binds,
		cgroup:     group,
	}
	memory := newProcessWatch(limits.MemoryBytes)
	disk := newDiskWatch(a.workFolder(), limits.DiskBytes, memory.over)
	defer disk.stop()
	s := &supervisor{attempts: a.seen, watch: !a.options.Blind, agent: true, done: make(chan struct{})}
	started := false
	e, err := converse(ctx, a.talk(), memory.over, func(stdin, stdout, stderr *os.File) (*running, error) {
		r, err := l.start(stdin, stdout, stderr)
		a.theirs.Close()
		if err != nil {
			return nil, err
		}
		started = true
		a.channel.start()
		go s.superviseAgent(a.channel, r.pid)
		memory.start(r, a.channel.ready)
		disk.start(r)
		return r, nil
	})
	if !started {
		return AgentResult{}, err
	}
	memory.stop()
	a.channel.close()
	<-s.done
	if err != nil {
		return AgentResult{}, err
	}
	if e.verdict == "" {
		if err := errors.Join(a.channel.err, s.err); err != nil {
			return AgentResult{}, err
		}
	}
	r := a.verdict(e)
	r.MaxRSS = memory.peak()
	r.withCgroup(group)
	return r, nil
}

// superviseAgent waits until the sandbox is built and then answers the
// kernel's questions until nobody is left to ask about.
func (s *supervisor) superviseAgent(c *agentChannel, pid int) {
	defer close(s.done)
	select {
	case <-c.ready:
	case <-c.done:
		return
	}
	if c.listener < 0 {
		s.err = errors.New("the sandbox sent no listener")
		return
	}
	s.listen(c.listener, pid)
}

// A processWatch adds up the memory of a namespace sandbox, a few times a
// second, and ends it when that is too much. Where there is a cgroup the
// kernel is faster and exact.
type processWatch struct {
	limit int64
	over  chan Verdict // gets an OOM once

	quit chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	most int64
}

const (
	processEvery        = 50 * time.Millisecond
	processAtLeastEvery = 200 * time.Millisecond
)

func newProcessWatch(limit int64) *processWatch {
	return &processWatch{limit: limit, over: make(chan Verdict, 1), quit: make(chan struct{})}
}

// start begins once the sandbox is built: before, its folders are the host's.
func (w *processWatch) start(r *running, ready <-chan struct{}) {
	w.wg.Go(func() {
		select {
		case <-ready:
		case <-r.exited:
			return
		case <-w.quit:
			return
		}
		for pause := processEvery; ; {
			select {
			case <-r.exited:
				return
			case <-w.quit:
				return
			case <-time.After(pause):
			}
			began := time.Now()
			used := w.look(r.pid)
			// Of many processes the list alone takes a while. But on a busy
			// machine so does every look, and there a program must not have
			// seconds to fill the memory.
			pause = min(max(processEvery, 20*time.Since(began)), processAtLeastEvery)
			w.mu.Lock()
			w.most = max(w.most, used)
			w.mu.Unlock()
			if used > w.limit {
				end(w.over, OOM)
				return
			}
		}
	})
}

func (w *processWatch) stop() {
	close(w.quit)
	w.wg.Wait()
}

func (w *processWatch) peak() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// look adds up what the processes have in memory and what is in the sandbox's
// own file systems. A page that several share counts for each at first; only
// if that is too much are they asked for their shares, which takes longer.
func (w *processWatch) look(first int) int64 {
	pids := append(descendants(first), first)
	var files, resident int64
	for _, dir := range []string{"tmp", "dev/shm"} {
		files += usedOn(fmt.Sprintf("/proc/%d/root/%s", first, dir))
	}
	for _, pid := range pids {
		resident += residentBytes(pid)
	}
	if resident+files <= w.limit {
		return resident + files
	}
	resident = 0
	for _, pid := range pids {
		resident += sharedOutBytes(pid)
	}
	return resident + files
}

func residentBytes(pid int) int64 {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// sharedOutBytes is a process's proportional share.
func sharedOutBytes(pid int) int64 {
	share := residentBytes(pid) // if the kernel will not tell
	eachLine(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"), func(line string) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64); err == nil {
				share = n << 10
			}
		}
	})
	return share
}
