package doctor

import (
	"fmt"
	"math"
	"net/url"
	"time"

	"colophon/internal/cli"
	"colophon/internal/memory"
	"colophon/internal/openfiles"
	"colophon/internal/server"
	"colophon/ledger/index"
)

// machine holds the resource limits of this process.
type machine struct {
	openFiles uint64 // 0 if unknown
	memory    memory.Limits
}

func inspectMachine() machine {
	m := machine{memory: memory.CurrentLimits()}
	m.openFiles, _ = openfiles.Limit()
	return m
}

// fileLimit returns how many files the server may open. If the server does not expose its limit,
// fileLimit returns the limit of this command instead. process says whose limit it is, for use in
// messages.
func (d *deployment) fileLimit() (limit uint64, process string) {
	if limit := d.server.gauges("process_max_fds")[""]; limit > 0 {
		return uint64(limit), "the server"
	}
	return d.machine.openFiles, "this command (a service may have a different limit)"
}

// checkFileLimit checks that the server may open as many files and connections as the settings
// allow.
func checkFileLimit(d *deployment) []Finding {
	config := d.settings.config.ServerLimits
	have, process := d.fileLimit()
	need := openfiles.MaxOpen(config)
	switch {
	case have == 0:
		return finding(VerdictNotChecked, "", "this system does not report how many files a process can open")
	case have < openfiles.MaxBaseFiles:
		return finding(VerdictWrong, "raise the limit: LimitNOFILE=65536 for systemd, --ulimit nofile=65536 for docker",
			"%s can open at most %d files, but the databases alone can need %d", process, have, openfiles.MaxBaseFiles)
	case have < need:
		return finding(VerdictAdvice, "raise the limit (LimitNOFILE=65536 for systemd), or lower --max-connections",
			"%s can open at most %d files, but with %d connections the server can need %d", process, have, config.MaxConnections, need)
	}
	return finding(VerdictOK, "", "%s can open %d files, and the server needs at most %d", process, have, need)
}

// otherMemory estimates the memory that no setting bounds, such as the database's memory
// tables, in bytes.
const otherMemory = 160 << 20

// memoryNeeded estimates the maximum memory that a server with these settings uses, in bytes.
func memoryNeeded(c server.Config) uint64 {
	return uint64(c.DatabaseCacheSize) + uint64(c.IndexCacheSize) + uint64(c.MaxBodyMemory) + uint64(c.MaxAnswerMemory) + otherMemory
}

// memoryLimits returns the memory limits of this command, and the configuration with cache sizes
// derived from them. If a server on this machine exposes its GOMEMLIMIT, that value replaces this
// command's.
func (d *deployment) memoryLimits() (limits memory.Limits, config server.Config) {
	limits = d.machine.memory
	shown := d.server.gauges("go_gc_gomemlimit_bytes")[""]
	show := shown != 0 && d.serverIsHere()
	switch {
	case show && shown < math.MaxInt64:
		limits.Runtime = uint64(shown)
	case show:
		limits.Runtime = 0
	}
	config = d.settings.config.WithDefaultCacheSizes(limits.UsableBytes())
	if show && limits.Runtime != 0 {
		// Add the memory that the index keeps outside the Go heap, because the server has
		// subtracted it from its limit.
		limits.Runtime += uint64(index.OffHeapBytes(int64(config.IndexCacheSize)))
	}
	return limits, config
}

// serverIsHere reports whether the server that answers is on this machine.
func (d *deployment) serverIsHere() bool {
	u, err := url.Parse(d.server.url)
	return err == nil && d.answers() && (d.own || cli.IsLoopback(u.Hostname()))
}

// checkMemory checks that there is enough memory for caches, bodies, and answers, and that
// GOMEMLIMIT is neither missing nor set to an unsuitable value.
func checkMemory(d *deployment) []Finding {
	limits, config := d.memoryLimits()
	need, have := memoryNeeded(config), limits.AvailableBytes()
	const lower = "lower --cache, --index-cache, --max-body-memory and --max-answer-memory"
	// Nine tenths of the memory suit GOMEMLIMIT only if the server needs no more than that.
	limit := inMiB(have / 10 * 9)
	enough := limit<<20 >= memoryNeeded(d.settings.config.WithDefaultCacheSizes(limit<<20))
	set := fmt.Sprintf("set GOMEMLIMIT=%dMiB in the server's environment", limit)
	if !enough {
		set = lower + ", or give the server more memory; then set GOMEMLIMIT to nine tenths of it"
	}
	switch {
	case have == 0:
		return finding(VerdictNotChecked, "", "this system does not report its memory size")
	case have < need:
		return finding(VerdictWrong, lower+", or give the server more memory", "caches, request bodies, and responses may use %d MiB, but only %d MiB of memory is available", inMiB(need), inMiB(have))
	case limits.Runtime > have:
		return finding(VerdictWrong, set, "GOMEMLIMIT is %d MiB, but only %d MiB of memory is available", inMiB(limits.Runtime), inMiB(have))
	case limits.Runtime != 0 && limits.Runtime < need:
		if enough {
			set = fmt.Sprintf("raise GOMEMLIMIT, to at most %dMiB, or %s", limit, lower)
		}
		return finding(VerdictAdvice, set, "GOMEMLIMIT is %d MiB, but caches, request bodies, and responses may use %d MiB; near the limit, garbage collection uses most of the CPU time", inMiB(limits.Runtime), inMiB(need))
	case limits.Runtime == 0 && limits.Container != 0:
		return finding(VerdictAdvice, set, "the system kills the process at %d MiB, but the garbage collector is not aware of this limit", inMiB(limits.Container))
	}
	return finding(VerdictOK, "", "%d MiB of memory is available, of which caches, request bodies, and responses may use %d MiB", inMiB(have), inMiB(need))
}

func inMiB(bytes uint64) uint64 { return bytes >> 20 }

// clockTolerance is how far two clocks may differ before the doctor reports it. It allows for the
// time that a request takes.
const clockTolerance = 2 * time.Second

// checkClock checks that the server's clock is not behind the time of the last events and agrees
// with this machine's clock.
func checkClock(d *deployment) []Finding {
	synchronise := "synchronise the clock (chrony, systemd-timesyncd); for a virtual machine or a container, do this on its host"
	var list []Finding
	for _, l := range d.server.ledgers {
		if ahead := l.lastEvent.Sub(d.server.date); ahead > clockTolerance && !d.server.date.IsZero() {
			list = append(list, finding(VerdictWrong, synchronise, "the server's clock is %s behind the last event of ledger %q: until the clock catches up, new events get the time of the last event",
				ahead.Round(time.Second), l.Name)...)
		}
	}
	if apart := d.server.skew.Abs(); apart > clockTolerance {
		list = append(list, finding(VerdictAdvice, synchronise, "this machine's clock and the server's differ by %s", apart.Round(time.Second))...)
	}
	if d.server.date.IsZero() {
		return orOK(list, "this machine's clock shows %s; there is no server to compare it with", d.now.UTC().Format(time.RFC3339))
	}
	return orOK(list, "this machine's clock shows %s, and the server's clock agrees", d.now.UTC().Format(time.RFC3339))
}
