package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/stretchr/testify/require"

	"colophon/internal/datadir"
	"colophon/internal/memory"
	"colophon/internal/server"
	"colophon/ledger/index"
	"colophon/storage/pebble"
)

func TestCheckFileSystem(t *testing.T) {
	on := func(kind string) func(*doctor) {
		return func(d *doctor) { d.disk = fileSystem{kind: kind, where: "/data"} }
	}
	runCheckCases(t, checkFileSystem, []checkCase{
		{"local", on("ext4"), fine, "ext4"},
		{"memory", on("tmpfs"), wrong, "gone after a restart"},
		{"layer of a container", on("overlay"), wrong, "gone after a restart"},
		{"network", on("nfs4"), wrong, "over the network"},
		{"network by FUSE", on("fuse.sshfs"), wrong, "over the network"},
		{"FUSE", on("fuse.ntfs"), advice, "somebody else implements"},
		{"unknown", on(""), unchecked, "not known"},
	})
}

func TestCheckSpace(t *testing.T) {
	with := func(free uint64, change ...func(*doctor)) func(*doctor) {
		return func(d *doctor) {
			d.disk.usage = disk.UsageStat{Total: 100 << 30, Free: free, InodesTotal: 1 << 20, InodesFree: 1 << 19}
			for _, c := range change {
				c(d)
			}
		}
	}
	// Grows by ten thousand events of 1 KiB a day.
	growing := func(d *doctor) {
		d.server.ledgers = []ledgerAnswers{{ledgerInfo: ledgerInfo{TreeSize: leastRated}, perDay: 10_000}}
		require.NoError(t, os.MkdirAll(datadir.Database(d.data()), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(datadir.Database(d.data()), "000001.sst"), make([]byte, leastRated<<10), 0o600))
	}
	const day = 10_000 << 10 // bytes
	runCheckCases(t, checkSpace, []checkCase{
		{"unknown", func(*doctor) {}, unchecked, "not known"},
		{"no folder", func(d *doctor) { d.disk.usageErr = errors.New("no such folder") }, unchecked, "no such folder"},
		{"room", with(50 << 30), fine, "50.0 GiB free of 100.0 GiB, mark at 1.0 GiB"},
		{"below the mark", with(1<<30 - 1), wrong, "no writes are taken"},
		{"mark of one's own", with(50<<30, configured(func(c *server.Config) { c.MinFreeSpace = 60 << 30 })), wrong, "mark at 60.0 GiB"},
		{"near the mark", with(1<<30 + 1), advice, "1.0 GiB free"},
		{"days", with(1<<30+6*day, growing), wrong, "enough for 6.0 days"},
		{"weeks", with(1<<30+20*day, growing), advice, "enough for 20 days"},
		{"months", with(3<<30, growing), fine, "enough for 210 days"},
		{"inodes", with(50<<30, func(d *doctor) { d.disk.usage.InodesFree = 9 }), advice, "inodes"},
		{"no inodes are counted", with(50<<30, func(d *doctor) { d.disk.usage.InodesTotal, d.disk.usage.InodesFree = 0, 0 }), fine, "free"},
		{"read-only", with(50<<30, func(d *doctor) { d.disk.readOnly = true }), wrong, "read-only"},
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
	require.Equal(t, metrics.FreeMark, freeMark(0, here.Total))
	require.Equal(t, uint64(7), freeMark(7, here.Total))
}

func TestCheckSync(t *testing.T) {
	taking := func(d time.Duration) func(*doctor) {
		return func(to *doctor) { to.disk.sync = d }
	}
	runCheckCases(t, checkSync, []checkCase{
		{"a disk", taking(400 * time.Microsecond), fine, "400µs"},
		{"no disk", taking(3 * time.Microsecond), advice, "no disk can do"},
		{"a slow disk", taking(45 * time.Millisecond), advice, "45ms"},
		{"not timed", func(d *doctor) { d.disk.syncErr = errors.New("permission denied") }, unchecked, "permission denied"},
	})
}

func TestTimeSyncsLeavesNothingBehind(t *testing.T) {
	data := t.TempDir()
	took := lookAtDisk(data)
	require.NoError(t, took.syncErr)
	left, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Error(t, lookAtDisk(filepath.Join(data, "nowhere")).syncErr)
}

func TestCheckFileLimit(t *testing.T) {
	with := func(files uint64) func(*doctor) { return func(d *doctor) { d.machine.openFiles = files } }
	runCheckCases(t, checkFileLimit, []checkCase{
		{"unknown", with(0), unchecked, "not known"},
		{"many", with(65536), fine, "this command (a service may have another limit) may open 65536"},
		{"few", with(4096), advice, "4096 connections"},
		{"too few", with(1024), wrong, "the databases alone"},
		{"of the server", func(d *doctor) {
			with(65536)(d)
			serverSays(func(a *serverAnswers) {
				a.metrics = metricsOf(t, "# TYPE process_max_fds gauge\nprocess_max_fds 1024\n")
			})(d)
		}, wrong, "the server may open 1024"},
	})
}

func TestCheckMemory(t *testing.T) {
	const gib = 1 << 30
	with := func(l memory.Limits) func(*doctor) { return func(d *doctor) { d.machine.memory = l } }
	// A server on this machine says that its runtime keeps below a limit.
	shown := func(limit float64) func(*doctor) {
		return func(d *doctor) {
			d.machine.memory = memory.Limits{Machine: 8 * gib, Runtime: 7 * gib}
			serverSays(func(a *serverAnswers) {
				a.metrics = metricsOf(t, fmt.Sprintf("# TYPE go_gc_gomemlimit_bytes gauge\ngo_gc_gomemlimit_bytes %g\n", limit))
			})(d)
		}
	}
	runCheckCases(t, checkMemory, []checkCase{
		{"unknown", with(memory.Limits{}), unchecked, "not known"},
		{"enough", with(memory.Limits{Machine: 8 * gib}), fine, "8192 MiB"},
		{"enough in a container", with(memory.Limits{Machine: 8 * gib, Container: 2 * gib, Runtime: 1800 << 20}), fine, "2048 MiB"},
		{"too little", with(memory.Limits{Machine: 256 << 20}), wrong, "there are 256 MiB"},
		{"too little in a container", with(memory.Limits{Machine: 8 * gib, Container: 256 << 20}), wrong, "there are 256 MiB"},
		{"collector does not know", with(memory.Limits{Machine: 8 * gib, Container: gib}), advice, "does not know"},
		{"limit above what there is", with(memory.Limits{Machine: 8 * gib, Container: gib, Runtime: 2 * gib}), wrong, "GOMEMLIMIT is 2048 MiB"},
		{"limit below the caches", with(memory.Limits{Machine: 8 * gib, Runtime: 300 << 20}), advice, "GOMEMLIMIT is 300 MiB"},
		{"limit of the server", shown(300 << 20), advice, "GOMEMLIMIT is 300 MiB"},
		{"limit of the server above what there is", shown(9 * gib), wrong, "GOMEMLIMIT is 9344 MiB, and there are 8192 MiB"},
		{"limit of the server unset", shown(math.MaxInt64), fine, "8192 MiB"},
		{"limit of the server without what the index keeps", func(d *doctor) {
			d.settings.config.IndexCache = 4 * gib
			shown(5*gib - float64(index.KeptBytes(4*gib)))(d)
		}, fine, "8192 MiB"},
		{"limit of a server elsewhere", func(d *doctor) {
			shown(300 << 20)(d)
			d.server.url = "https://ledger.example.org"
		}, fine, "8192 MiB"},
		{"a larger index", func(d *doctor) {
			d.machine.memory = memory.Limits{Machine: 8 * gib}
			d.settings.config.IndexCache = 8 * gib
		}, wrong, "caches, bodies and answers"},
		{"larger caches", func(d *doctor) {
			d.machine.memory = memory.Limits{Machine: 8 * gib}
			d.settings.config.Cache = 8 * gib
		}, wrong, "caches, bodies and answers"},
	})
}

func TestLookAtMachineKnowsThisOne(t *testing.T) {
	m := lookAtMachine()
	require.NotZero(t, m.memory.Machine)
	if hasModes {
		require.NotZero(t, m.openFiles)
	}
}

func TestCheckClock(t *testing.T) {
	lastEvent := func(at time.Time) func(*doctor) {
		return func(d *doctor) {
			d.server.date = doctorNow
			d.server.ledgers = []ledgerAnswers{{LastEvent: at}}
		}
	}
	runCheckCases(t, checkClock, []checkCase{
		{"alone", func(*doctor) {}, fine, "no server was there"},
		{"right", lastEvent(doctorNow.Add(-time.Minute)), fine, "as the server has it"},
		{"behind the log", lastEvent(doctorNow.Add(time.Hour)), wrong, "1h0m0s behind the last event"},
		{"apart", func(d *doctor) { d.server.date, d.server.skew = doctorNow, -time.Minute }, advice, "1m0s apart"},
	})
}

func TestApartIsWhatTheWayDoesNotExplain(t *testing.T) {
	at := func(milliseconds int) time.Time {
		return doctorNow.Add(time.Duration(milliseconds) * time.Millisecond)
	}
	require.Zero(t, apart(at(0), at(300), at(800)), "the header has whole seconds")
	require.Zero(t, apart(at(1000), at(300), at(1200)))
	require.Equal(t, -1300*time.Millisecond, apart(at(-1000), at(300), at(800)))
	require.Equal(t, 4200*time.Millisecond, apart(at(5000), at(300), at(800)))
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
