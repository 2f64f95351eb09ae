package system_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"colophon/bench/system"
)

// A meter measures the peak memory of a process. It also counts syncs if the machine supports it.
func TestMeter(t *testing.T) {
	dir := t.TempDir()
	meter, err := system.StartMeter(os.Getpid(), dir)
	require.NoError(t, err)
	const syncs = 7
	_, err = system.ProbeDisk(dir, syncs)
	require.NoError(t, err)
	use, err := meter.Stop()
	require.NoError(t, err)
	require.Positive(t, use.Peak)
	if use.Fsyncs >= 0 { // this machine allows counting syncs
		require.EqualValues(t, syncs, use.Fsyncs)
	}
}

// After ResetPeakMemory, the peak memory no longer includes an earlier peak.
func TestResetPeakMemory(t *testing.T) {
	const size = 64 << 20
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	require.NoError(t, err)
	require.NoError(t, unix.Munmap(memory))
	before, err := system.UsageOf(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, system.ResetPeakMemory(os.Getpid()))
	after, err := system.UsageOf(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, before.Peak-after.Peak, int64(size/2))
}

func TestDiskBytes(t *testing.T) {
	dir := t.TempDir()
	empty, err := system.DiskBytes(dir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in", "file"), make([]byte, 100_000), 0o600))
	full, err := system.DiskBytes(dir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, full-empty, int64(100_000))
}

func TestMachine(t *testing.T) {
	m, err := system.ThisMachine(t.TempDir(), "github.com/stretchr/testify")
	require.NoError(t, err)
	require.Positive(t, m.Cores)
	require.Positive(t, m.Memory)
	require.NotEmpty(t, m.Kernel)
	require.NotEmpty(t, m.Filesystem)
}
