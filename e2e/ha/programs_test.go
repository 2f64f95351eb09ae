package ha_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage/postgres/postgrestest"
)

// requireVariable is the name of an environment variable. If this variable is set and a program is
// missing, the test fails instead of being skipped.
const requireVariable = "COLOPHON_REQUIRE_PATRONI"

// programs holds the paths of the programs that the test needs. Debian has a package for each of
// them.
type programs struct {
	patroni, etcd string
	postgres      string // folder that contains PostgreSQL's programs
	faketime      string // path of libfaketime, which changes the clock of a process; "" if it is not installed
}

// findPrograms returns the paths of the programs. If one is missing, it skips the test, or fails it if
// requireVariable is set.
func findPrograms(t testing.TB) (p programs) {
	t.Helper()
	find := func(name, pack string) string {
		path, err := exec.LookPath(name)
		if os.Getenv(requireVariable) != "" {
			require.NoError(t, err, "%s is set: install Debian's package %s", requireVariable, pack)
		}
		if err != nil {
			t.Skipf("%s is not installed: install Debian's package %s", name, pack)
		}
		return path
	}
	p.patroni, p.etcd = find("patroni", "patroni"), find("etcd", "etcd-server")
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		found = append(found, find("initdb", "postgresql"))
	}
	slices.Sort(found)
	p.postgres = filepath.Dir(found[len(found)-1])
	libraries, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	switch {
	case len(libraries) > 0:
		p.faketime = libraries[0]
	case os.Getenv(requireVariable) != "":
		t.Fatalf("%s is set: install Debian's package libfaketime", requireVariable)
	default:
		t.Log("the clocks of the databases are not changed: install Debian's package libfaketime")
	}
	return p
}

// account returns the unprivileged user that must run all programs, because PostgreSQL refuses to
// run as root. It returns nil if the test itself does not run as root.
func account(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	if uid, gid, ok := postgrestest.ServerUser(); ok {
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Skip("the test runs as root, and there is no user postgres or nobody")
	return nil
}

// folder creates a folder that is owned by the user that account returns.
func folder(t testing.TB, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o700))
	give(t, path)
	return path
}

// give changes the owner of a file or folder to the user that account returns.
func give(t testing.TB, path string) {
	t.Helper()
	if a := account(t); a != nil {
		require.NoError(t, os.Lchown(path, int(a.Uid), int(a.Gid)))
	}
}

// write writes a file that is owned by the user that account returns.
func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	give(t, path)
}
