package ledger

import (
	"bytes"
	"io"
	"runtime"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// blockBytes is how much of a segment one worker hashes at a time: large
// enough that handing it over costs nothing, small enough to stay in cache.
const blockBytes = 256 << 10

// A lineReader cuts a segment into blocks of whole lines and hashes the blocks
// on all cores, while the chain over the digests is walked in order.
type lineReader struct {
	blocks chan *block // in order; closed at the end
	err    error       // set before blocks is closed
	rest   []byte      // bytes after the last newline, set before blocks is closed

	want int // how much to read at a time
	free chan *block
	quit chan struct{}
}

// newFree holds blocks between segments, whose reader is another one.
func newFree() chan *block { return make(chan *block, 4*runtime.GOMAXPROCS(0)) }

// A block is a run of whole lines.
type block struct {
	data  []byte
	end   int // bytes of data that belong to the block
	lines []line
	done  chan struct{} // closed when the lines are hashed
}

type line struct {
	start     int
	bytes     []byte // without newline
	content   digest.Content
	body      evidence.Body
	decodeErr error
}

// readLines reads the lines of r, which is about size bytes long; 0 means
// unknown. It takes its blocks from free.
func readLines(r io.Reader, size int64, decode bool, free chan *block) *lineReader {
	workers := runtime.GOMAXPROCS(0)
	lr := &lineReader{
		want:   blockBytes,
		blocks: make(chan *block, 2*workers),
		free:   free,
		quit:   make(chan struct{}),
	}
	if size > 0 && size < blockBytes {
		lr.want = int(size) + 1 // one more, to meet the end
	}
	work := make(chan *block, 2*workers)
	for range workers {
		go func() {
			for b := range work {
				b.hash(decode)
				close(b.done)
			}
		}()
	}
	go func() {
		defer close(lr.blocks)
		defer close(work)
		lr.read(r, work)
	}()
	return lr
}

// stop ends the reading early.
func (lr *lineReader) stop() {
	close(lr.quit)
	for range lr.blocks { // let the reading goroutine see quit
	}
}

// recycle gives a block's memory back. The caller holds nothing of it.
func (lr *lineReader) recycle(b *block) {
	select {
	case lr.free <- b:
	default:
	}
}

func (lr *lineReader) read(r io.Reader, work chan<- *block) {
	var carry []byte
	for {
		b := lr.newBlock()
		b.data = append(b.data[:0], carry...)
		n, err := fill(r, b, lr.want)
		if n == 0 && err != nil {
			lr.rest = b.data
			if err != io.EOF {
				lr.err = err
			}
			return
		}
		b.end = bytes.LastIndexByte(b.data, '\n') + 1
		if b.end == 0 && len(b.data) > maxLineBytes {
			// One endless line: hand it over as it is, to be refused there.
			b.end = len(b.data)
			carry = nil
		} else {
			carry = bytes.Clone(b.data[b.end:])
		}
		if b.end == 0 {
			continue
		}
		b.done = make(chan struct{})
		select {
		case work <- b:
		case <-lr.quit:
			return
		}
		select {
		case lr.blocks <- b:
		case <-lr.quit:
			return
		}
	}
}

func (lr *lineReader) newBlock() *block {
	select {
	case b := <-lr.free:
		return b
	default:
		return &block{data: make([]byte, 0, lr.want+lr.want/4)}
	}
}

// fill reads up to more bytes into b.
func fill(r io.Reader, b *block, more int) (int, error) {
	old := len(b.data)
	want := old + more
	if cap(b.data) < want {
		b.data = append(make([]byte, 0, want), b.data...)
	}
	n, err := io.ReadFull(r, b.data[old:want])
	b.data = b.data[:old+n]
	if err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, err
}

// hash cuts the block into lines and names the content of each entry.
func (b *block) hash(decode bool) {
	b.lines = b.lines[:0]
	for start := 0; start < b.end; {
		n := bytes.IndexByte(b.data[start:b.end], '\n')
		if n < 0 {
			n = b.end - start
		}
		l := line{start: start, bytes: b.data[start : start+n : start+n]}
		if _, text, err := splitLine(l.bytes); err == nil && !isSeal(text) {
			l.content = digest.ContentOf(text)
			if decode {
				_, l.body, l.decodeErr = evidence.DecodeEntry(text)
			}
		}
		b.lines = append(b.lines, l)
		start += n + 1
	}
}
