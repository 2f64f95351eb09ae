package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/ledger/keystore"
	"colophon/storage"
	"colophon/storage/faulty"
	"colophon/storage/postgres"
	"colophon/storage/postgres/postgrestest"
)

// The tests in this file check that nothing is lost if the log is stored in PostgreSQL and the
// server, the database, or a migration is killed.

func TestPostgres(t *testing.T) {
	wantPostgres(t)
	campaign(t, postgresRound)
}

// wantPostgres skips the test if PostgreSQL is not installed.
func wantPostgres(t *testing.T) {
	t.Helper()
	if installed, err := postgrestest.IsInstalled(); err != nil {
		t.Fatal(err)
	} else if !installed {
		t.Skip("PostgreSQL is not installed")
	}
}

// Calls to a store in PostgreSQL fail in each of the ways in which calls to a store in memory fail.
func TestPostgresCallsFail(t *testing.T) {
	wantPostgres(t)
	server := postgrestest.SharedServer(t)
	modes := []faulty.Mode{faulty.ModeFail, faulty.ModeFailAfterSuccess, faulty.ModeShortWrite, faulty.ModeSlow, faulty.ModeNoSpace}
	campaign(t, func(t *testing.T, r *rand.Rand, name string) (tally, error) {
		url := server.URL("search_path", server.CreateSchema(t))
		w := &storeWorld{history: newHistory(name, r.Uint64()), indexFiles: vfs.NewMem(), keys: new(oneKey), open: func(ctx context.Context) (storage.Database, error) {
			return postgres.Open(ctx, postgres.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
		}}
		return w.round(t, r, modes[r.IntN(len(modes))])
	})
}

// postgresWorld is a data folder and a PostgreSQL database that several servers use one after
// another.
type postgresWorld struct {
	processWorld
	databaseServer *postgrestest.Server
	url            string
}

func postgresRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	dir, err := os.MkdirTemp("", "colophon-faults")
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(dir)
	databaseServer, err := postgrestest.New()
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, databaseServer.Close()) }()
	w := &postgresWorld{*newProcessWorld(dir, name, r.Uint64()), databaseServer, databaseServer.URL("search_path", databaseServer.CreateSchema(t))}
	done.faults = make(map[string]int)
	for range kills {
		known := len(w.history.acks)
		s, err := startServer(t.Context(), w.data(), []string{"COLOPHON_STORE=" + w.url}, "--log-level", "error")
		if err != nil {
			return done, err
		}
		if err := w.remembers(t.Context(), s, 0); err != nil {
			return done, errors.Join(err, s.command.Process.Kill())
		}
		after := time.Duration(1+r.IntN(150)) * time.Millisecond
		switch r.IntN(3) {
		case 0:
			w.killUnderLoad(t.Context(), s, after)
			done.faults["of the server"]++
		case 1:
			if err := w.killDatabase(t.Context(), s, after); err != nil {
				return done, fmt.Errorf("%w\nits log: %s", err, &s.log)
			}
			done.faults["of the database"]++
		case 2:
			time.AfterFunc(after, func() { _ = databaseServer.Kill() })
			w.killUnderLoad(t.Context(), s, after)
			time.Sleep(after) // wait in case the timer that kills the database fires late
			databaseServer.Stop()
			if err := databaseServer.Start(); err != nil {
				return done, err
			}
			done.faults["of both"]++
		}
		done.receipts += len(w.history.acks) - known
		if err := w.inspect(t.Context()); err != nil {
			return done, fmt.Errorf("%w\nits log: %s", err, &s.log)
		}
		if r.IntN(3) == 0 {
			if err := w.migrateBothWays(t, r, &done); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// killDatabase kills the database under load and restarts it. The server must keep running, and must
// then shut down gracefully.
func (w *postgresWorld) killDatabase(ctx context.Context, s *server, after time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restarted := make(chan error, 1)
	time.AfterFunc(after, func() {
		err := errors.Join(w.databaseServer.Kill(), w.databaseServer.Start())
		time.Sleep(after) // let clients use the restarted database
		cancel()
		restarted <- err
	})
	clients := newClient(w.history, s.url)
	clients.load(ctx, writers, 1_000_000)
	clients.close()
	return errors.Join(<-restarted, s.signal(syscall.SIGTERM))
}

// inspect opens the ledger in the database and calls the oracle. The records that the oracle
// submits stay in the ledger.
func (w *postgresWorld) inspect(ctx context.Context) error {
	database, err := postgres.Open(ctx, postgres.Config{URL: w.url})
	if err != nil {
		return fmt.Errorf("opening what the fault left: %w", err)
	}
	n, err := openNode(ctx, nodeConfig{database: database, indexFiles: vfs.NewMem(), indexDir: "index",
		keys: keystore.KeyFiles{Dir: filepath.Join(w.data(), "keys")}})
	if err != nil {
		return fmt.Errorf("opening what the fault left: %w", err)
	}
	return errors.Join(check(ctx, n, w.history), n.close())
}

// migrateBothWays migrates the ledger into the data folder, uses it there, and migrates it back into a
// new schema of the database. The first three attempts at each migration are killed.
func (w *postgresWorld) migrateBothWays(t *testing.T, r *rand.Rand, done *tally) error {
	if err := w.migrate(t.Context(), r, w.url, w.data(), done); err != nil {
		return err
	}
	s, err := startServer(t.Context(), w.data(), nil, "--log-level", "error")
	if err != nil {
		return err
	}
	if err := w.remembers(t.Context(), s, 0); err != nil {
		return errors.Join(err, s.command.Process.Kill())
	}
	w.killUnderLoad(t.Context(), s, time.Duration(1+r.IntN(50))*time.Millisecond)
	if err := w.processWorld.inspect(t.Context()); err != nil { // opens a copy of the files
		return err
	}
	w.url = w.databaseServer.URL("search_path", w.databaseServer.CreateSchema(t))
	if err := w.migrate(t.Context(), r, w.data(), w.url, done); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(filepath.Join(w.data(), "db.moved")), w.inspect(t.Context()))
}

// migrate runs the migrate command until the ledger has moved. It kills each of the first three
// attempts after a random time of less than 400 ms, unless the attempt finishes earlier.
func (w *postgresWorld) migrate(ctx context.Context, r *rand.Rand, from, to string, done *tally) error {
	for attempt := 0; ; attempt++ {
		command := exec.CommandContext(ctx, settings.binary, "migrate", "--from", from, "--to", to)
		var said bytes.Buffer
		command.Stderr = &said
		if err := command.Start(); err != nil {
			return err
		}
		if attempt < 3 {
			timer := time.AfterFunc(time.Duration(r.IntN(400))*time.Millisecond, func() { _ = command.Process.Kill() })
			err := command.Wait()
			timer.Stop()
			if err == nil {
				return nil
			}
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Exited() {
				return fmt.Errorf("migrate: %w: %s", err, &said)
			}
			done.faults["of a migration"]++
			continue
		}
		if err := command.Wait(); err != nil {
			return fmt.Errorf("migrate: %w: %s", err, &said)
		}
		return nil
	}
}
