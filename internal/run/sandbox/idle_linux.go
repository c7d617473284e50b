package sandbox

import (
	"tallystick/internal/run/sandbox/firstprocess"
)

// An idleRoom is a room that waits for a case, with a fork of the preloader in
// it. It is made while other cases run, so that the next one need not wait for
// it; and nothing of a case is known to it before it has one.
type idleRoom struct {
	id      int
	channel *channel // to its first process
	streams *streams // of the fork
	answer  chan firstprocess.Report
}

// makeRoom orders a room.
func (b *warmBox) makeRoom() (*idleRoom, error) {
	c, err := openChannel(nil, firstprocess.Plan{Room: b.room(), Hold: true})
	if err != nil {
		return nil, err
	}
	s, err := newStreams()
	if err != nil {
		c.close()
		return nil, err
	}
	b.mu.Lock()
	b.last++
	p := &idleRoom{id: b.last, channel: c, streams: s}
	b.mu.Unlock()
	p.answer = b.expect(p.id)
	err = b.order(firstprocess.Order{Case: p.id}, c.theirs, s.inR, s.outW, s.errW)
	s.closeTheirs()
	if err != nil {
		b.leave(p)
		return nil, err
	}
	c.start()
	return p, nil
}

// takeRoom returns a room for a case, and has the next one made.
func (b *warmBox) takeRoom() (*idleRoom, error) {
	defer b.prepareNext()
	for p := b.popIdle(); p != nil; p = b.popIdle() {
		select {
		case <-p.answer: // it ended, for want of a process at the time
			b.leave(p)
		default:
			return p, nil
		}
	}
	return b.makeRoom()
}

func (b *warmBox) popIdle() *idleRoom {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.idle) == 0 {
		return nil
	}
	p := b.idle[0]
	b.idle = b.idle[1:]
	return p
}

// prepareNext has a room made for a case to come, unless the sandbox is being
// closed.
func (b *warmBox) prepareNext() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closing {
		b.making.Go(b.addIdle)
	}
}

// addIdle makes a room for a case to come. That it cannot be made now says
// nothing: the case will try itself.
func (b *warmBox) addIdle() {
	p, err := b.makeRoom()
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, p)
}

// leave lets go of a room. What is in it is the keeper's to end.
func (b *warmBox) leave(p *idleRoom) {
	b.mu.Lock()
	delete(b.waiting, p.id)
	b.mu.Unlock()
	p.channel.close()
	p.streams.closeOurs()
}

// leaveAll lets go of the rooms that never had a case.
func (b *warmBox) leaveAll() {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	b.making.Wait()
	for p := b.popIdle(); p != nil; p = b.popIdle() {
		b.leave(p)
	}
}
