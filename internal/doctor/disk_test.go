package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/stretchr/testify/require"

	"colophon/client/wire"
	"colophon/internal/datadir"
	"colophon/internal/server"
	"colophon/storage/pebble"
)

func TestCheckFileSystem(t *testing.T) {
	on := func(kind string) func(*deployment) {
		return func(d *deployment) { d.disk = fileSystem{kind: kind, where: "/data"} }
	}
	runCheckCases(t, checkFileSystem, []checkCase{
		{"local", on("ext4"), VerdictOK, "ext4"},
		{"memory", on("tmpfs"), VerdictWrong, "lost at the next restart"},
		{"layer of a container", on("overlay"), VerdictWrong, "lost at the next restart"},
		{"network", on("nfs4"), VerdictWrong, "a network file system"},
		{"network by FUSE", on("fuse.sshfs"), VerdictWrong, "a network file system"},
		{"FUSE", on("fuse.ntfs"), VerdictAdvice, "outside the kernel"},
		{"unknown", on(""), VerdictNotChecked, "does not report"},
	})
}

func TestCheckSpace(t *testing.T) {
	with := func(free uint64, change ...func(*deployment)) func(*deployment) {
		return func(d *deployment) {
			d.disk.usage = disk.UsageStat{Total: 100 << 30, Free: free, InodesTotal: 1 << 20, InodesFree: 1 << 19}
			for _, c := range change {
				c(d)
			}
		}
	}
	// growing adds a ledger that grows by ten thousand events of 1 KiB each per day.
	growing := func(d *deployment) {
		d.server.ledgers = []ledgerAnswers{{LedgerDescription: wire.LedgerDescription{TreeSize: minEvents}, perDay: 10_000}}
		require.NoError(t, os.MkdirAll(datadir.DatabaseFolder(d.data()), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(datadir.DatabaseFolder(d.data()), "000001.sst"), make([]byte, minEvents<<10), 0o600))
	}
	const day = 10_000 << 10 // growth per day in bytes
	runCheckCases(t, checkSpace, []checkCase{
		{"unknown", func(*deployment) {}, VerdictNotChecked, "does not report"},
		{"no folder", func(d *deployment) { d.disk.usageErr = errors.New("no such folder") }, VerdictNotChecked, "no such folder"},
		{"room", with(50 << 30), VerdictOK, "50.0 GiB of 100.0 GiB is free, and writes need at least 1.0 GiB"},
		{"below the mark", with(1<<30 - 1), VerdictWrong, "the server accepts no writes"},
		{"a configured mark", with(50<<30, withConfig(func(c *server.Config) { c.MinFreeSpace = 60 << 30 })), VerdictWrong, "writes need at least 60.0 GiB"},
		{"near the mark", with(1<<30 + 1), VerdictAdvice, "1.0 GiB of 100.0 GiB is free"},
		{"days", with(1<<30+6*day, growing), VerdictWrong, "enough for 6.0 days"},
		{"weeks", with(1<<30+20*day, growing), VerdictAdvice, "enough for 20 days"},
		{"months", with(3<<30, growing), VerdictOK, "enough for 210 days"},
		{"inodes", with(50<<30, func(d *deployment) { d.disk.usage.InodesFree = 9 }), VerdictAdvice, "inodes"},
		{"no inodes are counted", with(50<<30, func(d *deployment) { d.disk.usage.InodesTotal, d.disk.usage.InodesFree = 0, 0 }), VerdictOK, "free"},
		{"read-only", with(50<<30, func(d *deployment) { d.disk.readOnly = true }), VerdictWrong, "read-only"},
	})
}

func TestFreeMarkIsThatOfTheDatabase(t *testing.T) {
	dir := t.TempDir()
	database, err := pebble.Open(t.Context(), pebble.Config{Dir: dir})
	require.NoError(t, err)
	metrics, err := database.Metrics()
	require.NoError(t, errors.Join(err, database.Close()))
	here, err := disk.Usage(dir)
	require.NoError(t, err)
	require.Equal(t, metrics.MinFreeBytes, freeMark(0, here.Total))
	require.Equal(t, uint64(7), freeMark(7, here.Total))
}

func TestCheckSync(t *testing.T) {
	taking := func(d time.Duration) func(*deployment) {
		return func(to *deployment) { to.disk.sync = d }
	}
	runCheckCases(t, checkSync, []checkCase{
		{"a disk", taking(400 * time.Microsecond), VerdictOK, "400µs"},
		{"no disk", taking(3 * time.Microsecond), VerdictAdvice, "too fast for any disk"},
		{"a slow disk", taking(45 * time.Millisecond), VerdictAdvice, "45ms"},
		{"not timed", func(d *deployment) { d.disk.syncErr = errors.New("permission denied") }, VerdictNotChecked, "permission denied"},
	})
}

func TestTimeSyncsLeavesNothingBehind(t *testing.T) {
	data := t.TempDir()
	took := inspectDisk(data)
	require.NoError(t, took.syncErr)
	left, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Error(t, inspectDisk(filepath.Join(data, "nowhere")).syncErr)
}

// inspectDisk resolves symbolic links, including those in the path of the working directory,
// because findMount needs a path without symbolic links.
func TestInspectDiskFollowsLinks(t *testing.T) {
	real, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "link")
	if os.Symlink(real, link) != nil {
		t.Skip("this system does not allow links")
	}
	t.Chdir(link)
	require.Equal(t, real, inspectDisk(".").where)
	require.NoError(t, os.Mkdir(filepath.Join(real, "db"), 0o700))
	require.Equal(t, filepath.Join(real, "db"), inspectDisk(".").where)
}

func TestFindMount(t *testing.T) {
	mounts := []disk.PartitionStat{
		{Mountpoint: "/proc", Fstype: "proc"},
		{Mountpoint: "/", Fstype: "ext4"},
		{Mountpoint: "/srv", Fstype: "tmpfs"},
		{Mountpoint: "/srv/my data", Fstype: "xfs"},
		{Mountpoint: "/srv/my data", Fstype: "nfs4", Opts: []string{"ro", "noatime"}},
		{Mountpoint: "/var/lib", Fstype: "fuse.sshfs"},
	}
	for path, want := range map[string]string{
		"/": "ext4", "/srvx": "ext4", "/srv": "tmpfs", "/srv/my": "tmpfs", "/srv/my data": "nfs4", "/srv/my data/db": "nfs4", "/var/lib/colophon": "fuse.sshfs",
	} {
		kind, readOnly := findMount(mounts, filepath.FromSlash(path))
		require.Equal(t, want, kind, path)
		require.Equal(t, kind == "nfs4", readOnly, path)
	}
	kind, _ := findMount(nil, "/")
	require.Empty(t, kind)
}
