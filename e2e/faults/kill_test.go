package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"
)

// The tests in this file check that a server process loses no acknowledged record if it is killed
// or receives SIGTERM while clients use it.

func TestKill(t *testing.T) { campaign(t, killRound) }

func TestTerminate(t *testing.T) { campaign(t, terminateRound) }

const (
	kills   = 6
	writers = 6
)

// killRound starts one server after another on the same data folder and kills each of them with
// SIGKILL, sometimes during startup. After each kill under load, it calls the oracle.
func killRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	dir, err := os.MkdirTemp("", "colophon-faults") // on a real disk, so that commits take time
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(dir)
	w := newProcessWorld(dir, name, r.Uint64())
	w.history.largest = 50_000
	done.faults = make(map[string]int)
	known := 0 // number of receipts that clients had before the current server started
	for range kills {
		if r.IntN(6) == 0 {
			if err := w.killAtStart(t.Context(), time.Duration(r.IntN(120))*time.Millisecond); err != nil {
				return done, err
			}
			done.faults["as it starts"]++
		}
		s, err := startServer(t.Context(), w.data(), nil, "--log-level", "error")
		if err != nil {
			return done, err
		}
		if err := w.remembers(t.Context(), s, known); err != nil {
			return done, errors.Join(err, s.command.Process.Kill())
		}
		known = len(w.history.acks)
		w.killUnderLoad(t.Context(), s, time.Duration(1+r.IntN(100))*time.Millisecond)
		done.faults["under load"]++
		done.receipts += len(w.history.acks)
		if err := w.inspect(t.Context()); err != nil {
			return done, fmt.Errorf("%w\nits log: %s", err, &s.log)
		}
	}
	return done, nil
}

// killAtStart starts a server and kills it after the given time.
func (w *processWorld) killAtStart(ctx context.Context, after time.Duration) error {
	s, _, err := execServer(ctx, w.data(), nil)
	if err != nil {
		return err
	}
	time.Sleep(after)
	_ = s.signal(syscall.SIGKILL)
	return nil
}

// killUnderLoad runs clients against a server and kills the server after the given time. It returns
// when the process has exited.
func (w *processWorld) killUnderLoad(ctx context.Context, s *server, after time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	time.AfterFunc(after, func() {
		_ = s.signal(syscall.SIGKILL)
		cancel()
	})
	clients := newClient(w.history, s.url)
	clients.load(ctx, writers, 1_000_000)
	clients.close()
	<-s.ended
}

// terminateRound starts one server after another on the same data folder and sends each of them
// SIGTERM under load. Before a server exits, it must answer every request that it has accepted.
func terminateRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	dir, remove, err := scratch()
	if err != nil {
		return done, err
	}
	defer remove()
	w := newProcessWorld(dir, name, r.Uint64())
	w.history.complete = true
	for range kills {
		s, err := startServer(t.Context(), w.data(), nil, "--log-level", "warn")
		if err != nil {
			return done, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		time.AfterFunc(time.Duration(1+r.IntN(80))*time.Millisecond, func() {
			ended <- s.signal(syscall.SIGTERM)
			cancel() // stop the clients, which first finish their pending requests
		})
		clients := newClient(w.history, s.url)
		clients.load(ctx, writers, 1_000_000)
		clients.close()
		if err := <-ended; err != nil {
			return done, fmt.Errorf("after SIGTERM: %w: %s", err, &s.log)
		}
		done.add(tally{faults: map[string]int{"under load": 1}, receipts: len(w.history.acks)})
		if log := s.log.String(); log != "" {
			return done, fmt.Errorf("the server exited without an error, but logged: %s", log)
		}
		if err := w.inspect(t.Context()); err != nil {
			return done, err
		}
	}
	return done, nil
}
