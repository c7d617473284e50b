// Package faultfs is a file system in memory for tests of what a crash leaves.
//
// It keeps apart what was written and what was synced. [Disk.Crash] gives the
// disk as the next process finds it after this one was killed: everything
// written is there. [Disk.PowerCut] gives one of the disks that a power cut
// may leave: of everything not synced, any sectors of 512 bytes and any
// changes of names may be lost, whatever the order they were made in. Syncing
// a file says nothing about its name; that takes a sync of its folder.
//
// A [Fault] makes one operation go wrong. The disk is harsher than real disks in
// every way we know of but one: a sector is written whole or not at all.
package faultfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"tallystick/internal/record/store"
)

// Sector is how much of a file is written whole or not at all.
const Sector = 512

// A Kind is a way for an operation to go wrong.
type Kind int

// The kinds of faults.
const (
	None       Kind = iota
	FailBefore      // EIO, and nothing was done
	FailAfter       // EIO, and it was done all the same
	Short           // a write stops in the middle with EIO; nothing else does
	NoSpace         // a write stops in the middle with ENOSPC, and everything else that needs space fails from then on
	Kill            // the process ends here, before the operation
	KillAfter       // the process ends here, in the middle of a write or after anything else
	Forget          // a sync of a file fails with EIO, and the kernel forgets that anything is left to write, as Linux does
	ForgetKill      // the same, and the process ends here
)

// Kinds lists the faults.
func Kinds() []Kind {
	return []Kind{FailBefore, FailAfter, Short, NoSpace, Kill, KillAfter, Forget, ForgetKill}
}

func (k Kind) String() string {
	return [...]string{"none", "fail before", "fail after", "short", "no space", "kill", "kill after", "forget", "forget and kill"}[k]
}

// A Fault makes the operation of that number, counted from 0, go wrong.
type Fault struct {
	At   int
	Kind Kind
}

// A Disk is a file system. The zero value is not usable; see [New].
type Disk struct {
	mu      sync.Mutex
	live    map[string]*node // names as a running process sees them
	durable map[string]*node // names that a power cut leaves for certain
	pending []change         // changes of names since, in order
	fault   Fault
	ops     int
	hit     bool // the fault happened
	dead    bool // the process was killed
	full    bool
	written int64
	log     []string
}

// A node is a file or folder, whatever its names.
type node struct {
	mode   fs.FileMode
	data   []byte
	synced []byte
	older  [][]byte // contents since the last sync, of which any sector may survive
	// forgotten are sectors of data that a failed sync left unwritten: readers
	// see them, and no later sync writes them unless they are written again.
	forgotten map[int]bool
	locked    *file
}

// A change sets or removes (nil) names, all of them or none.
type change struct {
	dir   string
	names map[string]*node
}

// New returns a disk with the folder root on it.
func New(root string) *Disk {
	d := &Disk{live: map[string]*node{}, durable: map[string]*node{}}
	for dir := filepath.Clean(root); ; dir = filepath.Dir(dir) {
		n := &node{mode: fs.ModeDir | 0o700}
		d.live[dir], d.durable[dir] = n, n
		if dir == filepath.Dir(dir) {
			return d
		}
	}
}

// Inject sets the fault and starts counting operations at 0.
func (d *Disk) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.ops, d.log, d.hit = f, 0, nil, false
}

// Hit reports whether the fault happened: there was such an operation, and it
// can go wrong in that way.
func (d *Disk) Hit() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hit
}

// Ops is how many operations there were since [Disk.Inject].
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// Log names the operations since [Disk.Inject].
func (d *Disk) Log() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

// Written is how many bytes were ever written to files.
func (d *Disk) Written() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.written
}

// Crash returns the disk as the next process finds it when this one is gone.
// What was not synced still is not.
func (d *Disk) Crash() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copy()
}

// copy clones the disk without its fault and its locks.
func (d *Disk) copy() *Disk {
	nodes := map[*node]*node{nil: nil}
	clone := func(n *node) *node {
		if c, done := nodes[n]; done {
			return c
		}
		c := &node{mode: n.mode, data: slices.Clone(n.data), synced: n.synced, older: slices.Clone(n.older), forgotten: maps.Clone(n.forgotten)}
		nodes[n] = c
		return c
	}
	c := &Disk{live: map[string]*node{}, durable: map[string]*node{}}
	for name, n := range d.live {
		c.live[name] = clone(n)
	}
	for name, n := range d.durable {
		c.durable[name] = clone(n)
	}
	for _, ch := range d.pending {
		names := map[string]*node{}
		for name, n := range ch.names {
			names[name] = clone(n)
		}
		c.pending = append(c.pending, change{ch.dir, names})
	}
	return c
}

// PowerCut returns one of the disks that a power cut may leave, chosen by seed.
// Seed 0 loses everything that was not synced.
func (d *Disk) PowerCut(seed uint64) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.copy()
	r := rand.New(rand.NewPCG(seed, 0))
	keep := func() bool { return seed != 0 && r.IntN(2) == 0 }
	names := maps.Clone(c.durable)
	for _, ch := range c.pending {
		if keep() {
			apply(names, ch.names)
		}
	}
	// A name in a folder that is gone is gone too.
	for name := range names {
		for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
			if names[dir] == nil {
				delete(names, name)
				break
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	done := map[*node]bool{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n := names[name]
		if !done[n] {
			done[n] = true
			n.data = n.survive(r, keep)
			n.synced, n.older, n.forgotten = slices.Clone(n.data), nil, nil
		}
	}
	return &Disk{live: names, durable: maps.Clone(names)}
}

// survive picks, for the length and for each sector, one of the contents that
// the file had since it was last synced. A hole reads as zeros.
func (n *node) survive(r *rand.Rand, keep func() bool) []byte {
	if !keep() || len(n.older) == 0 {
		return slices.Clone(n.synced)
	}
	versions := append(slices.Clone(n.older), n.data)
	pick := func() []byte { return versions[r.IntN(len(versions))] }
	out := make([]byte, len(pick()))
	for at := 0; at < len(out); at += Sector {
		if v := pick(); at < len(v) {
			copy(out[at:min(at+Sector, len(out))], v[at:])
		}
	}
	return out
}

func apply(names, change map[string]*node) {
	for name, n := range change {
		if n == nil {
			delete(names, name)
		} else {
			names[name] = n
		}
	}
}

// rename changes names in a folder, for now in the live view only.
func (d *Disk) rename(dir string, names map[string]*node) {
	apply(d.live, names)
	d.pending = append(d.pending, change{dir, names})
}

// step counts an operation and decides what becomes of it: whether to do it,
// and what to return. A write that is cut short does half.
func (d *Disk) step(op, name string, needsSpace bool) (do bool, half bool, err error) {
	if d.dead {
		return false, false, syscall.EIO
	}
	n := d.ops
	d.ops++
	d.log = append(d.log, op+" "+name)
	if d.fault.Kind == None || n != d.fault.At {
		if d.full && needsSpace {
			return false, false, syscall.ENOSPC
		}
		return true, false, nil
	}
	isWrite := strings.HasPrefix(op, "write")
	forgets := d.fault.Kind == Forget || d.fault.Kind == ForgetKill
	if d.fault.Kind == Short && !isWrite || d.fault.Kind == NoSpace && !needsSpace || forgets && op != "sync" {
		return true, false, nil
	}
	d.hit = true
	switch d.fault.Kind {
	case FailBefore:
		return false, false, syscall.EIO
	case FailAfter:
		return true, false, syscall.EIO
	case Short:
		return true, true, syscall.EIO
	case NoSpace:
		d.full = true
		return isWrite, isWrite, syscall.ENOSPC
	case KillAfter:
		d.dead = true
		return true, isWrite, syscall.EIO
	case Forget, ForgetKill:
		d.dead = d.fault.Kind == ForgetKill
		return true, false, errForgotten
	}
	d.dead = true
	return false, false, syscall.EIO
}

// errForgotten is EIO that a sync returns after it has forgotten what to write.
var errForgotten = fmt.Errorf("%w, and the pages are clean", syscall.EIO)

// OpenFile opens a file.
func (d *Disk) OpenFile(name string, flag int, perm fs.FileMode) (store.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	n := d.live[name]
	do, _, err := d.step("open", name, n == nil && flag&os.O_CREATE != 0)
	if !do {
		return nil, pathError("open", name, err)
	}
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, pathError("open", name, syscall.ENOENT)
	case n == nil && d.live[filepath.Dir(name)] == nil:
		return nil, pathError("open", name, syscall.ENOENT)
	case n == nil:
		n = &node{mode: perm}
		d.rename(filepath.Dir(name), map[string]*node{name: n})
	case flag&os.O_EXCL != 0:
		return nil, pathError("open", name, syscall.EEXIST)
	case n.mode.IsDir() && flag&(os.O_WRONLY|os.O_RDWR) != 0:
		return nil, pathError("open", name, syscall.EISDIR)
	case flag&os.O_TRUNC != 0:
		n.set(nil)
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &file{d: d, n: n, name: name}, nil
}

// set changes a file's contents and remembers those before.
func (n *node) set(data []byte) {
	if len(n.older) == 0 {
		n.older = append(n.older, n.synced)
	}
	if len(n.older) < 64 {
		n.older = append(n.older, n.data)
	}
	n.data = data
}

// Rename renames a file.
func (d *Disk) Rename(oldName, newName string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldName, newName = filepath.Clean(oldName), filepath.Clean(newName)
	do, _, err := d.step("rename", newName, true)
	if !do {
		return pathError("rename", oldName, err)
	}
	n := d.live[oldName]
	if n == nil {
		return pathError("rename", oldName, syscall.ENOENT)
	}
	d.rename(filepath.Dir(newName), map[string]*node{oldName: nil, newName: n})
	return wrap("rename", oldName, err)
}

// Remove removes a file.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	do, _, err := d.step("remove", name, false)
	if !do {
		return pathError("remove", name, err)
	}
	if d.live[name] == nil {
		return pathError("remove", name, syscall.ENOENT)
	}
	d.rename(filepath.Dir(name), map[string]*node{name: nil})
	return wrap("remove", name, err)
}

// Mkdir makes one folder.
func (d *Disk) Mkdir(name string, perm fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	do, _, err := d.step("mkdir", name, true)
	switch {
	case !do:
		return pathError("mkdir", name, err)
	case d.live[name] != nil:
		return pathError("mkdir", name, syscall.EEXIST)
	case d.live[filepath.Dir(name)] == nil:
		return pathError("mkdir", name, syscall.ENOENT)
	}
	d.rename(filepath.Dir(name), map[string]*node{name: {mode: fs.ModeDir | perm}})
	return wrap("mkdir", name, err)
}

// ReadDir lists a folder.
func (d *Disk) ReadDir(name string) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	do, _, err := d.step("readdir", name, false)
	if !do || err != nil {
		return nil, pathError("readdir", name, err)
	}
	if d.live[name] == nil {
		return nil, pathError("readdir", name, syscall.ENOENT)
	}
	var entries []fs.DirEntry
	for _, path := range slices.Sorted(maps.Keys(d.live)) {
		if filepath.Dir(path) == name && path != name {
			entries = append(entries, fs.FileInfoToDirEntry(info{path, *d.live[path]}))
		}
	}
	return entries, nil
}

// Lstat is Stat: this disk has no links.
func (d *Disk) Lstat(name string) (fs.FileInfo, error) { return d.Stat(name) }

// Stat describes a file.
func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	do, _, err := d.step("stat", name, false)
	if !do || err != nil {
		return nil, pathError("stat", name, err)
	}
	n := d.live[name]
	if n == nil {
		return nil, pathError("stat", name, syscall.ENOENT)
	}
	return info{name, *n}, nil
}

// SyncDir makes the names in a folder durable.
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	do, _, err := d.step("syncdir", name, false)
	if !do {
		return pathError("sync", name, err)
	}
	if d.live[name] == nil {
		return pathError("sync", name, syscall.ENOENT)
	}
	d.pending = slices.DeleteFunc(d.pending, func(c change) bool {
		if c.dir == name {
			apply(d.durable, c.names)
		}
		return c.dir == name
	})
	return wrap("sync", name, err)
}

// file is an open file.
type file struct {
	d    *Disk
	n    *node
	name string
	at   int64 // where Read and Write go on
}

func (f *file) Read(p []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	n, err := f.read(p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	n, err := f.read(p, at)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *file) read(p []byte, at int64) (int, error) {
	if do, _, err := f.d.step("read", f.name, false); !do || err != nil {
		return 0, pathError("read", f.name, err)
	}
	if f.n.mode.IsDir() {
		return 0, pathError("read", f.name, syscall.EISDIR)
	}
	if at >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	return copy(p, f.n.data[at:]), nil
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.write("write", p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *file) WriteAt(p []byte, at int64) (int, error) { return f.write("writeat", p, at) }

func (f *file) write(op string, p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	do, half, err := f.d.step(op, f.name, true)
	if !do {
		return 0, pathError("write", f.name, err)
	}
	if half {
		p = p[:len(p)/2]
	}
	data := slices.Clone(f.n.data)
	if grow := int(at) + len(p) - len(data); grow > 0 {
		data = append(data, make([]byte, grow)...)
	}
	copy(data[at:], p)
	f.n.set(data)
	for s := int(at) / Sector; s*Sector < int(at)+len(p); s++ {
		delete(f.n.forgotten, s)
	}
	f.d.written += int64(len(p))
	return len(p), wrap("write", f.name, err)
}

func (f *file) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	do, _, err := f.d.step("truncate", f.name, false)
	if !do {
		return pathError("truncate", f.name, err)
	}
	f.n.set(append(slices.Clone(f.n.data[:min(size, int64(len(f.n.data)))]), make([]byte, max(0, size-int64(len(f.n.data))))...))
	return wrap("truncate", f.name, err)
}

func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	do, _, err := f.d.step("sync", f.name, false)
	if !do {
		return pathError("sync", f.name, err)
	}
	if errors.Is(err, errForgotten) {
		f.n.forget()
		return pathError("sync", f.name, err)
	}
	f.n.synced, f.n.older = f.n.written(), nil
	return wrap("sync", f.name, err)
}

// forget makes everything that is not on disk look as if it were.
func (n *node) forget() {
	if n.forgotten == nil {
		n.forgotten = map[int]bool{}
	}
	for at := 0; at < len(n.data); at += Sector {
		end := min(at+Sector, len(n.data))
		if end > len(n.synced) || !bytes.Equal(n.data[at:end], n.synced[at:end]) {
			n.forgotten[at/Sector] = true
		}
	}
}

// written is what a sync that succeeds leaves on disk: forgotten sectors stay
// as they were there.
func (n *node) written() []byte {
	out := slices.Clone(n.data)
	for s := range n.forgotten {
		if at := s * Sector; at < len(out) {
			sector := out[at:min(at+Sector, len(out))]
			clear(sector)
			if at < len(n.synced) {
				copy(sector, n.synced[at:])
			}
		}
	}
	return out
}

func (f *file) Stat() (fs.FileInfo, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if do, _, err := f.d.step("stat", f.name, false); !do || err != nil {
		return nil, pathError("stat", f.name, err)
	}
	return info{f.name, *f.n}, nil
}

func (f *file) TryLock() (bool, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if do, _, err := f.d.step("lock", f.name, false); !do || err != nil {
		return false, pathError("lock", f.name, err)
	}
	if f.n.locked != nil && f.n.locked != f {
		return false, nil
	}
	f.n.locked = f
	return true, nil
}

func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	_, _, err := f.d.step("close", f.name, false)
	// A descriptor is gone after close whatever close says.
	if f.n.locked == f {
		f.n.locked = nil
	}
	return wrap("close", f.name, err)
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return pathError(op, name, err)
}

// info describes a node as it was.
type info struct {
	name string
	n    node
}

func (i info) Name() string       { return filepath.Base(i.name) }
func (i info) Size() int64        { return int64(len(i.n.data)) }
func (i info) Mode() fs.FileMode  { return i.n.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.n.mode.IsDir() }
func (i info) Sys() any           { return nil }
