// Package postgrestest runs PostgreSQL servers for tests. Only tests import it.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// requireVariable names the environment variable that makes tests fail if PostgreSQL is missing.
const requireVariable = "COLOPHON_REQUIRE_POSTGRES"

// Server is a PostgreSQL server with its own folder.
type Server struct {
	dir      string // contains the socket, the log file, and the data folder
	programs string // folder that contains PostgreSQL's programs

	lifeline io.Closer     // closing it stops the running server
	ended    chan struct{} // closed when the server has stopped
}

// debianPrograms matches the folders in which Debian installs PostgreSQL's programs. They are not
// in PATH.
const debianPrograms = "/usr/lib/postgresql/*/bin"

// findPrograms returns the folder that contains PostgreSQL's programs. It looks for initdb in PATH
// first. If initdb is not in PATH, it returns the last folder that matches debianPrograms.
func findPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob(filepath.Join(debianPrograms, "initdb"))
	if err != nil || len(found) == 0 {
		return "", errors.Join(err, exec.ErrNotFound)
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// IsInstalled reports whether PostgreSQL is installed. It returns an error if PostgreSQL is missing
// and COLOPHON_REQUIRE_POSTGRES is set.
func IsInstalled() (bool, error) {
	if _, err := findPrograms(); err == nil {
		return true, nil
	}
	if os.Getenv(requireVariable) != "" {
		return false, fmt.Errorf("%s is set, but PostgreSQL is not installed: install Debian's package postgresql", requireVariable)
	}
	return false, nil
}

// need skips the test if PostgreSQL is not installed. If IsInstalled returns an error, need fails the
// test.
func need(t testing.TB) {
	installed, err := IsInstalled()
	require.NoError(t, err)
	if !installed {
		t.Skip("PostgreSQL is not installed: install Debian's package postgresql")
	}
}

// Start creates a server with the given settings (name=value) and starts it. The server stops at
// the end of the test.
func Start(t testing.TB, settings ...string) *Server {
	need(t)
	s, err := New(settings...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

var shared struct {
	sync.Mutex
	server *Server
}

// SharedServer returns a server that all tests of a package share. The first call starts the server;
// Main stops it.
func SharedServer(t testing.TB) *Server {
	need(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := New()
		require.NoError(t, err)
		shared.server = s
	}
	return shared.server
}

// Main runs the tests of a package, and then stops the shared server. It returns the exit code for
// os.Exit.
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the shared PostgreSQL server:", err)
		}
	}
	return code
}

// New creates a server with the given settings (name=value) and starts it. The caller must close
// the server.
func New(settings ...string) (*Server, error) {
	programs, err := findPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "postgres") // a short path, because the length of socket paths is limited
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, programs: programs}
	if err := s.make(settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// make creates the data folder and adds the settings to its configuration.
func (s *Server) make(settings []string) error {
	if err := give(s.dir); err != nil {
		return err
	}
	command := exec.Command(filepath.Join(s.programs, "initdb"), "-D", s.data(), "-U", "colophon", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync") // #nosec G204 -- a program of PostgreSQL, for tests
	command.Dir = s.dir
	command.SysProcAttr = unprivileged()
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running initdb: %w\n%s", err, out)
	}
	lines := append([]string{
		"listen_addresses=''", fmt.Sprintf("unix_socket_directories='%s'", s.dir), "shared_buffers=32MB", "max_connections=100",
	}, settings...)
	return s.Configure(lines...)
}

// ProgramPath returns the path of a program that is installed with PostgreSQL.
func (s *Server) ProgramPath(name string) string { return filepath.Join(s.programs, name) }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Configure adds settings (name=value), which take effect when the server is next started.
func (s *Server) Configure(settings ...string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + strings.Join(settings, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// lifeline is a script that runs a program until it exits or standard input is closed. The server
// therefore stops when the test does, even if the test is killed.
const lifeline = `exec 3<&0; "$@" </dev/null 3<&- & child=$!; { cat <&3 >/dev/null; kill -QUIT $child; } & wait $child`

// startTime is the time limit for starting a server.
const startTime = time.Minute

// Start starts a server that is not running, and waits until it accepts connections. Processes
// left behind by a killed server can prevent the start for a moment, so Start keeps trying for up
// to startTime.
func (s *Server) Start() error {
	deadline := time.Now().Add(startTime)
	for {
		if err := s.launch(); err != nil {
			return err
		}
		err := s.wait(deadline)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(s.log())
			return fmt.Errorf("%w\n%s", err, log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

func (s *Server) launch() error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()                                                                         // the server has its own log descriptor
	command := exec.Command("sh", "-c", lifeline, "sh", filepath.Join(s.programs, "postgres"), "-D", s.data()) // #nosec G204 -- a program of PostgreSQL, for tests
	command.Dir, command.Stdout, command.Stderr = s.dir, log, log
	command.SysProcAttr = unprivileged()
	stdin, err := command.StdinPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // the server's log says why it stopped
	}()
	s.lifeline, s.ended = stdin, ended
	return nil
}

// wait waits until the server accepts connections. It returns an error if the server stops or the
// deadline passes.
func (s *Server) wait(deadline time.Time) error {
	for {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		conn, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			err = conn.Close(ctx)
		}
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the PostgreSQL server has stopped: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// ConfigureStandby makes the server start as a standby without a primary when it is next started.
func (s *Server) ConfigureStandby() error {
	return os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o600)
}

// Stop stops the server at once, without a final PostgreSQL checkpoint. The server can be started
// again.
func (s *Server) Stop() {
	if s.lifeline != nil {
		_ = s.lifeline.Close()
		<-s.ended
	}
}

// PID returns the process ID of the running server's first process, which starts the others.
func (s *Server) PID() (int, error) {
	content, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	return strconv.Atoi(first)
}

// Kill kills the server's first process. The others stop when they notice that it is gone.
func (s *Server) Kill() error {
	pid, err := s.PID()
	if err != nil {
		return err
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := process.Kill(); err != nil {
		return err
	}
	<-s.ended
	return nil
}

// Close stops the server and removes its folder.
func (s *Server) Close() error {
	s.Stop()
	return os.RemoveAll(s.dir)
}

// port is only used in the name of the socket: the server does not listen on TCP.
const port = 5432

// SocketPath returns the path of the server's socket.
func (s *Server) SocketPath() string { return filepath.Join(s.dir, fmt.Sprintf(".s.PGSQL.%d", port)) }

// URL returns a connection string for the server's default database. options alternates between
// names and values of connection options.
func (s *Server) URL(options ...string) string {
	return connection(s.dir, port, options)
}

func connection(host string, port int, options []string) string {
	values := url.Values{"host": {host}, "port": {strconv.Itoa(port)}, "user": {"colophon"}, "dbname": {"postgres"}, "sslmode": {"disable"}}
	for i := 0; i+1 < len(options); i += 2 {
		values.Set(options[i], options[i+1])
	}
	return "postgres://?" + values.Encode()
}

var schemas atomic.Int64

// CreateSchema creates an empty schema and returns its name. To use the schema, pass the name to URL
// as the option search_path.
func (s *Server) CreateSchema(t testing.TB) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	require.NoError(t, err)
	name := fmt.Sprintf("test%d", schemas.Add(1))
	_, err = conn.Exec(t.Context(), "CREATE SCHEMA "+name)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	return name
}
