package hostile_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The attackers share the cores with the server, and no server can reserve this processor time for
// its writes. The control measures how much this slows down writes: the same clients send the same
// requests to a process that reads and refuses them, and use as much processor time per second as
// in the attack. The test divides the write speed during the attack by the write speed during the
// control.

// refuserEnv is the environment variable that makes this test binary run as a server that refuses
// every request.
const refuserEnv = "COLOPHON_HOSTILE_REFUSER"

// startRefuser starts a server in its own process that reads every request and refuses it.
func startRefuser(t *testing.T) *process {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	p := &process{command: exec.Command(program)}
	p.command.Env = append(os.Environ(), refuserEnv+"=1")
	p.command.Stderr = os.Stderr
	out, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // the process has no state to lose
		_ = p.command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	p.address = strings.TrimSpace(line)
	return p
}

// refuseAll runs a server that refuses every request. It prints the address it listens on to out.
func refuseAll(out io.Writer) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(out, listener.Addr())
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the answer is the same even if reading the body fails
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"type":"about:blank","title":"Not Found","status":404,"detail":"refused"}`)
	})}
	_ = server.Serve(listener)
}

// ownTime returns the processor time that the test's own process has used.
func ownTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// time returns the processor time that the process has used, or 0 if the system does not report it.
func (p *process) time() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // skips the name of the process, which can contain spaces
	fields := strings.Fields(rest)
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// attackFor sends requests from all clients for the given time, and returns how many it sent.
// Together, the clients use at most share seconds of processor time per second.
func (s *attacker) attackFor(length time.Duration, share float64) (requests int64) {
	var sent atomic.Int64
	begin, used := time.Now(), ownTime()
	s.attackWhile(func(n int) bool {
		for {
			passed := time.Since(begin)
			if passed >= length {
				return false
			}
			if (ownTime() - used).Seconds() <= share*passed.Seconds() {
				sent.Add(int64(n))
				return true
			}
			time.Sleep(time.Millisecond)
		}
	})
	return sent.Load()
}
