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

	"colophon/internal/datadir"
)

// disk is what the database is on.
type disk struct {
	kind    string // of file system, as mount has it; empty: not known
	options string // of the mount
	where   string // the folder that was looked at

	room    *room // nil: not known
	roomErr error // why it is not known

	sync    time.Duration // median of a small write and its sync
	syncErr error         // it was not timed
}

// room is what a file system has room for.
type room struct {
	total, free   uint64 // bytes; free for others than root
	files, unused uint64 // inodes; both 0 where they are not counted
	readOnly      bool
}

// lookAtDisk looks at the file system of the database, or of where it would be.
func lookAtDisk(data string) disk {
	d := disk{where: resolved(datadir.Database(data))}
	if _, err := os.Stat(d.where); errors.Is(err, fs.ErrNotExist) {
		d.where = resolved(data) // it would be made here
	}
	if absolute, err := filepath.Abs(d.where); err == nil {
		d.where = absolute
	}
	d.kind, d.options = mountOf(d.where)
	d.room, d.roomErr = roomOf(d.where)
	d.sync, d.syncErr = timeSyncs(data, d.where)
	return d
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

// timeSyncs is the median time to write 4 KiB and sync them, on the file system of the
// database. The file is made in the data folder, unless the database is on another
// file system, and removed.
func timeSyncs(data, database string) (median time.Duration, err error) {
	dir := data
	if !sameDevice(data, database) {
		dir = database
	}
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
	case slices.ContainsFunc(strings.Split(d.disk.options, ","), func(o string) bool { return o == "nobarrier" || o == "barrier=0" }):
		return found(wrong, "mount it with barriers", "%s is mounted without barriers: a sync does not reach the disk", d.disk.where)
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
	r := d.disk.room
	if d.disk.roomErr != nil {
		return found(unchecked, "", "%v", d.disk.roomErr)
	}
	if r == nil {
		return found(unchecked, "", "how much room there is is not known here")
	}
	if r.readOnly {
		return found(wrong, "mount it for writing", "the file system is mounted read-only")
	}
	mark := freeMark(uint64(d.settings.config.MinFreeSpace), r.total)
	have := fmt.Sprintf("%s free of %s, mark at %s", inGiB(r.free), inGiB(r.total), inGiB(mark))
	makeRoom := "make room, or give it a larger disk"
	var list []diagnosis
	days, known := d.daysLeft(mark)
	switch {
	case r.free < mark:
		list = found(wrong, makeRoom, "%s: no writes are taken", have)
	case known && days < daysShort:
		list = found(wrong, makeRoom, "%s: enough for %.1f days at the growth of the last week", have, days)
	case known && days < daysFew:
		list = found(advice, makeRoom, "%s: enough for %.0f days at the growth of the last week", have, days)
	case r.free < 2*mark:
		list = found(advice, makeRoom, "%s", have)
	}
	if r.files > 0 && r.unused < leastInodes {
		list = append(list, found(advice, "remove small files, or make the file system anew with more inodes", "%d of %d inodes are unused", r.unused, r.files)...)
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
	if events < leastRated || recent == 0 || used == 0 || d.disk.room.free < mark {
		return 0, false
	}
	perEvent := float64(used) / float64(events)
	return float64(d.disk.room.free-mark) / (perEvent * recent), true
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
