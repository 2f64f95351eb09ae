package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// server is a process that runs the serve command on a data folder.
type server struct {
	command *exec.Cmd
	log     logged
	url     string // "" until the server has printed it
	ended   chan struct{}
	err     error // error from waiting for the process; set before ended is closed

	// mu is held while the process is reaped. After that, the operating system can reuse the process
	// ID.
	mu     sync.Mutex
	waited bool // guarded by mu
}

// withPID calls do with the process ID unless the process has already been reaped. The ID remains
// valid until do returns.
func (s *server) withPID(do func(pid int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waited {
		return nil
	}
	return do(s.command.Process.Pid)
}

// logged collects a server's standard error.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// execServer starts a server and returns immediately. The channel receives the server's URL when
// the server is ready, and is closed when the server closes its output.
func execServer(ctx context.Context, data string, environment []string, flags ...string) (*server, <-chan string, error) {
	s := &server{ended: make(chan struct{})}
	arguments := append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--cache", "1MiB", "--index-cache", "16MiB"}, flags...)
	s.command = exec.CommandContext(ctx, settings.binary, arguments...)
	s.command.Env = append(os.Environ(), environment...)
	s.command.Stderr = &s.log
	banner, err := s.command.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, nil, err
	}
	ready := make(chan string, 1)
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(banner); lines.Scan(); {
			if name, at, found := strings.Cut(strings.TrimSpace(lines.Text()), " "); found && name == "server" {
				ready <- strings.TrimSpace(at)
			}
		}
		close(ready)
		s.mu.Lock() // not held for long, because a process that has closed its output exits soon
		defer s.mu.Unlock()
		s.err = s.command.Wait()
		s.waited = true
	}()
	return s, ready, nil
}

// startServer starts a server and waits until it is ready. The variables in environment are added
// to the environment of the test. If the server exits before it is ready, startServer returns an
// error.
func startServer(ctx context.Context, data string, environment []string, flags ...string) (*server, error) {
	s, ready, err := execServer(ctx, data, environment, flags...)
	if err != nil {
		return nil, err
	}
	if s.url = <-ready; s.url == "" {
		<-s.ended
		return nil, fmt.Errorf("the server did not start: %w: %s", s.err, &s.log)
	}
	return s, nil
}

// signal sends a signal and waits until the process has exited. If the process has not exited after
// patience, signal kills it and returns an error.
func (s *server) signal(how os.Signal) error {
	if err := s.command.Process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return s.err
	case <-time.After(patience):
		_ = s.command.Process.Kill()
		<-s.ended
		return fmt.Errorf("it did not exit within %s after %s: %s", patience, how, &s.log)
	}
}

// gone reports whether the server has exited.
func (s *server) gone() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// processWorld is a data folder that several servers use one after another.
type processWorld struct {
	fileWorld
}

func newProcessWorld(dir, name string, seed uint64) *processWorld {
	return &processWorld{fileWorld{dir: dir, history: newHistory(name, seed)}}
}

func (w *processWorld) data() string { return filepath.Join(w.dir, "data") }

// remembers checks that a restarted server returns every acknowledged event, unchanged and at the
// same seq. It skips the receipts whose index is less than from.
func (w *processWorld) remembers(ctx context.Context, s *server, from int) error {
	for _, a := range w.history.acks[from:] {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/v1/ledgers/default/records/%d", s.url, a.seq), nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if hash := fmt.Sprintf("%x", a.receipt.EventHash); response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(hash)) {
			return fmt.Errorf("LOST: attempt %d was acknowledged as event %d, %s, but the server responds with status %d: %s",
				a.attempt.id, a.seq, hash, response.StatusCode, answer)
		}
	}
	return nil
}
