package main

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"colophon/internal/cli"
	"colophon/internal/server"
)

// machine is what the operating system gives to the server: to the process that runs on
// the data folder where there is one that can be looked at, else to this one.
type machine struct {
	process     *serverProcessInfo // nil: what follows is of this process
	openFiles   uint64             // that a process may have; 0: not known
	memory      uint64             // of the machine, in bytes; 0: not known
	memoryLimit uint64             // of the process's control group; 0: none, or not known
	// goMemory is GOMEMLIMIT in bytes, math.MaxInt64 where it is not set; 0: not known.
	goMemory     int64
	clockAdrift  bool   // the system says that nothing synchronises its clock
	surroundings string // what kind of container it is; empty: none that is known
}

// serverProcessInfo is what can be seen of the process that runs on the data folder.
type serverProcessInfo struct {
	user *int // who runs it; nil: not known
	// arguments begin with the program's name; variables are NAME=VALUE, and may hold
	// secrets. Both are empty where they cannot be seen.
	arguments, variables []string
	dir                  string // that it runs in; empty: not known
}

// ofWhom says whose limits these are.
func (m machine) ofWhom() string {
	if m.process != nil {
		return "the server"
	}
	return "this command (a service may have others)"
}

// checkFileLimit: the server may open as many files as the settings let it.
func checkFileLimit(d *doctor) []diagnosis {
	config := d.settings.config.LoadConfig
	have, need := d.machine.openFiles, server.FilesNeeded(config)
	switch {
	case have == 0:
		return found(unchecked, "", "the limit is not known here")
	case have < server.OtherFiles:
		return found(wrong, "raise it: LimitNOFILE=65536 for systemd, --ulimit nofile=65536 for docker",
			"%s may open %d files, and the databases alone may need %d", d.machine.ofWhom(), have, server.OtherFiles)
	case have < need:
		return found(advice, "raise it (LimitNOFILE=65536 for systemd), or lower --max-connections",
			"%s may open %d files, and with %d connections it may need %d", d.machine.ofWhom(), have, config.MaxConnections, need)
	}
	return found(fine, "", "%s may open %d, and may need %d", d.machine.ofWhom(), have, need)
}

// otherMemory is about what a server takes that no setting bounds, the database's memory
// tables among it, in bytes.
const otherMemory = 160 << 20

// wantedMemory is what a server may use with these settings, in bytes.
func wantedMemory(c server.Config) uint64 {
	return uint64(c.Cache) + uint64(c.IndexCache) + uint64(c.MaxBodyMemory) + uint64(c.MaxAnswerMemory) + otherMemory
}

// checkMemory: what caches and bodies may take is there, and the garbage collector
// knows how much.
func checkMemory(d *doctor) []diagnosis {
	m := d.machine
	wanted := wantedMemory(d.settings.config.WithCaches(m.usable()))
	have := m.memory
	if m.memoryLimit != 0 && (have == 0 || m.memoryLimit < have) {
		have = m.memoryLimit
	}
	switch {
	case have == 0:
		return found(unchecked, "", "how much there is is not known here")
	case have < wanted:
		return found(wrong, "lower --cache, --index-cache, --max-body-memory and --max-answer-memory, or give it more", "caches, bodies and answers may take %d MiB, and there are %d MiB", inMiB(wanted), inMiB(have))
	case m.goMemory == 0:
		return found(unchecked, asOwner, "there are %d MiB; whether GOMEMLIMIT is set cannot be seen", inMiB(have))
	case m.goMemory != math.MaxInt64 && uint64(m.goMemory) > have:
		return found(wrong, "set it to nine tenths of what there is", "GOMEMLIMIT is %d MiB, and there are %d MiB", inMiB(uint64(m.goMemory)), inMiB(have))
	case uint64(m.goMemory) < wanted:
		return found(advice, "raise it, or lower --cache, --index-cache, --max-body-memory and --max-answer-memory", "GOMEMLIMIT is %d MiB, and caches, bodies and answers may take %d MiB: near the limit collecting garbage takes most of the time", inMiB(uint64(m.goMemory)), inMiB(wanted))
	case m.goMemory == math.MaxInt64 && m.memoryLimit != 0:
		return found(advice, "set GOMEMLIMIT="+byteText(m.memoryLimit/10*9)+" in its environment", "it is killed at %d MiB, and its garbage collector does not know", inMiB(m.memoryLimit))
	}
	return found(fine, "", "%d MiB, of which caches, bodies and answers may take %d MiB", inMiB(have), inMiB(wanted))
}

func inMiB(bytes uint64) uint64 { return bytes >> 20 }

// byteText is a number of bytes in whole MiB, as GOMEMLIMIT has it.
func byteText(bytes uint64) string { return cli.Decimal(inMiB(bytes)) + "MiB" }

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
	if d.machine.clockAdrift {
		list = append(list, found(advice, synchronise, "nothing synchronises this machine's clock, as far as it knows")...)
	}
	if d.server.date.IsZero() {
		return orFine(list, "%s; no server was there to compare it with", d.now.UTC().Format(time.RFC3339))
	}
	return orFine(list, "%s, as the server has it", d.now.UTC().Format(time.RFC3339))
}

// checkSurroundings: what the program may want of where it runs.
func checkSurroundings(d *doctor) []diagnosis {
	var list []diagnosis
	dir := os.TempDir()
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		list = append(list, found(advice, "set TMPDIR to a folder, as the data folder, where you run it", "there is no folder %s for temporary files, which colophon metrics needs (serve does not)", dir)...)
	}
	where := "no container that is known"
	if d.machine.surroundings != "" {
		where = "in a container (" + d.machine.surroundings + ")"
	}
	return orFine(list, "%s; neither HOME nor an init process is needed", where)
}

// containerHint is the kind of container that the files and variables of this process
// show, under a root folder.
func containerHint(root string, env func(string) (string, bool)) string {
	if _, ok := env("KUBERNETES_SERVICE_HOST"); ok {
		return "Kubernetes"
	}
	for file, kind := range map[string]string{".dockerenv": "Docker", "run/.containerenv": "Podman"} {
		if _, err := os.Stat(filepath.Join(root, file)); !errors.Is(err, fs.ErrNotExist) {
			return kind
		}
	}
	return ""
}

// goMemoryLimit is GOMEMLIMIT among NAME=VALUE pairs in bytes, math.MaxInt64 if it is
// not set, and 0 for what the Go runtime would not take.
func goMemoryLimit(environment []string) int64 {
	for _, pair := range environment {
		value, ok := strings.CutPrefix(pair, "GOMEMLIMIT=")
		if !ok {
			continue
		}
		if value == "" || value == "off" {
			return math.MaxInt64
		}
		var size cli.Size
		if size.UnmarshalText([]byte(value)) != nil && size.UnmarshalText([]byte(strings.TrimSuffix(value, "B"))) != nil {
			return 0
		}
		return int64(size)
	}
	return math.MaxInt64
}

// usable is the memory that the process may use, in bytes; 0 if nothing is known of it.
func (m machine) usable() uint64 {
	have := uint64(m.goMemory)
	for _, limit := range [...]uint64{m.memory, m.memoryLimit} {
		if limit != 0 && (have == 0 || limit < have) {
			have = limit
		}
	}
	if have == math.MaxInt64 {
		return 0
	}
	return have
}
