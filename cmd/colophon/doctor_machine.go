package main

import (
	"fmt"
	"math"
	"net/url"
	"time"

	"colophon/internal/memory"
	"colophon/internal/server"
	"colophon/ledger/index"
)

// machine is what the operating system lets this command have.
type machine struct {
	openFiles uint64 // 0: not known
	memory    memory.Limits
}

func lookAtMachine() machine {
	m := machine{memory: memory.Current()}
	m.openFiles, _ = server.OpenFileLimit()
	return m
}

// fileLimit is how many files the server may open, as its metrics show, else this command.
func (d *doctor) fileLimit() (limit uint64, whose string) {
	if limit := d.server.gauges("process_max_fds")[""]; limit > 0 {
		return uint64(limit), "the server"
	}
	return d.machine.openFiles, "this command (a service may have another limit)"
}

// checkFileLimit: the server may open as many files as the settings let it.
func checkFileLimit(d *doctor) []diagnosis {
	config := d.settings.config.LoadConfig
	have, whose := d.fileLimit()
	need := server.FilesNeeded(config)
	switch {
	case have == 0:
		return found(unchecked, "", "the limit is not known here")
	case have < server.OtherFiles:
		return found(wrong, "raise it: LimitNOFILE=65536 for systemd, --ulimit nofile=65536 for docker",
			"%s may open %d files, and the databases alone may need %d", whose, have, server.OtherFiles)
	case have < need:
		return found(advice, "raise it (LimitNOFILE=65536 for systemd), or lower --max-connections",
			"%s may open %d files, and with %d connections it may need %d", whose, have, config.MaxConnections, need)
	}
	return found(fine, "", "%s may open %d, and may need %d", whose, have, need)
}

// otherMemory is about what a server takes that no setting bounds, the database's memory
// tables among it, in bytes.
const otherMemory = 160 << 20

// wantedMemory is what a server may use with these settings, in bytes.
func wantedMemory(c server.Config) uint64 {
	return uint64(c.Cache) + uint64(c.IndexCache) + uint64(c.MaxBodyMemory) + uint64(c.MaxAnswerMemory) + otherMemory
}

// memoryLimits are those of this command, and GOMEMLIMIT as the server's metrics show it
// if the server is on this machine. config has the sizes of its caches.
func (d *doctor) memoryLimits() (limits memory.Limits, config server.Config) {
	limits = d.machine.memory
	shown := d.server.gauges("go_gc_gomemlimit_bytes")[""]
	if shown == 0 || !d.serverIsHere() {
		return limits, d.settings.config.WithCaches(limits.Usable())
	}
	limits.Runtime = 0
	config = d.settings.config.WithCaches(limits.Usable())
	if shown < math.MaxInt64 {
		limits.Runtime = uint64(shown)
		config = d.settings.config.WithCaches(limits.Usable())
		// The server takes from it what the index keeps outside the runtime's memory.
		limits.Runtime += uint64(index.KeptBytes(int64(config.IndexCache)))
	}
	return limits, config
}

// serverIsHere reports whether a server answers that is on this machine.
func (d *doctor) serverIsHere() bool {
	u, err := url.Parse(d.server.url)
	return err == nil && d.answers() && (d.own || server.Loopback(u.Hostname()))
}

// checkMemory: there is the memory that caches and bodies may take, and the garbage
// collector knows how much.
func checkMemory(d *doctor) []diagnosis {
	limits, config := d.memoryLimits()
	wanted, have := wantedMemory(config), limits.Available()
	const lower = "--cache, --index-cache, --max-body-memory and --max-answer-memory"
	switch {
	case have == 0:
		return found(unchecked, "", "how much there is is not known here")
	case have < wanted:
		return found(wrong, "lower "+lower+", or give it more", "caches, bodies and answers may take %d MiB, and there are %d MiB", inMiB(wanted), inMiB(have))
	case limits.Runtime > have:
		return found(wrong, "set it to nine tenths of what there is", "GOMEMLIMIT is %d MiB, and there are %d MiB", inMiB(limits.Runtime), inMiB(have))
	case limits.Runtime != 0 && limits.Runtime < wanted:
		return found(advice, "raise it, or lower "+lower, "GOMEMLIMIT is %d MiB, and caches, bodies and answers may take %d MiB: near the limit collecting garbage takes most of the time", inMiB(limits.Runtime), inMiB(wanted))
	case limits.Runtime == 0 && limits.Container != 0:
		return found(advice, fmt.Sprintf("set GOMEMLIMIT=%dMiB in its environment", inMiB(limits.Container/10*9)), "it is killed at %d MiB, and its garbage collector does not know", inMiB(limits.Container))
	}
	return found(fine, "", "%d MiB, of which caches, bodies and answers may take %d MiB", inMiB(have), inMiB(wanted))
}

func inMiB(bytes uint64) uint64 { return bytes >> 20 }

// clockTolerance is how far clocks may be apart, which includes the way to the server.
const clockTolerance = 2 * time.Second

// checkClock: it is not behind the ledgers' last events, and agrees with the server's.
func checkClock(d *doctor) []diagnosis {
	synchronise := "have it synchronised (chrony, systemd-timesyncd), on the host where this is a guest or a container"
	var list []diagnosis
	for _, l := range d.server.ledgers {
		if ahead := l.LastEvent.Sub(d.server.date); ahead > clockTolerance && !d.server.date.IsZero() {
			list = append(list, found(wrong, synchronise, "the server's clock is %s behind the last event of ledger %q: until it has caught up, all events get that time",
				ahead.Round(time.Second), l.Name)...)
		}
	}
	if apart := d.server.skew.Abs(); apart > clockTolerance {
		list = append(list, found(advice, synchronise, "this clock and the server's are %s apart", apart.Round(time.Second))...)
	}
	if d.server.date.IsZero() {
		return orFine(list, "%s; no server was there to compare it with", d.now.UTC().Format(time.RFC3339))
	}
	return orFine(list, "%s, as the server has it", d.now.UTC().Format(time.RFC3339))
}
