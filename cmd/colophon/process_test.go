package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/testing/locked"
)

// serverURLPattern matches the URL that a server prints when it starts.
var serverURLPattern = regexp.MustCompile(`server +(http://[0-9.:]+)`)

// process is a colophon server in a child process.
type process struct {
	cmd    *exec.Cmd
	output *locked.Buffer
	url    string
	up     bool          // true once the server has printed its URL
	exited chan struct{} // closed when the server has exited
}

// startProcess starts a server on a data folder and waits until it prints its URL or exits.
func startProcess(t *testing.T, data string, args ...string) *process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Error(err)
		return &process{}
	}
	args = append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0"}, args...)
	p := &process{cmd: exec.CommandContext(t.Context(), program, args...), output: new(locked.Buffer), exited: make(chan struct{})}
	p.cmd.Args[0] = "colophon" // with this name, TestMain runs the command instead of the tests
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Error(err)
		return p
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the error is not needed: ProcessState has the exit code
	}()
	for range 6000 {
		if found := serverURLPattern.FindStringSubmatch(p.output.String()); found != nil {
			p.url, p.up = found[1], true
			return p
		}
		if p.gone() {
			return p
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the server neither answers nor exits: %s", p.output)
	return p
}

// gone reports whether the process has exited.
func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// wait waits until the process has exited, and returns its exit code.
func (p *process) wait() int {
	<-p.exited
	return p.cmd.ProcessState.ExitCode()
}

// A single signal ends a command that waits for standard input.
func TestInterruptWhileReading(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	for _, args := range [][]string{
		{"hash", "ipc_record", "-"},
		{"verify", "-", "--key", "a.example+39246bd7+ATr8EL6bHgkV0muUwQK5C26DOXNI5+owk9w9gKpHlJpF"},
		{"import", "--format", "axis-log", "--dry-run", "-"},
	} {
		command := exec.CommandContext(t.Context(), program, args...)
		command.Args[0] = "colophon"
		in, err := command.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, command.Start())
		_, err = in.Write(bytes.Repeat([]byte(" "), 1<<20)) // returns once the command reads, because a pipe holds less
		require.NoError(t, err)
		require.NoError(t, command.Process.Signal(os.Interrupt))
		require.Error(t, command.Wait())
		require.Equal(t, cli.ExitFailed, command.ProcessState.ExitCode(), args)
	}
}
