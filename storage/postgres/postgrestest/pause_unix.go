//go:build unix

package postgrestest

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Pause suspends all processes of the server. Its connections stay open. Only KillAll can stop a
// paused server.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// KillAll kills all processes of the server.
func (s *Server) KillAll() error {
	err := s.signal(syscall.SIGKILL)
	<-s.ended
	return err
}

// signal sends a signal to all processes of the server. The first process receives it last.
func (s *Server) signal(signal syscall.Signal) error {
	pid, err := s.PID()
	if err != nil {
		return err
	}
	children, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output() // #nosec G204 -- a number
	if err != nil {
		return fmt.Errorf("listing the processes of the PostgreSQL server: %w", err)
	}
	for _, child := range strings.Fields(string(children)) {
		number, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		if err := syscall.Kill(number, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return syscall.Kill(pid, signal)
}
