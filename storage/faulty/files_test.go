package faulty_test

import (
	"io"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage/faulty"
)

// write writes text to a file on a file system that injects the plan's faults. It returns what the
// file contains afterwards, and the error from the write.
func write(t *testing.T, plan faulty.Plan, text string) (left string, err error) {
	t.Helper()
	under := vfs.NewMem()
	files := faulty.NewFS(under, faulty.New(plan))
	f, err := files.Create("file", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write([]byte(text))
	require.NoError(t, f.Close())
	f, openErr := under.Open("file")
	require.NoError(t, openErr)
	b, readErr := io.ReadAll(f)
	require.NoError(t, readErr)
	return string(b), err
}

func TestModesOfAWrite(t *testing.T) {
	for mode, c := range map[faulty.Mode]struct {
		err  error
		left string
	}{
		faulty.ModeFail: {faulty.ErrInjected, ""}, faulty.ModeFailAfterSuccess: {faulty.ErrInjected, "0123456789"}, faulty.ModeShortWrite: {faulty.ErrInjected, "01234"},
		faulty.ModeNoSpace: {syscall.ENOSPC, "01234"}, faulty.ModeSlow: {nil, "0123456789"},
	} {
		left, err := write(t, faulty.Plan{Mode: mode, Calls: []string{faulty.CallWrite}}, "0123456789")
		require.ErrorIs(t, err, c.err, "%s", mode)
		require.Equal(t, c.left, left, "%s", mode)
	}
}

// ModeFlipBit flips exactly the bit that the plan names, and only once.
func TestFlipBit(t *testing.T) {
	under := vfs.NewMem()
	f, err := under.Create("file", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write([]byte{0, 0, 0, 0})
	require.NoError(t, err)
	files := faulty.NewFS(under, faulty.New(faulty.Plan{Mode: faulty.ModeFlipBit, Calls: []string{faulty.CallRead}, BitIndex: 8*6 + 3}))
	f, err = files.Open("file")
	require.NoError(t, err)
	for _, want := range [][]byte{{0, 0, 8, 0}, {0, 0, 0, 0}} {
		b := make([]byte, 4)
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
		require.Equal(t, want, b)
	}
}

// A plan selects calls and files, skips the first matching calls, and stops after FailCount
// failures.
func TestPlan(t *testing.T) {
	under := vfs.NewMem()
	faults := faulty.New(faulty.Plan{Mode: faulty.ModeFail, Calls: []string{faulty.CallCreate, faulty.CallRemove}, FilePattern: "*.a", SkipCount: 1, FailCount: 2})
	var told []string
	faults.OnFault = func(call, file string) { told = append(told, call+" "+file) }
	files := faulty.NewFS(under, faults)
	create := func(name string) error {
		f, err := files.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		return f.Close()
	}
	require.NoError(t, create("dir.b"))
	require.NoError(t, create("1.a"), "skipped")
	require.ErrorIs(t, create("2.a"), faulty.ErrInjected)
	require.NoError(t, create("3.b"))
	require.ErrorIs(t, files.Remove("1.a"), faulty.ErrInjected)
	require.NoError(t, files.Remove("1.a"))
	require.Equal(t, []string{"create 2.a", "remove 1.a"}, told)
	require.Equal(t, map[string]int{"create": 1, "remove": 1}, faults.FaultCounts())

	forever := faulty.New(faulty.Plan{Mode: faulty.ModeFail, Calls: []string{faulty.CallStat}, FailCount: -1})
	files = faulty.NewFS(under, forever)
	for range 3 {
		_, err := files.Stat("3.b")
		require.ErrorIs(t, err, faulty.ErrInjected)
	}
	forever.StopInjecting()
	_, err := files.Stat("3.b")
	require.NoError(t, err)
}

// Every call on a file system and on its files can be made to fail.
func TestEveryCallOfFilesFails(t *testing.T) {
	const none = vfs.WriteCategoryUnspecified
	for call, do := range map[string]func(files vfs.FS, f vfs.File) error{
		faulty.CallCreate:  func(files vfs.FS, _ vfs.File) error { _, err := files.Create("x", none); return err },
		faulty.CallCompact: func(files vfs.FS, _ vfs.File) error { _, err := files.Create("x", "pebble-compaction"); return err },
		faulty.CallLink:    func(files vfs.FS, _ vfs.File) error { return files.Link("file", "x") },
		faulty.CallOpen:    func(files vfs.FS, _ vfs.File) error { _, err := files.Open("file"); return err },
		faulty.CallOpenDir: func(files vfs.FS, _ vfs.File) error { _, err := files.OpenDir("/"); return err },
		faulty.CallRemove:  func(files vfs.FS, _ vfs.File) error { return files.RemoveAll("file") },
		faulty.CallRename:  func(files vfs.FS, _ vfs.File) error { return files.Rename("file", "x") },
		faulty.CallReuseForWrite: func(files vfs.FS, _ vfs.File) error {
			_, err := files.ReuseForWrite("file", "x", none)
			return err
		},
		faulty.CallMkdirAll:    func(files vfs.FS, _ vfs.File) error { return files.MkdirAll("x", 0o700) },
		faulty.CallLock:        func(files vfs.FS, _ vfs.File) error { _, err := files.Lock("x"); return err },
		faulty.CallList:        func(files vfs.FS, _ vfs.File) error { _, err := files.List("/"); return err },
		faulty.CallStat:        func(_ vfs.FS, f vfs.File) error { _, err := f.Stat(); return err },
		faulty.CallDiskUsage:   func(files vfs.FS, _ vfs.File) error { _, err := files.GetDiskUsage("/"); return err },
		faulty.CallRead:        func(_ vfs.FS, f vfs.File) error { _, err := f.Read([]byte{0}); return err },
		faulty.CallWrite:       func(_ vfs.FS, f vfs.File) error { _, err := f.WriteAt([]byte{0}, 0); return err },
		faulty.CallSync:        func(_ vfs.FS, f vfs.File) error { return f.SyncData() },
		faulty.CallSyncTo:      func(_ vfs.FS, f vfs.File) error { _, err := f.SyncTo(1); return err },
		faulty.CallPreallocate: func(_ vfs.FS, f vfs.File) error { return f.Preallocate(0, 1) },
		faulty.CallClose:       func(_ vfs.FS, f vfs.File) error { return f.Close() },
	} {
		under := vfs.NewMem()
		files := faulty.NewFS(under, faulty.New(faulty.Plan{Mode: faulty.ModeFail, Calls: []string{call}}))
		f, err := under.Create("file", none)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		opened, err := files.OpenReadWrite("file", none)
		if call == faulty.CallOpen {
			require.ErrorIs(t, err, faulty.ErrInjected)
			continue
		}
		require.NoError(t, err)
		require.ErrorIs(t, do(files, opened), faulty.ErrInjected, call)
	}
	require.Len(t, faulty.FileCallNames(), 19)
}
