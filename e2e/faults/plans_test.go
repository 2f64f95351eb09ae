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
	{faulty.Create, "*.log", 2, 1}, {faulty.Create, "*.sst", 6, 1}, {faulty.Create, "*.blob", 2, 0}, {faulty.Create, "MANIFEST-*", 1, 1},
	{faulty.Create, "marker.*", 3, 3}, {faulty.Create, "*.dbtmp", 1, 1}, {faulty.Create, "LAYOUT*", 0, 1},
	{faulty.Compact, "*.sst", 1, 1}, {faulty.Compact, "*.blob", 1, 0}, {faulty.Reuse, "*.log", 1, 0}, {faulty.Rename, "", 1, 1},
	{faulty.Open, "*.log", 1, 1}, {faulty.Open, "*.sst", 8, 3}, {faulty.Open, "*.blob", 3, 0}, {faulty.Open, "MANIFEST-*", 1, 1},
	{faulty.Open, "OPTIONS-*", 1, 1}, {faulty.Open, "LAYOUT*", 0, 1}, {faulty.OpenDir, "", 12, 6},
	{faulty.Read, "*.log", 2, 1}, {faulty.Read, "*.sst", 60, 20}, {faulty.Read, "*.blob", 20, 0}, {faulty.Read, "MANIFEST-*", 2, 2},
	{faulty.Read, "OPTIONS-*", 5, 5}, {faulty.Read, "LAYOUT*", 0, 2},
	{faulty.Write, "*.log", 16, 1}, {faulty.Write, "*.sst", 40, 7}, {faulty.Write, "*.blob", 12, 0}, {faulty.Write, "MANIFEST-*", 4, 2},
	{faulty.Write, "*.dbtmp", 1, 1}, {faulty.Write, "LAYOUT*", 0, 1},
	{faulty.Sync, "*.log", 14, 1}, {faulty.Sync, "*.sst", 6, 1}, {faulty.Sync, "*.blob", 2, 0}, {faulty.Sync, "MANIFEST-*", 4, 2},
	{faulty.Sync, "*.dbtmp", 1, 1}, {faulty.Sync, "LAYOUT*", 0, 1}, {faulty.Sync, "db", 12, 0}, {faulty.Sync, "index", 0, 6},
	{faulty.SyncPart, "", 1, 0}, {faulty.Preallocate, "", 3, 1}, {faulty.Remove, "*.log", 2, 1}, {faulty.Remove, "*.sst", 3, 1}, {faulty.Remove, "*.blob", 2, 0},
	{faulty.Remove, "MANIFEST-*", 1, 1}, {faulty.Remove, "OPTIONS-*", 1, 1}, {faulty.Remove, "marker.*", 3, 3},
	{faulty.Close, "*.log", 4, 2}, {faulty.Close, "*.sst", 12, 4}, {faulty.Close, "*.blob", 4, 0}, {faulty.Close, "", 20, 15},
	{faulty.Stat, "", 12, 6}, {faulty.List, "", 5, 3}, {faulty.Lock, "", 1, 1}, {faulty.MkdirAll, "", 2, 2}, {faulty.Usage, "", 16, 16},
}

// callsOf maps a mode to the calls that can fail in that mode. A mode that is not listed applies to
// all calls.
var callsOf = map[faulty.Mode][]string{
	faulty.FailAfterSuccess: {faulty.Create, faulty.Compact, faulty.Rename, faulty.Reuse, faulty.Remove, faulty.MkdirAll, faulty.Write, faulty.Sync, faulty.SyncPart, faulty.Close},
	faulty.NoSpace: {faulty.Create, faulty.Compact, faulty.Rename, faulty.Reuse, faulty.MkdirAll, faulty.Write, faulty.Sync,
		faulty.Preallocate},
	faulty.Short:   {faulty.Write},
	faulty.FlipBit: {faulty.Read},
}

// drawPlan randomly chooses the calls that fail in a session. If index is true, they are calls on
// files of the index. Otherwise, they are calls on files of the log.
func drawPlan(r *rand.Rand, mode faulty.Mode, index bool) faulty.Plan {
	plan := faulty.Plan{Mode: mode, Bit: r.IntN(1 << 20), Pause: 4 * time.Millisecond}
	for most := 0; most == 0; {
		of := targets[r.IntN(len(targets))]
		if calls := callsOf[mode]; calls != nil && !slices.Contains(calls, of.call) {
			continue
		}
		if most = of.log; index {
			most = of.index
		}
		plan.Calls, plan.Path = []string{of.call}, of.path
		plan.Skip = r.IntN(max(1, most))
	}
	switch r.IntN(6) {
	case 0, 1:
		// More than one flipped bit in a write-ahead log can look like an interrupted write, so
		// several bits are flipped only in tables and blobs.
		if mode != faulty.FlipBit || plan.Path == "*.sst" || plan.Path == "*.blob" {
			plan.Count = 1 + r.IntN(5)
		}
	case 2:
		if mode == faulty.Fail || mode == faulty.NoSpace {
			plan.Count = -1
		}
	}
	return plan
}
