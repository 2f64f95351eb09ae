package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/disk"

	"colophon/internal/datadir"
)

// fileSystem describes the file system that the database is on.
type fileSystem struct {
	where    string // the absolute path of the database, or of the data folder if there is no database
	kind     string // type, such as ext4; empty if unknown
	readOnly bool

	usage    disk.UsageStat
	usageErr error // nil if usage is known

	sync    time.Duration // median time to write and sync a small block
	syncErr error         // why timing the sync failed; nil if it succeeded
}

// inspectDisk inspects the file system of the database, or of the data folder if there is no
// database yet.
func inspectDisk(data string) fileSystem {
	if absolute, err := filepath.Abs(data); err == nil {
		data = absolute
	}
	d := fileSystem{where: datadir.ResolveSymlinks(datadir.DatabaseFolder(data))}
	if _, err := os.Stat(d.where); errors.Is(err, fs.ErrNotExist) {
		d.where = datadir.ResolveSymlinks(data)
	}
	d.kind, d.readOnly = mountOf(d.where)
	if usage, err := disk.Usage(d.where); err != nil {
		d.usageErr = fmt.Errorf("inspecting the file system of %s: %w", d.where, err)
	} else {
		d.usage = *usage
	}
	d.sync, d.syncErr = timeSyncs(d.where)
	return d
}

// mountOf returns the type of the file system that contains path, and whether it is mounted
// read-only. path must be absolute and free of symbolic links. kind is empty if the type is
// unknown.
func mountOf(path string) (kind string, readOnly bool) {
	mounts, err := disk.Partitions(true)
	if err != nil {
		return "", false
	}
	return findMount(mounts, path)
}

// findMount returns the type of the file system at the deepest mount point that contains path, and
// whether it is mounted read-only. If several file systems are mounted at that point, the last one
// hides the others.
func findMount(mounts []disk.PartitionStat, path string) (kind string, readOnly bool) {
	deepest := -1
	for _, m := range mounts {
		if relative, err := filepath.Rel(m.Mountpoint, path); err == nil && filepath.IsLocal(relative) && len(m.Mountpoint) >= deepest {
			deepest, kind, readOnly = len(m.Mountpoint), m.Fstype, slices.Contains(m.Opts, "ro")
		}
	}
	return kind, readOnly
}

// syncsTimed is the number of syncs that timeSyncs measures.
const syncsTimed = 48

// timeSyncs returns the median time to write and sync 4 KiB. It writes to a temporary file in dir
// and removes the file afterwards.
func timeSyncs(dir string) (median time.Duration, err error) {
	file, err := os.CreateTemp(dir, ".doctor-*.tmp")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	var block [4096]byte
	times := make([]time.Duration, syncsTimed)
	for i := range times {
		begin := time.Now()
		if _, err := file.Write(block[:]); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// Prefixes of file system types, grouped by risk. Data on a temporary file system is lost at a
// restart. Locks and syncs on a network file system are not reliable. Syncs on a user-space file
// system may not reach the disk.
var (
	temporaryFileSystems = []string{"tmpfs", "ramfs", "overlay", "aufs", "unionfs"}
	networkFileSystems   = []string{"nfs", "cifs", "smb", "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "afs", "lustre", "beegfs", "fuse.ceph"}
	userSpaceFileSystems = []string{"fuse", "9p", "virtiofs", "vboxsf", "prl_fs"}
)

func hasAnyPrefix(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}

// checkFileSystem checks that data on the file system survives a restart and that syncs are
// reliable.
func checkFileSystem(d *deployment) []Finding {
	switch kind := d.disk.kind; {
	case kind == "":
		return finding(VerdictNotChecked, "make sure that the data folder is on a local disk", "this system does not report the type of the file system")
	case hasAnyPrefix(kind, temporaryFileSystems):
		return finding(VerdictWrong, "put the data folder on a persistent disk or, in a container, on a volume", "%s is on %s, so its data is lost at the next restart", d.disk.where, kind)
	case hasAnyPrefix(kind, networkFileSystems):
		return finding(VerdictWrong, "put the data folder on a local disk or a block volume", "%s is on %s, a network file system, so locks and syncs are not reliable", d.disk.where, kind)
	case hasAnyPrefix(kind, userSpaceFileSystems):
		return finding(VerdictAdvice, "make sure that this file system syncs to the underlying disk, or use a local disk", "%s is on %s, a file system that runs outside the kernel", d.disk.where, kind)
	default:
		return finding(VerdictOK, "", "%s", kind)
	}
}

// The verdict of checkSpace is Wrong if the free space is expected to last for fewer than daysWrong
// days, and Advice if it is expected to last for fewer than daysAdvice days.
const (
	daysWrong  = 7
	daysAdvice = 30
)

// minInodes is the number of unused inodes below which the doctor warns.
const minInodes = 10_000

// checkSpace checks that enough space is free for the server to accept writes, and that it will not
// soon run short.
func checkSpace(d *deployment) []Finding {
	u := d.disk.usage
	if d.disk.usageErr != nil {
		return finding(VerdictNotChecked, "", "%v", d.disk.usageErr)
	}
	if u.Total == 0 {
		return finding(VerdictNotChecked, "", "this system does not report how much space is free")
	}
	if d.disk.readOnly {
		return finding(VerdictWrong, "mount the file system for writing", "the file system is mounted read-only")
	}
	mark := freeMark(uint64(d.settings.config.MinFreeSpace), u.Total)
	have := fmt.Sprintf("%s of %s is free, and writes need at least %s", inGiB(u.Free), inGiB(u.Total), inGiB(mark))
	makeRoom := "free some space, or use a larger disk"
	var list []Finding
	days, known := d.daysLeft(mark)
	switch {
	case u.Free < mark:
		list = finding(VerdictWrong, makeRoom, "%s: too little, so the server accepts no writes", have)
	case known && days < daysWrong:
		list = finding(VerdictWrong, makeRoom, "%s: enough for %.1f days at last week's growth rate", have, days)
	case known && days < daysAdvice:
		list = finding(VerdictAdvice, makeRoom, "%s: enough for %.0f days at last week's growth rate", have, days)
	case u.Free < 2*mark:
		list = finding(VerdictAdvice, makeRoom, "%s", have)
	}
	if u.InodesTotal > 0 && u.InodesFree < minInodes {
		list = append(list, finding(VerdictAdvice, "remove small files, or use a file system with more inodes", "%d of %d inodes are unused", u.InodesFree, u.InodesTotal)...)
	}
	if known && days < 10_000 {
		have = fmt.Sprintf("%s: enough for %.0f days at last week's growth rate", have, days)
	}
	return orOK(list, "%s", have)
}

// minEvents is the minimum number of events needed to estimate growth. With fewer events, the fixed
// size of an empty database makes up most of the used space.
const minEvents = 1000

// daysLeft estimates how many days remain until the free space falls below mark if the ledgers keep
// growing at last week's rate. known is false if there are too few events for an estimate.
func (d *deployment) daysLeft(mark uint64) (days float64, known bool) {
	events, recent := uint64(0), 0.0
	for _, l := range d.server.ledgers {
		events += l.TreeSize
		recent += l.perDay
	}
	used := folderSize(d.logFolder()) + folderSize(datadir.IndexFolder(d.data()))
	if events < minEvents || recent == 0 || used == 0 || d.disk.usage.Free < mark {
		return 0, false
	}
	perEvent := float64(used) / float64(events)
	return float64(d.disk.usage.Free-mark) / (perEvent * recent), true
}

// folderSize returns the total size of all readable files in a folder and its subfolders, in bytes.
func folderSize(dir string) (total uint64) {
	_ = filepath.WalkDir(datadir.ResolveSymlinks(dir), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			total += uint64(info.Size())
		}
		return nil
	})
	return total
}

// freeMark returns the number of free bytes below which the server accepts no writes, following the
// rule of pebble.Config.MinFreeBytes. total is the size of the file system. set is the configured
// value, or 0 for the default.
func freeMark(set, total uint64) uint64 {
	if set != 0 {
		return set
	}
	return min(max(total/20, 32<<20), 1<<30)
}

func inGiB(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// A sync that takes less than syncTooFast cannot have reached a disk. A sync that takes longer than
// syncSlow makes every client wait noticeably.
const (
	syncTooFast = 20 * time.Microsecond
	syncSlow    = 20 * time.Millisecond
)

// checkSync checks that syncs reach the disk and are fast enough.
func checkSync(d *deployment) []Finding {
	took := d.disk.sync.Round(time.Microsecond)
	switch {
	case errors.Is(d.disk.syncErr, fs.ErrPermission):
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", d.disk.syncErr)
	case d.disk.syncErr != nil:
		return finding(VerdictNotChecked, "", "%v", d.disk.syncErr)
	case took < syncTooFast:
		return finding(VerdictAdvice, "make sure that the file system, the virtual machine, and the disk all honour syncs", "a sync takes %s, which is too fast for any disk: acknowledged records may be lost if the power fails", took)
	case took > syncSlow:
		return finding(VerdictAdvice, "use a faster disk, or write in batches; never switch syncs off", "a sync takes %s, and the response to every write waits for one", took)
	}
	return finding(VerdictOK, "", "a sync takes %s (median of %d syncs)", took, syncsTimed)
}
