package pebble

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// Some tests start other processes that run this test binary. These environment variables tell such
// a process its role and its folder.
const (
	roleVariable = "COLOPHON_TEST_ROLE"
	dirVariable  = "COLOPHON_TEST_DIR"
)

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{"open": roleOpen, "commit": roleCommit, "fail": roleFail, "erase": roleErase}
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(os.Getenv(dirVariable)); err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
}

// process returns a command that runs this binary in the given role. The process is killed when the
// test ends.
func process(t *testing.T, role, dir string) *exec.Cmd {
	executable, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), executable)
	command.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	return command
}

// roleOpen opens and closes the database. It prints an error only if the database is in use.
func roleOpen(dir string) error {
	db, err := Open(context.Background(), Config{Dir: dir, Logger: silent()})
	if errors.Is(err, storage.ErrInUse) {
		fmt.Println("in use:", err)
		return nil
	}
	if err != nil {
		return err
	}
	return db.Close()
}

func TestOpenInTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(t.Context(), Config{Dir: dir, Logger: silent()})
	require.NoError(t, err)
	printed, err := process(t, "open", dir).Output()
	require.NoError(t, err, string(printed))
	require.True(t, strings.HasPrefix(string(printed), "in use: "), string(printed))
	require.Contains(t, string(printed), dir)
	require.NoError(t, db.Close())
	printed, err = process(t, "open", dir).Output()
	require.NoError(t, err, string(printed))
	require.Empty(t, string(printed))
}

// roleCommit commits until it is killed, and prints the ledger's size after each commit.
func roleCommit(dir string) error {
	ctx := context.Background()
	db, err := Open(ctx, Config{Dir: dir, Logger: silent()})
	if err != nil {
		return err
	}
	store, err := db.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
	if err != nil {
		return err
	}
	for head := (storage.Head{}); ; {
		b := batch(head, 3, 2000)
		if err := store.Commit(ctx, head, b); err != nil {
			return err
		}
		head = b.Head
		fmt.Println(head.Size)
	}
}

func TestKilledProcess(t *testing.T) {
	dir := t.TempDir()
	committing := process(t, "commit", dir)
	output, err := committing.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, committing.Start())
	lines := bufio.NewScanner(output)
	for range 40 {
		require.True(t, lines.Scan(), "the process runs until it is killed")
	}
	require.NoError(t, committing.Process.Kill())
	var acknowledged uint64
	for ok := true; ok; ok = lines.Scan() { // also reads the lines that the process printed before it was killed
		_, err := fmt.Sscan(lines.Text(), &acknowledged)
		require.NoError(t, err)
	}
	require.Error(t, committing.Wait())

	db, err := Open(t.Context(), Config{Dir: dir, Logger: silent()})
	require.NoError(t, err)
	store, err := db.Ledger(t.Context(), "default")
	require.NoError(t, err)
	head, err := store.Head(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, head.Size, acknowledged)
	require.LessOrEqual(t, head.Size, acknowledged+3)
	for old := (storage.Head{}); old.Size < head.Size; {
		b := batch(old, 3, 2000)
		require.Zero(t, readDamaged(t.Context(), t, store, b))
		old = b.Head
	}
	require.NoError(t, db.Close())
}

// roleFail commits while syncs of the write-ahead log fail. It uses the default Config.Fatal, which
// stops the process.
func roleFail(dir string) error {
	failing := &failingLog{kinds: []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData}}
	files := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(failing.inject))
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	ctx := context.Background()
	db, err := Open(ctx, Config{Dir: dir, FS: files, Logger: logger})
	if err != nil {
		return err
	}
	store, err := db.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
	if err != nil {
		return err
	}
	failing.armed.Store(true)
	err = store.Commit(ctx, storage.Head{}, batch(storage.Head{}, 1, 100))
	return fmt.Errorf("the commit returned: %w", err)
}

func TestFatalEndsTheProcess(t *testing.T) {
	failing := process(t, "fail", t.TempDir())
	output, err := failing.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, failing.Start())
	printed, err := io.ReadAll(output)
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, failing.Wait(), &exit)
	require.Equal(t, 1, exit.ExitCode(), string(printed))
	require.Contains(t, string(printed), "storage failed; exiting")
	require.Contains(t, string(printed), "injected error")
}
