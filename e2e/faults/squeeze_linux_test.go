package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The tests in this file make a server run short of file descriptors, memory, or disk space while
// clients use it. The server must either recover when the shortage is over, or exit so that it can
// be restarted.

func TestDescriptorsRunOut(t *testing.T) { campaign(t, descriptorRound) }

func TestMemoryLimitIsReached(t *testing.T) { campaign(t, memoryLimitRound) }

func TestMemoryRunsOut(t *testing.T) { campaign(t, memoryRound) }

func TestDiskIsFull(t *testing.T) {
	dir := t.TempDir()
	if err := mountDisk(dir); err != nil {
		t.Skipf("cannot mount a file system for the test: %v", err)
	}
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	campaign(t, diskRound)
}

// shortages is the number of shortages per round.
const shortages = 6

// runShortage runs clients against a server. Meanwhile, it calls short to cause a shortage and,
// after the given time, calls enough to end it. It returns once the server has accepted a record
// again or has exited.
func (w *processWorld) runShortage(ctx context.Context, s *server, short, enough func() error, lasts time.Duration) error {
	clients := newClient(w.history, s.url)
	clients.http.Transport.(*http.Transport).DisableKeepAlives = true // so that each request needs a new file descriptor
	defer clients.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	go func() {
		defer cancel()
		time.Sleep(5 * time.Millisecond)
		failed = short()
		time.Sleep(lasts)
		failed = errors.Join(failed, enough())
	}()
	clients.load(ctx, writers, 1_000_000)
	<-ctx.Done()
	if failed != nil || s.gone() {
		return failed
	}
	for before, until := w.history.acknowledgements(), time.Now().Add(patience); w.history.acknowledgements() == before; {
		clients.ask(context.WithoutCancel(ctx))
		if s.gone() {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("the server does not accept writes after the shortage: %s", &s.log)
		}
	}
	return nil
}

// runShortages calls the function one several times. Each call causes a shortage and returns a
// description of it, or "" if the server did not notice. If the server exits, runShortages calls the
// oracle and restarts the server. It also calls the oracle at the end.
func (w *processWorld) runShortages(ctx context.Context, done *tally, environment []string, flags []string,
	one func(s *server) (what string, err error),
) (err error) {
	var s *server
	defer func() {
		if s != nil && !s.gone() {
			_ = s.signal(syscall.SIGKILL)
		}
	}()
	for range shortages {
		if s == nil || s.gone() {
			if s, err = startServer(ctx, w.data(), environment, flags...); err != nil {
				return err
			}
			if err := w.remembers(ctx, s, max(0, len(w.history.acks)-200)); err != nil {
				return err
			}
		}
		what, err := one(s)
		if err != nil {
			return err
		}
		ended := 0
		if s.gone() {
			ended = 1
		}
		if what != "" {
			done.add(tally{faults: map[string]int{what: 1}})
		}
		done.add(tally{receipts: len(w.history.acks), ended: ended})
		if !s.gone() {
			continue // the files cannot be inspected, because a running server changes them while they are copied
		}
		if err := w.inspect(ctx); err != nil {
			return fmt.Errorf("%w\nits log: %.3000s", err, &s.log)
		}
	}
	if !s.gone() {
		if err := s.signal(syscall.SIGTERM); err != nil {
			return fmt.Errorf("after SIGTERM: %w: %s", err, &s.log)
		}
	}
	return w.inspect(ctx)
}

// descriptorRound limits a server to a few more file descriptors than it has open.
func descriptorRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	dir, remove, err := scratch()
	if err != nil {
		return done, err
	}
	defer remove()
	w := newProcessWorld(dir, name, r.Uint64())
	w.history.largest = 50_000
	flags := []string{"--log-level", "debug"}
	return done, w.runShortages(t.Context(), &done, nil, flags, func(s *server) (string, error) {
		limit := func(n int) func() error { return s.limit(unix.RLIMIT_NOFILE, unix.Rlimit{Cur: uint64(n), Max: 4096}) }
		var open []os.DirEntry
		err := s.withPID(func(pid int) (err error) {
			open, err = os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			return err
		})
		if err != nil {
			return "", err
		}
		before := strings.Count(s.log.String(), "too many open files")
		err = w.runShortage(t.Context(), s, limit(len(open)+r.IntN(5)), limit(4096), time.Duration(10+r.IntN(40))*time.Millisecond)
		if strings.Count(s.log.String(), "too many open files") == before {
			return "", err
		}
		return "too few file descriptors", err
	})
}

// limit returns a function that sets a resource limit of the server's process, if it is still
// running.
func (s *server) limit(resource int, to unix.Rlimit) func() error {
	return func() error {
		return s.withPID(func(pid int) error {
			if err := unix.Prlimit(pid, resource, &to, nil); !errors.Is(err, unix.ESRCH) {
				return err
			}
			return nil
		})
	}
}

// memoryLimitRound sets GOMEMLIMIT to less memory than a server needs.
func memoryLimitRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	dir, remove, err := scratch()
	if err != nil {
		return done, err
	}
	defer remove()
	w := newProcessWorld(dir, name, r.Uint64())
	w.history.smallest, w.history.largest = 1_000, 400_000
	limit := 24 + r.IntN(16)
	environment := []string{fmt.Sprintf("GOMEMLIMIT=%dMiB", limit)}
	return done, w.runShortages(t.Context(), &done, environment, []string{"--log-level", "error"}, func(s *server) (string, error) {
		nothing := func() error { return nil }
		if err := w.runShortage(t.Context(), s, nothing, nothing, 60*time.Millisecond); err != nil {
			return "", err
		}
		if s.gone() {
			return "", fmt.Errorf("the server has exited: %w: %s", s.err, &s.log)
		}
		taken, err := s.memory(t.Context())
		if err != nil {
			return "", err
		}
		if taken < float64(limit<<20) {
			return "", nil
		}
		return "reached", nil
	})
}

// memory returns how many bytes of memory the server's Go runtime holds. GOMEMLIMIT limits this
// number.
func (s *server) memory(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return 0, err
	}
	value := func(name string) float64 { return families[name].GetMetric()[0].GetGauge().GetValue() }
	return value("go_memstats_sys_bytes") - value("go_memstats_heap_released_bytes"), nil
}

// memoryRound limits the address space of a server to its current size. The Go runtime exits when
// it cannot allocate more.
func memoryRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	dir, remove, err := scratch()
	if err != nil {
		return done, err
	}
	defer remove()
	w := newProcessWorld(dir, name, r.Uint64())
	w.history.smallest, w.history.largest = 1_000, 400_000
	return done, w.runShortages(t.Context(), &done, nil, []string{"--log-level", "error"}, func(s *server) (string, error) {
		var pages uint64
		err := s.withPID(func(pid int) error {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
			if err != nil {
				return err
			}
			_, err = fmt.Sscan(string(status), &pages)
			return err
		})
		if err != nil {
			return "", err
		}
		limit := func(n uint64) func() error {
			return s.limit(unix.RLIMIT_AS, unix.Rlimit{Cur: n, Max: unix.RLIM_INFINITY})
		}
		taken := pages * uint64(os.Getpagesize())
		err = w.runShortage(t.Context(), s, limit(taken), limit(unix.RLIM_INFINITY), time.Duration(20+r.IntN(80))*time.Millisecond)
		if s.gone() {
			return "it ended", err
		}
		return "", err
	})
}

// mountDisk mounts a 96 MiB file system at dir.
func mountDisk(dir string) error { return unix.Mount("none", dir, "tmpfs", 0, "size=96m") }

// diskRound fills the small disk of a server completely or almost completely.
func diskRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	dir, err := os.MkdirTemp("", "colophon-faults")
	if err != nil {
		return done, err
	}
	defer os.Remove(dir)
	if err := mountDisk(dir); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH)) }()
	w := newProcessWorld(dir, name, r.Uint64())
	w.history.largest = 50_000
	ballast := filepath.Join(dir, "ballast")
	// With --min-free-space set to only 1 KiB, the disk fills up before the server starts to refuse
	// writes.
	mark := []string{"8MiB", "1KiB"}[r.IntN(2)]
	flags := []string{"--log-level", "error", "--min-free-space", mark}
	return done, w.runShortages(t.Context(), &done, nil, flags, func(s *server) (string, error) {
		leave := []int64{0, 0, int64(r.IntN(1 << 20)), int64(r.IntN(8 << 20))}[r.IntN(4)]
		fill := func() error { return fillDisk(dir, ballast, leave) }
		refused := w.history.refusals()
		err := w.runShortage(t.Context(), s, fill, func() error { return os.Remove(ballast) }, time.Duration(10+r.IntN(60))*time.Millisecond)
		switch {
		case s.gone():
			return "it ended, mark " + mark, err
		case w.history.refusals() > refused:
			return "the server refused writes with --min-free-space " + mark, err
		}
		return "", err
	})
}

// fillDisk creates the file name, which fills the file system that contains dir except for leave
// bytes.
func fillDisk(dir, name string, leave int64) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	size := int64(disk.Bavail)*disk.Bsize - leave
	if size > 0 {
		err = unix.Fallocate(int(file.Fd()), 0, 0, size)
		if errors.Is(err, unix.ENOSPC) { // the server has used the remaining space
			err = nil
		}
	}
	return errors.Join(err, file.Close())
}
