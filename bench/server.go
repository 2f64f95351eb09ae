package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"

	"colophon/bench/system"
)

// server is a contestant that serves HTTP in its own process.
type server struct {
	command *exec.Cmd
	listens map[string]string // addresses of the form host:port; the keys are "server" and "metrics"
	log     bytes.Buffer      // standard error; read it only after the process has exited
}

// endTime is how long a process has to exit after it receives SIGTERM. It is then killed.
const endTime = time.Minute

// addressForm matches the lines in which a server prints its addresses.
var addressForm = regexp.MustCompile(`^\s*(server|metrics)\s+http://([0-9.:]+)`)

// startServer starts a program and waits until it has printed the addresses named in wanted. The
// program inherits the environment of this process, with the variables in environment added.
func startServer(ctx context.Context, wanted []string, environment []string, program string, arguments ...string) (*server, error) {
	s := &server{command: exec.CommandContext(ctx, program, arguments...), listens: make(map[string]string)}
	s.command.Env = append(os.Environ(), environment...)
	s.command.Stderr = &s.log
	s.command.Cancel = func() error { return s.command.Process.Signal(syscall.SIGTERM) }
	s.command.WaitDelay = endTime
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	lines := bufio.NewScanner(out)
	for !s.has(wanted) {
		if !lines.Scan() {
			_ = s.command.Wait() // the error is not needed, because ProcessState has the exit status
			return nil, fmt.Errorf("%s exited before it printed its addresses (%s): %s", program, s.command.ProcessState, s.log.String())
		}
		if found := addressForm.FindSubmatch(lines.Bytes()); found != nil {
			s.listens[string(found[1])] = string(found[2])
		}
	}
	go func() { // drain the output, so that the server never blocks on writing it
		for lines.Scan() {
		}
	}()
	return s, nil
}

func (s *server) has(wanted []string) bool {
	for _, name := range wanted {
		if s.listens[name] == "" {
			return false
		}
	}
	return true
}

func (s *server) pid() int { return s.command.Process.Pid }

// stop sends SIGTERM to the server and waits until it has exited.
func (s *server) stop() error {
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping %s: %w", s.command.Path, err)
	}
	if err := s.command.Wait(); err != nil {
		return fmt.Errorf("running %s: %w: %s", s.command.Path, err, s.log.String())
	}
	return nil
}

// rest waits until the server's background work is done. It assumes that this is the case once the
// server has used less than 5 % of a processor for a second.
func (s *server) rest(ctx context.Context) error {
	for {
		before, err := system.UsageOf(s.pid())
		if err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := system.UsageOf(s.pid())
		if err != nil || after.CPU-before.CPU < 50*time.Millisecond {
			return err
		}
	}
}
