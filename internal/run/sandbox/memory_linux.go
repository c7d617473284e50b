package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/proc"
	"tallystick/internal/run/sandbox/runsc"
)

// A memoryWatch looks at a sandbox from outside, a few times a second, and ends
// it when it holds more memory than it may.
type memoryWatch struct {
	limit int64
	meter memoryMeter
	over  chan Verdict // gets an OOM once

	quit chan struct{}
	wg   sync.WaitGroup
	once sync.Once

	mu   sync.Mutex
	most int64
}

// A memoryMeter tells how many bytes the sandbox below a process holds. Every
// class has its own.
type memoryMeter interface {
	look(pid int) int64
	// pause is how long to wait after a look that took so long.
	pause(took time.Duration) time.Duration
}

func newMemoryWatch(limit int64, meter memoryMeter) *memoryWatch {
	return &memoryWatch{limit: limit, meter: meter, over: make(chan Verdict, 1), quit: make(chan struct{})}
}

// start begins when ready is closed, or at once if it is nil.
func (w *memoryWatch) start(r *running, ready <-chan struct{}) {
	w.wg.Go(func() {
		if ready != nil {
			select {
			case <-ready:
			case <-r.exited:
				return
			case <-w.quit:
				return
			}
		}
		for pause := w.meter.pause(0); ; {
			select {
			case <-r.exited:
				return
			case <-w.quit:
				return
			case <-time.After(pause):
			}
			began := time.Now()
			if w.seen(w.meter.look(r.pid)) {
				end(w.over, OOM)
				return
			}
			pause = w.meter.pause(time.Since(began))
		}
	})
}

// end asks for a run's end. Of several reasons the first counts.
func end(over chan<- Verdict, v Verdict) {
	select {
	case over <- v:
	default:
	}
}

// seen notes a sample and reports whether it is too much.
func (w *memoryWatch) seen(held int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(w.most, held)
	return held > w.limit
}

func (w *memoryWatch) stop() {
	w.once.Do(func() { close(w.quit) })
	w.wg.Wait()
}

// peak is the most that was seen.
func (w *memoryWatch) peak() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// wasExceeded reports whether the sandbox ever held too much.
func (w *memoryWatch) wasExceeded() bool { return w.peak() > w.limit }

// A gvisorMemory measures a gVisor sandbox. All its memory is one unnamed file
// of its kernel, so looking is one stat. It is the last line: the limits inside
// the sandbox are exact, this one would catch a way around them.
type gvisorMemory struct {
	state string   // gVisor's description of the sandbox
	file  *os.File // nil until it is found
	noted []int    // the processes as last described
}

// gvisorSlack is for what gVisor keeps in that file beside the program's
// memory: cached file pages, its own tables.
const gvisorSlack = 64 << 20

func (*gvisorMemory) pause(time.Duration) time.Duration { return 20 * time.Millisecond }

func (g *gvisorMemory) look(int) int64 {
	if g.file == nil {
		if g.file = g.find(); g.file == nil {
			return 0
		}
	}
	var st unix.Stat_t
	if unix.Fstat(int(g.file.Fd()), &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// find opens the memory of the sandbox's kernel.
func (g *gvisorMemory) find() *os.File {
	for _, pid := range g.pids() {
		fds, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, fd := range fds {
			if target, _ := os.Readlink(fd); !strings.HasPrefix(target, "/memfd:runsc-memory") {
				continue
			}
			if f, err := os.OpenFile(fd, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
				return f
			}
		}
	}
	return nil
}

// pids are gVisor's kernel and its file server, as gVisor wrote them down last.
// Looking for them among all processes would cost more than everything else
// here together.
func (g *gvisorMemory) pids() []int {
	b, err := os.ReadFile(g.state)
	if err != nil {
		return g.noted // too early, or over
	}
	var state struct {
		GoferPid int `json:"goferPid"`
		Sandbox  struct {
			Pid int `json:"pid"`
		} `json:"sandbox"`
	}
	if json.Unmarshal(b, &state) == nil { // or it is being written
		g.noted = []int{state.Sandbox.Pid, state.GoferPid}
	}
	return g.noted
}

func (g *gvisorMemory) close() {
	if g.file != nil {
		g.file.Close()
	}
}

// A processMemory measures a namespace sandbox by adding up. Where there is a
// cgroup the kernel is faster and exact.
type processMemory struct{ limit int64 }

// pause grows with a look: of many processes the list alone takes a while. But
// on a busy machine so does every look, and there a program must not have
// seconds to fill the memory.
func (processMemory) pause(took time.Duration) time.Duration {
	return min(max(50*time.Millisecond, 20*took), 200*time.Millisecond)
}

// look adds up what the processes have in memory and what is in the sandbox's
// own file systems. A page that several share counts for each at first; only
// if that is too much are they asked for their shares, which takes longer.
func (p processMemory) look(first int) int64 {
	pids := append(proc.Descendants(first), first)
	var files, resident int64
	for _, dir := range []string{"tmp", "dev/shm"} {
		files += proc.UsedOn(fmt.Sprintf("/proc/%d/root/%s", first, dir)).Bytes
	}
	for _, pid := range pids {
		resident += proc.ResidentBytes(pid)
	}
	if resident+files <= p.limit {
		return resident + files
	}
	resident = 0
	for _, pid := range pids {
		resident += proc.SharedOutBytes(pid)
	}
	return resident + files
}

// isGvisor reports whether a process is a part of gVisor. A number that gVisor
// wrote down may have become another process's.
func isGvisor(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && pid > 1 && strings.HasPrefix(string(b), runsc.Name+"-")
}
