package ha_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process runs a program and restarts it whenever it exits, as a service manager does.
type process struct {
	name      string
	arguments []string
	log       string
	command   func() *exec.Cmd
	supervise sync.WaitGroup

	mu      sync.Mutex
	pid     int // process ID, or 0 if the program is not running; guarded by mu
	wanted  bool
	until   time.Time // the program is not restarted before this time
	stopped chan struct{}
	starts  int
}

// restartPause is the time between the exit of a program and its restart.
const restartPause = 300 * time.Millisecond

// start runs a program in the folder dir and restarts it whenever it exits, until the test ends. The
// variables in environment are added to the environment of the test.
func start(t testing.TB, dir, name string, environment []string, arguments ...string) *process {
	t.Helper()
	p := &process{name: name, arguments: arguments, log: filepath.Join(dir, name+".log"), wanted: true, stopped: make(chan struct{})}
	credential := account(t)
	p.command = func() *exec.Cmd {
		command := exec.Command(arguments[0], arguments[1:]...)
		command.Dir = dir
		command.Env = append(os.Environ(), environment...)
		command.Env = append(command.Env, "HOME="+dir, "LC_ALL=C.UTF-8")
		command.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Setpgid: true}
		return command
	}
	p.supervise.Go(p.keep)
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		p.supervise.Wait()
		if text, err := os.ReadFile(p.log); err == nil && settings.logs != "" {
			_ = os.WriteFile(filepath.Join(settings.logs, strings.ReplaceAll(t.Name(), "/", "-")+"-"+name+".log"), text, 0o600)
		} else if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, tail(p.log, 1000))
		}
	})
	return p
}

func tail(path string, most int) string {
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-most):])
}

// keep restarts the program whenever it exits, until end is called.
func (p *process) keep() {
	for {
		p.mu.Lock()
		wanted, wait := p.wanted, time.Until(p.until)
		p.mu.Unlock()
		if !wanted {
			return
		}
		if wait > 0 {
			select {
			case <-time.After(min(wait, 100*time.Millisecond)):
			case <-p.stopped:
			}
			continue
		}
		p.once()
		select {
		case <-time.After(restartPause):
		case <-p.stopped:
		}
	}
}

// once runs the program until it exits.
func (p *process) once() {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) // #nosec G302 -- a log of a test
	if err != nil {
		return
	}
	defer log.Close()
	command := p.command()
	command.Stdout, command.Stderr = log, log
	p.mu.Lock()
	if !p.wanted {
		p.mu.Unlock()
		return
	}
	if err := command.Start(); err != nil {
		fmt.Fprintln(log, err)
		p.mu.Unlock()
		return
	}
	p.pid, p.starts = command.Process.Pid, p.starts+1
	p.mu.Unlock()
	// Wait for the process to exit, but do not reap it yet. Otherwise, its ID could be reused before p.pid is
	// reset, and signal would hit another process.
	_, _ = waitUntilEnded(command.Process.Pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid = 0
	_ = command.Wait()
}

// signal sends a signal to the process if it is running.
func (p *process) signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 {
		_ = syscall.Kill(p.pid, signal)
	}
}

// kill kills the process and delays the restart of the program by at least the given time.
func (p *process) kill(away time.Duration) {
	p.mu.Lock()
	p.until = time.Now().Add(away)
	p.mu.Unlock()
	p.signal(syscall.SIGKILL)
}

// end sends a signal to the process, and keeps the program from being restarted.
func (p *process) end(signal syscall.Signal) {
	p.mu.Lock()
	if p.wanted {
		p.wanted = false
		close(p.stopped)
	}
	p.mu.Unlock()
	p.signal(signal)
}

// running returns the ID of the process, or 0 if none is running.
func (p *process) running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// started returns how many times the program has been started.
func (p *process) started() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// children returns the IDs of the direct children of a process.
func children(of int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat) // #nosec G304 -- of a process
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the name of the program can contain spaces
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(of) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// freePort returns a free port on 127.0.0.1 that lies below the range from which the system chooses ports
// for outgoing connections. It never returns the same port twice.
func freePort(t testing.TB) string {
	t.Helper()
	const first, count = 12000, 18000
	for range 1000 {
		port := first + rand.IntN(count) // #nosec G404 -- of a test
		if _, used := ports.LoadOrStore(port, true); used {
			continue
		}
		// Dial the port instead of listening on it, because a process that is being started at this
		// moment could inherit the listener and keep the port in use.
		conn, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err == nil {
			require.NoError(t, conn.Close())
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return strconv.Itoa(port)
		}
	}
	t.Fatal("no port is free")
	return ""
}

var ports sync.Map // ports that freePort has returned

// reaper starts a process that waits until the test process has exited, even if it was killed, and then kills
// all processes whose command line contains dir. This is necessary because Patroni starts PostgreSQL in its
// own session.
func reaper(t testing.TB, dir string) {
	t.Helper()
	const script = `cat >/dev/null
for p in /proc/[0-9]*; do
	[ "${p#/proc/}" = $$ ] || if tr '\0' ' ' <$p/cmdline 2>/dev/null | grep -qF -- "$1"; then kill -9 "${p#/proc/}" 2>/dev/null; fi
done`
	command := exec.Command("sh", "-c", script, "sh", dir+"/")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lifeline, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = lifeline.Close()
		_ = command.Wait()
	})
}
