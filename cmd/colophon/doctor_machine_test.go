package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/datadir"
	"colophon/internal/server"
	"colophon/storage/pebble"
)

func TestCheckFileSystem(t *testing.T) {
	on := func(kind, options string) func(*doctor) {
		return func(d *doctor) { d.disk = disk{kind: kind, options: options, where: "/data"} }
	}
	runCheckCases(t, checkFileSystem, []checkCase{
		{"local", on("ext4", "rw,relatime"), fine, "ext4"},
		{"memory", on("tmpfs", "rw"), wrong, "gone after a restart"},
		{"layer of a container", on("overlay", "rw"), wrong, "gone after a restart"},
		{"network", on("nfs4", "rw"), wrong, "over the network"},
		{"network by FUSE", on("fuse.sshfs", "rw"), wrong, "over the network"},
		{"FUSE", on("fuse.ntfs", "rw"), advice, "somebody else implements"},
		{"no barriers", on("ext4", "rw,nobarrier"), wrong, "without barriers"},
		{"unknown", on("", ""), unchecked, "not known"},
	})
}

func TestCheckSpace(t *testing.T) {
	with := func(free uint64, change ...func(*doctor)) func(*doctor) {
		return func(d *doctor) {
			d.disk.room = &room{total: 100 << 30, free: free, files: 1 << 20, unused: 1 << 19}
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
		{"no folder", func(d *doctor) { d.disk.roomErr = errors.New("no such folder") }, unchecked, "no such folder"},
		{"room", with(50 << 30), fine, "50.0 GiB free of 100.0 GiB, mark at 1.0 GiB"},
		{"below the mark", with(1<<30 - 1), wrong, "no writes are taken"},
		{"mark of one's own", with(50<<30, configured(func(c *server.Config) { c.MinFreeSpace = 60 << 30 })), wrong, "mark at 60.0 GiB"},
		{"near the mark", with(1<<30 + 1), advice, "1.0 GiB free"},
		{"days", with(1<<30+6*day, growing), wrong, "enough for 6.0 days"},
		{"weeks", with(1<<30+20*day, growing), advice, "enough for 20 days"},
		{"months", with(3<<30, growing), fine, "enough for 210 days"},
		{"inodes", with(50<<30, func(d *doctor) { d.disk.room.unused = 9 }), advice, "inodes"},
		{"no inodes are counted", with(50<<30, func(d *doctor) { d.disk.room.files, d.disk.room.unused = 0, 0 }), fine, "free"},
		{"read-only", with(50<<30, func(d *doctor) { d.disk.room.readOnly = true }), wrong, "read-only"},
	})
}

func TestFreeMarkIsThatOfTheDatabase(t *testing.T) {
	dir := t.TempDir()
	database, err := pebble.Open(t.Context(), pebble.Config{Dir: dir})
	require.NoError(t, err)
	metrics, err := database.Metrics()
	require.NoError(t, errors.Join(err, database.Close()))
	here, err := roomOf(dir)
	require.NoError(t, err)
	if here == nil {
		t.Skip("this system does not say how much room there is")
	}
	require.Equal(t, metrics.FreeMark, freeMark(0, here.total))
	require.Equal(t, uint64(7), freeMark(7, here.total))
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
		{"many", with(65536), fine, "65536"},
		{"few", with(4096), advice, "4096 connections"},
		{"too few", with(1024), wrong, "the databases alone"},
		{"of the server", func(d *doctor) { d.machine.openFiles, d.machine.process = 1024, &serverProcessInfo{} }, wrong, "the server may open 1024"},
	})
}

func TestCheckMemory(t *testing.T) {
	with := func(m machine) func(*doctor) { return func(d *doctor) { d.machine = m } }
	const gib, unset = 1 << 30, math.MaxInt64
	runCheckCases(t, checkMemory, []checkCase{
		{"unknown", with(machine{}), unchecked, "not known"},
		{"enough", with(machine{memory: 8 * gib, goMemory: unset}), fine, "8192 MiB"},
		{"enough in a group", with(machine{memory: 8 * gib, memoryLimit: 2 * gib, goMemory: 1800 << 20}), fine, "2048 MiB"},
		{"too little", with(machine{memory: 256 << 20, goMemory: unset}), wrong, "there are 256 MiB"},
		{"too little in a group", with(machine{memory: 8 * gib, memoryLimit: 256 << 20, goMemory: unset}), wrong, "there are 256 MiB"},
		{"collector does not know", with(machine{memory: 8 * gib, memoryLimit: gib, goMemory: unset}), advice, "does not know"},
		{"limit above what there is", with(machine{memory: 8 * gib, memoryLimit: gib, goMemory: 2 * gib}), wrong, "GOMEMLIMIT is 2048 MiB"},
		{"limit below the caches", with(machine{memory: 8 * gib, goMemory: 300 << 20}), advice, "GOMEMLIMIT is 300 MiB"},
		{"limit unseen", with(machine{memory: 8 * gib}), unchecked, "cannot be seen"},
		{"a larger index", func(d *doctor) {
			d.machine = machine{memory: 8 * gib, goMemory: unset}
			d.settings.config.IndexCache = 8 << 30
		}, wrong, "caches, bodies and answers"},
		{"larger caches", func(d *doctor) {
			d.machine = machine{memory: 8 * gib, goMemory: unset}
			d.settings.config.Cache = 8 << 30
		}, wrong, "caches, bodies and answers"},
	})
}

func TestGoMemoryLimitIsReadAsGoDoes(t *testing.T) {
	for value, want := range map[string]int64{
		"900MiB": 900 << 20, "1GiB": 1 << 30, "1024": 1024, "1024B": 1024, "off": math.MaxInt64, "": math.MaxInt64, "1GB": 0, "many": 0,
	} {
		require.Equal(t, want, goMemoryLimit([]string{"PATH=/bin", "GOMEMLIMIT=" + value}), "%q", value)
	}
	require.Equal(t, int64(math.MaxInt64), goMemoryLimit(nil))
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
		{"adrift", func(d *doctor) { d.machine.clockAdrift = true }, advice, "nothing synchronises"},
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

func TestCheckSurroundings(t *testing.T) {
	requireVerdict(t, checkSurroundings(someDoctor(t)), fine, "no container")
	requireVerdict(t, checkSurroundings(someDoctor(t, func(d *doctor) { d.machine.surroundings = "Podman" })), fine, "Podman")
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	t.Setenv("TMP", missing)
	requireVerdict(t, checkSurroundings(someDoctor(t)), advice, missing)
}

func TestContainersAreKnownByTheirMarks(t *testing.T) {
	nothing := func(string) (string, bool) { return "", false }
	root := t.TempDir()
	require.Empty(t, containerHint(root, nothing))
	require.NoError(t, os.WriteFile(filepath.Join(root, ".dockerenv"), nil, 0o600))
	require.Equal(t, "Docker", containerHint(root, nothing))
	require.Equal(t, "Kubernetes", containerHint(root, func(name string) (string, bool) { return "10.0.0.1", name == "KUBERNETES_SERVICE_HOST" }))
}

func TestFindMount(t *testing.T) {
	const mounts = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:30 / /srv rw - tmpfs tmpfs rw
31 30 8:1 / /srv/my\040data rw,noatime shared:1 master:2 - xfs /dev/sda1 rw,nobarrier
32 27 0:31 / /srv/my\040data rw - nfs4 host:/x rw,vers=4.2
33 27 0:32 / /var/lib rw - fuse.sshfs host: rw,user_id=0
nonsense
`
	for path, want := range map[string]string{
		"/": "ext4", "/srvx": "ext4", "/srv": "tmpfs", "/srv/my": "tmpfs", "/srv/my data": "nfs4", "/srv/my data/db": "nfs4", "/var/lib/colophon": "fuse.sshfs",
	} {
		kind, _ := findMount(mounts, path)
		require.Equal(t, want, kind, path)
	}
	_, options := findMount(mounts, "/srv/my data/db")
	require.Equal(t, "rw,rw,vers=4.2", options)
	kind, _ := findMount("", "/")
	require.Empty(t, kind)
}
