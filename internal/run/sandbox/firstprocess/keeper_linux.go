package firstprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/proc"
)

// A keeper is the first process of a warm sandbox. It has the capabilities that
// make a room for a case (mount, pid, network and other namespaces of its own,
// inside the sandbox), and starts in each a first process that has none. The
// agent's code runs in none of these: the preloader forks it into the room.
type keeper struct {
	zygote  int // our end of the socket to the preloader; -1 before
	preload int // its process

	mark string // behind the number of a case: see own_memory in warm.py

	importing atomic.Bool // it was told to import more, and has not said so yet

	mu    sync.Mutex
	rooms map[int]int           // the first process of each case's room
	ends  map[int]chan struct{} // closed at its end
}

// keep does what the harness orders until it is gone.
func keep(inGvisor bool) (status int, err error) {
	k := &keeper{zygote: -1, rooms: map[int]int{}, ends: map[int]chan struct{}{}}
	if inGvisor {
		k.mark = " copies"
	}
	tell(SaysReady, "")
	for {
		buf := make([]byte, MaxPlanBytes)
		n, rights, err := ReceiveMany(Socket, buf, 8)
		if err != nil {
			return 0, nil // the harness is gone, or wants us gone
		}
		var o Order
		if json.Unmarshal(buf[:n], &o) != nil || len(rights) != o.Streams {
			CloseFds(rights)
			return 0, errors.New("an order cannot be read")
		}
		switch {
		case o.End:
			k.end(o.Case)
		case o.Import != nil:
			err = k.importMore(o.Import)
		case o.Case == 0:
			err = k.startPreloader(rights)
		default:
			err = k.startCase(o.Case, rights)
		}
		CloseFds(rights)
		if err != nil {
			k.say(Report{Case: o.Case, Failed: err.Error()})
		}
	}
}

func (k *keeper) say(r Report) {
	b, err := json.Marshal(r)
	if err != nil {
		return
	}
	unix.Sendto(Socket, append([]byte{SaysReport}, b...), unix.MSG_NOSIGNAL, nil)
}

// roomSocket is the descriptor of a room's socket to the keeper.
const roomSocket = 4

// The namespaces of a room. The preloader stays where it can join every room's.
const (
	preloadNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	caseNamespaces    = preloadNamespaces | unix.CLONE_NEWPID
)

// startRoom starts a room's first process, with a socket to us.
func startRoom(namespaces uintptr, stdin, stdout, stderr, channel int) (pid, socket int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, -1, err
	}
	defer unix.Close(fds[1])
	for range 100 {
		pid, err = forkRoom(namespaces, stdin, stdout, stderr, channel, fds[1])
		if err != syscall.EAGAIN { // a case that forks without end is ended soon
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		unix.Close(fds[0])
		return 0, -1, fmt.Errorf("making a room: %w", err)
	}
	return pid, fds[0], nil
}

func forkRoom(namespaces uintptr, files ...int) (pid int, err error) {
	var inherited []uintptr
	for _, fd := range files {
		inherited = append(inherited, uintptr(fd))
	}
	return syscall.ForkExec(Path, []string{Name}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: inherited, Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces}})
}

// startPreloader starts the process that imports and forks.
func (k *keeper) startPreloader(rights []int) error {
	if len(rights) != 4 || k.zygote >= 0 {
		return errors.New("the preloader was ordered wrongly")
	}
	var err error
	if k.preload, k.zygote, err = startRoom(preloadNamespaces, rights[1], rights[2], rights[3], rights[0]); err != nil {
		return err
	}
	go k.listen()
	return nil
}

// importMore has the preloader import what a rehearsal found.
func (k *keeper) importMore(names []string) error {
	b, err := json.Marshal(names)
	if err != nil {
		return err
	}
	k.importing.Store(true)
	return unix.Sendto(k.zygote, b, unix.MSG_NOSIGNAL, nil)
}

// listen hears the preloader: what it imported, then the end of each case.
func (k *keeper) listen() {
	buf := make([]byte, 64<<10)
	for first := true; ; first = false {
		n, rights, err := ReceiveMany(k.zygote, buf, 1)
		CloseFds(rights)
		if err != nil {
			var ws syscall.WaitStatus
			syscall.Wait4(k.preload, &ws, 0, nil)
			k.say(Report{Failed: "the preloader ended " + said(ws)})
			os.Exit(1)
		}
		if first || k.importing.CompareAndSwap(true, false) {
			r := Report{Preloaded: json.RawMessage(append([]byte{}, buf[:n]...)), Left: k.killOthers(), Threads: threadsOf(k.preload)}
			if !first {
				r.Case = OfImports
			}
			if !json.Valid(r.Preloaded) {
				r.Preloaded, r.Failed = nil, HeadString(buf[:min(n, 1000)])
			}
			k.say(r)
			continue
		}
		var id, status int
		if _, err := fmt.Sscanf(string(buf[:n]), "%d %d", &id, &status); err == nil {
			go k.finish(id, status)
		}
	}
}

func said(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "by signal " + strconv.Itoa(int(ws.Signal()))
	}
	return "with status " + strconv.Itoa(ws.ExitStatus())
}

// killOthers ends what imports started: a process that outlived them would see
// every case that comes.
func (k *keeper) killOthers() int {
	killed := map[int]bool{} // one that takes its time to die is met again, and counts once
	for range 100 {
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return len(killed)
		}
		found := false
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() || pid == k.preload || proc.Gone(pid) {
				continue
			}
			if unix.Kill(pid, unix.SIGKILL) == nil {
				found = true
				killed[pid] = true
			}
		}
		reapOrphans()
		if !found {
			return len(killed)
		}
		time.Sleep(time.Millisecond)
	}
	return len(killed)
}

// reapOrphans takes the status of processes that lost their parent.
func reapOrphans() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}

func threadsOf(pid int) (n int) {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "Threads:"); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(rest))
		}
	}
	return n
}

// startCase makes a room and asks the preloader for a process in it.
func (k *keeper) startCase(id int, rights []int) error {
	if len(rights) != 4 || k.zygote < 0 {
		return errors.New("a case was ordered wrongly")
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	fd := int(null.Fd())
	pid, socket, err := startRoom(caseNamespaces, fd, fd, fd, rights[0])
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	k.mu.Lock()
	k.rooms[id], k.ends[id] = pid, ended
	k.mu.Unlock()
	streams := make([]int, 3)
	for i := range streams {
		if streams[i], err = unix.FcntlInt(uintptr(rights[1+i]), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return err
		}
	}
	go func() {
		var ws syscall.WaitStatus
		syscall.Wait4(pid, &ws, 0, nil)
		close(ended)
	}()
	go k.join(id, socket, streams)
	return nil
}

// join waits until the room is ready and hands its namespaces to the preloader.
func (k *keeper) join(id, socket int, streams []int) {
	defer CloseFds(streams)
	defer unix.Close(socket)
	buf := make([]byte, 4096)
	n, doors, err := ReceiveMany(socket, buf, len(roomDoors)+1)
	defer CloseFds(doors)
	if err == nil && len(doors) != len(roomDoors)+1 {
		err = errors.New(string(buf[:n]))
	}
	if err == nil {
		err = unix.Sendmsg(k.zygote, []byte(strconv.Itoa(id)+k.mark), unix.UnixRights(append(doors, streams...)...), nil, unix.MSG_NOSIGNAL)
	}
	if err != nil {
		k.end(id)
		k.say(Report{Case: id, Failed: "making a room: " + err.Error()})
	}
}

// end kills everything in a room: with the first process of its pid namespace
// the kernel ends all of them.
func (k *keeper) end(id int) {
	k.mu.Lock()
	pid, ended := k.rooms[id], k.ends[id]
	k.mu.Unlock()
	if pid == 0 {
		return
	}
	select {
	case <-ended:
	default:
		unix.Kill(pid, unix.SIGKILL)
	}
}

// finish empties the room of a case whose process has ended, and tells.
func (k *keeper) finish(id, status int) {
	k.mu.Lock()
	ended := k.ends[id]
	k.mu.Unlock()
	if ended == nil {
		return
	}
	k.end(id)
	<-ended
	k.mu.Lock()
	delete(k.rooms, id)
	delete(k.ends, id)
	k.mu.Unlock()
	k.say(Report{Case: id, Status: status})
}
