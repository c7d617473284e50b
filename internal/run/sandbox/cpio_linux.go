package sandbox

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A cpio writes the archive format that Linux unpacks as its first root:
// "newc", a header of hexadecimal fields, name and content, each padded to
// four bytes (Documentation/driver-api/early-userspace/buffer-format.rst).
// The first error is kept and returned by finish.
type cpio struct {
	w    *bufio.Writer
	size int64
	err  error
}

func newCPIO(w io.Writer) *cpio { return &cpio{w: bufio.NewWriterSize(w, 1<<20)} }

const (
	cpioDir  = 0o040000
	cpioChar = 0o020000
	cpioFile = 0o100000
	cpioLink = 0o120000
)

func (c *cpio) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
		c.size += int64(len(b))
	}
}

func (c *cpio) pad() { c.write(make([]byte, -c.size&3)) }

// header: magic, then inode, mode, uid, gid, links, mtime, size, the numbers
// of the device it is on and of the device it is, length of the name with its
// zero, checksum.
func (c *cpio) header(name string, mode uint32, size int64, major, minor uint32) {
	c.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		0, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0, name))
	c.pad()
}

func (c *cpio) dir(name string) { c.header(name, cpioDir|0o755, 0, 0, 0) }

func (c *cpio) device(name string, major, minor uint32) {
	c.header(name, cpioChar|0o666, 0, major, minor)
}

func (c *cpio) bytes(name string, content []byte, mode uint32) {
	c.header(name, cpioFile|mode, int64(len(content)), 0, 0)
	c.write(content)
	c.pad()
}

func (c *cpio) file(name, from string, mode uint32) {
	if c.err != nil {
		return
	}
	content, err := os.ReadFile(from)
	if err != nil {
		c.err = err
		return
	}
	c.bytes(name, content, mode)
}

// tree adds everything below a folder.
func (c *cpio) tree(name, from string) {
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == from {
			return err
		}
		inside := name + "/" + strings.TrimPrefix(p, from+"/")
		switch {
		case d.IsDir():
			c.dir(inside)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			c.header(inside, cpioLink|0o777, int64(len(target)), 0, 0)
			c.write([]byte(target))
			c.pad()
		default:
			info, err := d.Info()
			if err != nil {
				return err
			}
			c.file(inside, p, uint32(info.Mode().Perm()))
		}
		return c.err
	})
	if c.err == nil {
		c.err = err
	}
}

func (c *cpio) finish() error {
	c.header("TRAILER!!!", 0, 0, 0, 0)
	if c.err == nil {
		c.err = c.w.Flush()
	}
	return c.err
}
