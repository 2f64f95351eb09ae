// Package ha_test injects faults into three servers on a highly available PostgreSQL: three nodes that Patroni
// manages, one of them the primary and another its synchronous standby. Clients write throughout. No acknowledged
// write may be lost, and no two checkpoints may contradict each other.
//
//	make ha                                  ten minutes of faults
//	make ha HA_MINUTES=2 HA_SEED=7 HA_SEEDS=3  three runs, of two minutes each, with the seeds 7 to 9
//	make ha HA_TAGS=withoutepoch             a build that does not raise the epoch; the run must fail
//
// HA_ONLY limits the faults to those whose names contain it. HA_LOGS names a folder to which the logs of all
// processes are copied.
//
// With the same seed, the same faults are chosen, but concurrent steps can happen in a different order. Everything
// runs in a temporary folder, on free ports of 127.0.0.1. docs/faults.md reports the findings.
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

// settings of a run. Only TestMain sets them.
var settings struct {
	lasts time.Duration // duration of the faults of one run
	seed  uint64
	seeds int
	tags  string // build tags of the servers
	only  string // part of the names of the faults to choose from
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

// number reads a number from an environment variable. If the variable is not set, it returns otherwise.
func number(name string, otherwise float64) float64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%s is not a number", name, text))
	}
	return n
}

// build returns the path of the command built with these tags. It builds the command only once for each list of
// tags.
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
