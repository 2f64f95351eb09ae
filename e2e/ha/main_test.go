// Package ha_test injects faults into three servers on a highly available PostgreSQL cluster. Patroni manages its
// three nodes. One node is the primary, and another is the synchronous standby. Clients write continuously. No
// acknowledged write may be lost, and no two checkpoints may contradict each other.
//
//	make ha                                  ten minutes of faults
//	make ha HA_MINUTES=2 HA_SEED=7 HA_SEEDS=3  three runs, of two minutes each, with seeds 7 to 9
//	HA_ONLY="commits that only" make ha HA_TAGS=withoutepoch
//	                                         a build that does not raise the epoch, so the run must fail
//
// If HA_ONLY is set, only faults whose names contain its value are injected. HA_LOGS names a folder to which the
// logs of all processes are copied.
//
// The same seed always selects the same faults, but concurrent steps can happen in a different order. Everything
// runs in a temporary folder, on free ports of 127.0.0.1. docs/faults.md describes the results.
package ha_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// settings configures a run of the tests. Only TestMain writes it.
var settings struct {
	lasts time.Duration // how long each run injects faults
	seed  uint64
	seeds int
	tags  string // build tags of the servers
	only  string // only faults whose names contain this string are chosen
	logs  string // folder to which the logs of all processes are copied; "" means none
	dir   string // folder with the builds of the command
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	settings.lasts = time.Duration(number("HA_MINUTES", 0.75) * float64(time.Minute))
	settings.seed = uint64(number("HA_SEED", float64(time.Now().Unix()%1_000_000)))
	settings.seeds = int(number("HA_SEEDS", 1))
	settings.only = os.Getenv("HA_ONLY")
	settings.tags, settings.logs = os.Getenv("HA_TAGS"), os.Getenv("HA_LOGS")
	dir, err := os.MkdirTemp("", "colophon-ha")
	if err == nil {
		err = os.Chmod(dir, 0o755) // #nosec G302 -- another user runs what is in it
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	settings.dir = dir
	return m.Run()
}

// number returns the value of an environment variable as a number, or fallback if the variable is not
// set. It panics if the value is not a number.
func number(name string, fallback float64) float64 {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%s is not a number", name, text))
	}
	return n
}

// build builds the command with the given tags and returns the path of the binary. It builds only once for each
// value of tags.
func build(t testing.TB, tags string) string {
	t.Helper()
	path := filepath.Join(settings.dir, "colophon-"+tags)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-o", path, "./cmd/colophon")
	command.Dir = filepath.Join("..", "..")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	return path
}
