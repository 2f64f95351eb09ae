package main

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

// fileSystem is what the database is on.
type fileSystem struct {
	kind     string // as mount has it; empty: not known
	readOnly bool
	where    string // the folder that was looked at

	usage    disk.UsageStat
	usageErr error // why it is not known

	sync    time.Duration // median of a small write and its sync
	syncErr error         // it was not timed
}

// lookAtDisk looks at the file system of the database, or of where it would be.
func lookAtDisk(data string) fileSystem {
	d := fileSystem{where: resolved(datadir.Database(data))}
	if _, err := os.Stat(d.where); errors.Is(err, fs.ErrNotExist) {
		d.where = resolved(data) // it would be made here
	}
	if absolute, err := filepath.Abs(d.where); err == nil {
		d.where = absolute
	}
	d.kind, d.readOnly = mountOf(d.where)
	if usage, err := disk.Usage(d.where); err != nil {
		d.usageErr = fmt.Errorf("looking at the file system of %s: %w", d.where, err)
	} else {
		d.usage = *usage
	}
	d.sync, d.syncErr = timeSyncs(d.where)
	return d
}

// mountOf returns the kind of file system that an absolute path without links is on, and
// whether it is mounted read-only. The kind is empty where it is not known.
func mountOf(path string) (kind string, readOnly bool) {
	mounts, err := disk.Partitions(true)
	if err != nil {
		return "", false
	}
	return findMount(mounts, path)
}

// findMount finds the deepest mount point above a path, the last of several.
func findMount(mounts []disk.PartitionStat, path string) (kind string, readOnly bool) {
	deepest := -1
	for _, m := range mounts {
		if relative, err := filepath.Rel(m.Mountpoint, path); err == nil && filepath.IsLocal(relative) && len(m.Mountpoint) >= deepest {
			deepest, kind, readOnly = len(m.Mountpoint), m.Fstype, slices.Contains(m.Opts, "ro")
		}
	}
	return kind, readOnly
}

// resolved is where a path leads; the path itself if it leads nowhere.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// syncsTimed is how many syncs are timed.
const syncsTimed = 48

// timeSyncs is the median time to write 4 KiB and sync them, in a file in a folder that
// is removed again.
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

// Kinds of file systems, or their beginnings.
var (
	passingSystems = []string{"tmpfs", "ramfs", "overlay", "aufs", "unionfs"}
	remoteSystems  = []string{"nfs", "cifs", "smb", "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "afs", "lustre", "beegfs", "fuse.ceph"}
	foreignSystems = []string{"fuse", "9p", "virtiofs", "vboxsf", "prl_fs"}
)

// isAnyOf reports whether a kind begins like one of some.
func isAnyOf(kind string, beginnings []string) bool {
	return slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(kind, b) })
}

// checkFileSystem: it outlives a restart, and a sync on it means something.
func checkFileSystem(d *doctor) []diagnosis {
	switch kind := d.disk.kind; {
	case kind == "":
		return found(unchecked, "make sure that it is a local disk", "the kind of file system is not known here")
	case isAnyOf(kind, passingSystems):
		return found(wrong, "put the data folder on a disk; in a container, on a volume", "%s is on %s: it is gone after a restart", d.disk.where, kind)
	case isAnyOf(kind, remoteSystems):
		return found(wrong, "put the data folder on a local disk or a block volume", "%s is on %s, over the network: neither its locks nor its syncs can be relied on", d.disk.where, kind)
	case isAnyOf(kind, foreignSystems):
		return found(advice, "make sure that a sync reaches the disk behind it, or use a local disk", "%s is on %s, which somebody else implements", d.disk.where, kind)
	default:
		return found(fine, "", "%s", kind)
	}
}

// Free space is short when it would be used up that soon.
const (
	daysShort = 7
	daysFew   = 30
)

// leastInodes is how many unused inodes there should be at least.
const leastInodes = 10_000

// checkSpace: there is room above the mark below which no writes are taken, for some
// time.
func checkSpace(d *doctor) []diagnosis {
	r := d.disk.usage
	if d.disk.usageErr != nil {
		return found(unchecked, "", "%v", d.disk.usageErr)
	}
	if r.Total == 0 {
		return found(unchecked, "", "how much room there is is not known here")
	}
	if d.disk.readOnly {
		return found(wrong, "mount it for writing", "the file system is mounted read-only")
	}
	mark := freeMark(uint64(d.settings.config.MinFreeSpace), r.Total)
	have := fmt.Sprintf("%s free of %s, mark at %s", inGiB(r.Free), inGiB(r.Total), inGiB(mark))
	makeRoom := "make room, or give it a larger disk"
	var list []diagnosis
	days, known := d.daysLeft(mark)
	switch {
	case r.Free < mark:
		list = found(wrong, makeRoom, "%s: no writes are taken", have)
	case known && days < daysShort:
		list = found(wrong, makeRoom, "%s: enough for %.1f days at the growth of the last week", have, days)
	case known && days < daysFew:
		list = found(advice, makeRoom, "%s: enough for %.0f days at the growth of the last week", have, days)
	case r.Free < 2*mark:
		list = found(advice, makeRoom, "%s", have)
	}
	if r.InodesTotal > 0 && r.InodesFree < leastInodes {
		list = append(list, found(advice, "remove small files, or make the file system anew with more inodes", "%d of %d inodes are unused", r.InodesFree, r.InodesTotal)...)
	}
	if known && days < 10_000 {
		have = fmt.Sprintf("%s: enough for %.0f days at the growth of the last week", have, days)
	}
	return orFine(list, "%s", have)
}

// daysLeft is how long the room above the mark lasts at the growth of the last week,
// as the server's ledgers show it.
func (d *doctor) daysLeft(mark uint64) (days float64, known bool) {
	events, recent := uint64(0), 0.0
	for _, l := range d.server.ledgers {
		events += l.TreeSize
		recent += l.perDay
	}
	used := folderSize(datadir.Database(d.data())) + folderSize(datadir.Index(d.data()))
	// Small logs say nothing: what an empty database takes counts for more.
	if events < leastRated || recent == 0 || used == 0 || d.disk.usage.Free < mark {
		return 0, false
	}
	perEvent := float64(used) / float64(events)
	return float64(d.disk.usage.Free-mark) / (perEvent * recent), true
}

// folderSize is the length of all files in a folder, in bytes, as far as they can be
// seen.
func folderSize(dir string) (total uint64) {
	_ = filepath.WalkDir(resolved(dir), func(_ string, entry fs.DirEntry, err error) error {
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

// freeMark is the mark of free space as pebble.Config.MinFreeBytes has it, of a file
// system of that many bytes; set is 0 for the default.
func freeMark(set, total uint64) uint64 {
	if set != 0 {
		return set
	}
	return min(max(total/20, 32<<20), 1<<30)
}

func inGiB(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// A sync that is quicker cannot have reached a disk; one that is slower makes each
// client wait.
const (
	syncTooQuick = 20 * time.Microsecond
	syncSlow     = 20 * time.Millisecond
)

// checkSync: the disk takes some time to sync, and not too long.
func checkSync(d *doctor) []diagnosis {
	took := d.disk.sync.Round(time.Microsecond)
	switch {
	case errors.Is(d.disk.syncErr, fs.ErrPermission):
		return found(unchecked, asOwner, "%v", d.disk.syncErr)
	case d.disk.syncErr != nil:
		return found(unchecked, "", "%v", d.disk.syncErr)
	case took < syncTooQuick:
		return found(advice, "make sure that a sync is not switched off: in the file system, the virtual machine, or the disk", "a sync takes %s, which no disk can do: what is acknowledged may be lost with the power", took)
	case took > syncSlow:
		return found(advice, "give it a faster disk, or write in batches; never switch syncs off", "a sync takes %s, and every answer to a write waits for one", took)
	}
	return found(fine, "", "a sync takes %s (median of %d)", took, syncsTimed)
}
