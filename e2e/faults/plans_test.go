package faults_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"colophon/storage/faulty"
)

// target is a kind of file system call on files that match the pattern path. log and index are the
// approximate numbers of such calls in one session, on files of the log and of the index. 0 means
// that a session makes no such call.
type target struct {
	call, path string
	log, index int
}

// targets lists the calls that can fail. The numbers were counted in a session of files_test.go, in
// which tables are small.
var targets = []target{
	{faulty.CallCreate, "*.log", 2, 1}, {faulty.CallCreate, "*.sst", 6, 1}, {faulty.CallCreate, "*.blob", 2, 0}, {faulty.CallCreate, "MANIFEST-*", 1, 1},
	{faulty.CallCreate, "marker.*", 3, 3}, {faulty.CallCreate, "*.dbtmp", 1, 1}, {faulty.CallCreate, "LAYOUT*", 0, 1},
	{faulty.CallCompact, "*.sst", 1, 1}, {faulty.CallCompact, "*.blob", 1, 0}, {faulty.CallReuseForWrite, "*.log", 1, 0}, {faulty.CallRename, "", 1, 1},
	{faulty.CallOpen, "*.log", 1, 1}, {faulty.CallOpen, "*.sst", 8, 3}, {faulty.CallOpen, "*.blob", 3, 0}, {faulty.CallOpen, "MANIFEST-*", 1, 1},
	{faulty.CallOpen, "OPTIONS-*", 1, 1}, {faulty.CallOpen, "LAYOUT*", 0, 1}, {faulty.CallOpenDir, "", 12, 6},
	{faulty.CallRead, "*.log", 2, 1}, {faulty.CallRead, "*.sst", 60, 20}, {faulty.CallRead, "*.blob", 20, 0}, {faulty.CallRead, "MANIFEST-*", 2, 2},
	{faulty.CallRead, "OPTIONS-*", 5, 5}, {faulty.CallRead, "LAYOUT*", 0, 2},
	{faulty.CallWrite, "*.log", 16, 1}, {faulty.CallWrite, "*.sst", 40, 7}, {faulty.CallWrite, "*.blob", 12, 0}, {faulty.CallWrite, "MANIFEST-*", 4, 2},
	{faulty.CallWrite, "*.dbtmp", 1, 1}, {faulty.CallWrite, "LAYOUT*", 0, 1},
	{faulty.CallSync, "*.log", 14, 1}, {faulty.CallSync, "*.sst", 6, 1}, {faulty.CallSync, "*.blob", 2, 0}, {faulty.CallSync, "MANIFEST-*", 4, 2},
	{faulty.CallSync, "*.dbtmp", 1, 1}, {faulty.CallSync, "LAYOUT*", 0, 1}, {faulty.CallSync, "db", 12, 0}, {faulty.CallSync, "index", 0, 6},
	{faulty.CallSyncTo, "", 1, 0}, {faulty.CallPreallocate, "", 3, 1}, {faulty.CallRemove, "*.log", 2, 1}, {faulty.CallRemove, "*.sst", 3, 1}, {faulty.CallRemove, "*.blob", 2, 0},
	{faulty.CallRemove, "MANIFEST-*", 1, 1}, {faulty.CallRemove, "OPTIONS-*", 1, 1}, {faulty.CallRemove, "marker.*", 3, 3},
	{faulty.CallClose, "*.log", 4, 2}, {faulty.CallClose, "*.sst", 12, 4}, {faulty.CallClose, "*.blob", 4, 0}, {faulty.CallClose, "", 20, 15},
	{faulty.CallStat, "", 12, 6}, {faulty.CallList, "", 5, 3}, {faulty.CallLock, "", 1, 1}, {faulty.CallMkdirAll, "", 2, 2}, {faulty.CallDiskUsage, "", 16, 16},
}

// callsOf maps a mode to the calls that can fail in that mode. A mode that is not listed applies to
// all calls.
var callsOf = map[faulty.Mode][]string{
	faulty.ModeFailAfterSuccess: {faulty.CallCreate, faulty.CallCompact, faulty.CallRename, faulty.CallReuseForWrite, faulty.CallRemove, faulty.CallMkdirAll, faulty.CallWrite, faulty.CallSync, faulty.CallSyncTo, faulty.CallClose},
	faulty.ModeNoSpace: {faulty.CallCreate, faulty.CallCompact, faulty.CallRename, faulty.CallReuseForWrite, faulty.CallMkdirAll, faulty.CallWrite, faulty.CallSync,
		faulty.CallPreallocate},
	faulty.ModeShortWrite: {faulty.CallWrite},
	faulty.ModeFlipBit:    {faulty.CallRead},
}

// drawPlan randomly chooses the calls that fail in a session. If index is true, they are calls on
// files of the index. Otherwise, they are calls on files of the log.
func drawPlan(r *rand.Rand, mode faulty.Mode, index bool) faulty.Plan {
	plan := faulty.Plan{Mode: mode, BitIndex: r.IntN(1 << 20), Pause: 4 * time.Millisecond}
	for most := 0; most == 0; {
		of := targets[r.IntN(len(targets))]
		if calls := callsOf[mode]; calls != nil && !slices.Contains(calls, of.call) {
			continue
		}
		if most = of.log; index {
			most = of.index
		}
		plan.Calls, plan.FilePattern = []string{of.call}, of.path
		plan.SkipCount = r.IntN(max(1, most))
	}
	switch r.IntN(6) {
	case 0, 1:
		// More than one flipped bit in a write-ahead log can look like an interrupted write, so
		// several bits are flipped only in tables and blobs.
		if mode != faulty.ModeFlipBit || plan.FilePattern == "*.sst" || plan.FilePattern == "*.blob" {
			plan.FailCount = 1 + r.IntN(5)
		}
	case 2:
		if mode == faulty.ModeFail || mode == faulty.ModeNoSpace {
			plan.FailCount = -1
		}
	}
	return plan
}
