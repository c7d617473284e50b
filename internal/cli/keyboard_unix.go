//go:build linux || darwin

package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// takeKeys changes the terminal and reads it until the context ends or it is closed.
func takeKeys(ctx context.Context, in io.Reader) *keyboard {
	f, ok := in.(*os.File)
	if !ok {
		return nil
	}
	fd := int(f.Fd())
	if front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && front != unix.Getpgrp() {
		return nil // in the background: reading or changing the terminal would stop the program
	}
	was, err := unix.IoctlGetTermios(fd, getTerminal)
	if err != nil {
		return nil
	}
	m := &mode{fd: fd, was: *was}
	if m.take() != nil {
		return nil
	}
	k := &keyboard{keys: make(chan byte)}
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { m.followSignals(ctx) })
	both.Go(func() { k.read(ctx, fd) })
	k.close = sync.OnceFunc(func() {
		cancel()
		both.Wait()
		m.giveBack()
	})
	return k
}

// A mode is a terminal that gives single keys, and what it was before.
type mode struct {
	fd  int
	was unix.Termios

	mu    sync.Mutex
	taken bool
}

// take has the terminal give keys at once and show none. A read that finds no key ends
// after a fifth of a second, so that its reader notices the end.
func (m *mode) take() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.was
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 0, 2
	err := unix.IoctlSetTermios(m.fd, setTerminal, &now)
	m.taken = err == nil
	return err
}

func (m *mode) giveBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken {
		m.taken = false
		unix.IoctlSetTermios(m.fd, setTerminal, &m.was)
	}
}

// followSignals gives the terminal back before the program is stopped or dies of a signal
// that the program does not wait for, and takes it again when it goes on. Ctrl-C and
// SIGTERM end the watch, which closes the keyboard.
func (m *mode) followSignals(ctx context.Context) {
	got := make(chan os.Signal, 4)
	all := []os.Signal{syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGQUIT, syscall.SIGHUP}
	signal.Notify(got, all...)
	defer signal.Stop(got)
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-got:
			if s == syscall.SIGCONT {
				_ = m.take()
				continue
			}
			m.giveBack()
			if s == syscall.SIGTSTP {
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // Ctrl-Z, as if we had not looked
				continue
			}
			signal.Reset(s)
			_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
		}
	}
}

// read gives the keys away, one by one.
func (k *keyboard) read(ctx context.Context, fd int) {
	defer close(k.keys)
	var key [1]byte
	for ctx.Err() == nil {
		n, err := unix.Read(fd, key[:])
		switch {
		case err == unix.EINTR || err == unix.EAGAIN || err == nil && n == 0:
		case err != nil:
			return
		default:
			select {
			case k.keys <- key[0]:
			case <-ctx.Done():
			}
		}
	}
}
