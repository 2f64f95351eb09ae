package doctor

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/memory"
	"colophon/ledger/index"
)

func TestCheckFileLimit(t *testing.T) {
	with := func(files uint64) func(*deployment) { return func(d *deployment) { d.machine.openFiles = files } }
	runCheckCases(t, checkFileLimit, []checkCase{
		{"unknown", with(0), VerdictNotChecked, "does not report"},
		{"many", with(65536), VerdictOK, "this command (a service may have a different limit) can open 65536"},
		{"few", with(4096), VerdictAdvice, "4096 connections"},
		{"too few", with(1024), VerdictWrong, "the databases alone"},
		{"of the server", func(d *deployment) {
			with(65536)(d)
			withServer(func(a *serverAnswers) {
				a.metrics = metricsOf(t, "# TYPE process_max_fds gauge\nprocess_max_fds 1024\n")
			})(d)
		}, VerdictWrong, "the server can open at most 1024"},
	})
}

func TestCheckMemory(t *testing.T) {
	const gib = 1 << 30
	with := func(l memory.Limits) func(*deployment) { return func(d *deployment) { d.machine.memory = l } }
	// shown returns a function that adds a server on this machine. The server's metrics report limit as
	// GOMEMLIMIT, while this command has a different limit.
	shown := func(limit float64) func(*deployment) {
		return func(d *deployment) {
			d.machine.memory = memory.Limits{Machine: 8 * gib, Runtime: 700 << 20}
			withServer(func(a *serverAnswers) {
				a.metrics = metricsOf(t, fmt.Sprintf("# TYPE go_gc_gomemlimit_bytes gauge\ngo_gc_gomemlimit_bytes %g\n", limit))
			})(d)
		}
	}
	runCheckCases(t, checkMemory, []checkCase{
		{"unknown", with(memory.Limits{}), VerdictNotChecked, "does not report"},
		{"enough", with(memory.Limits{Machine: 8 * gib}), VerdictOK, "8192 MiB"},
		{"enough in a container", with(memory.Limits{Machine: 8 * gib, Container: 2 * gib, Runtime: 1800 << 20}), VerdictOK, "2048 MiB"},
		{"too little", with(memory.Limits{Machine: 256 << 20}), VerdictWrong, "only 256 MiB of memory is available"},
		{"too little in a container", with(memory.Limits{Machine: 8 * gib, Container: 256 << 20}), VerdictWrong, "only 256 MiB of memory is available"},
		{"collector does not know", with(memory.Limits{Machine: 8 * gib, Container: gib}), VerdictAdvice, "is not aware of this limit"},
		{"limit above what there is", with(memory.Limits{Machine: 8 * gib, Container: gib, Runtime: 2 * gib}), VerdictWrong, "GOMEMLIMIT is 2048 MiB"},
		{"limit below the caches", with(memory.Limits{Machine: 8 * gib, Runtime: 300 << 20}), VerdictAdvice, "GOMEMLIMIT is 300 MiB"},
		{"limit of the server", shown(300 << 20), VerdictAdvice, "GOMEMLIMIT is 300 MiB"},
		{"limit of the server above what there is", shown(9 * gib), VerdictWrong, "GOMEMLIMIT is 9344 MiB, but only 8192 MiB of memory is available"},
		{"limit of the server unset", shown(math.MaxInt64), VerdictOK, "8192 MiB"},
		{"limit of the server without what the index keeps", func(d *deployment) {
			d.settings.config.IndexCacheSize = 4 * gib
			shown(5*gib - float64(index.OffHeapBytes(4*gib)))(d)
		}, VerdictOK, "8192 MiB"},
		{"limit of a server elsewhere", func(d *deployment) {
			shown(300 << 20)(d)
			d.server.url = "https://ledger.example.org"
		}, VerdictAdvice, "GOMEMLIMIT is 700 MiB"},
		{"a larger index", func(d *deployment) {
			d.machine.memory = memory.Limits{Machine: 8 * gib}
			d.settings.config.IndexCacheSize = 8 * gib
		}, VerdictWrong, "caches, request bodies, and responses"},
		{"larger caches", func(d *deployment) {
			d.machine.memory = memory.Limits{Machine: 8 * gib}
			d.settings.config.DatabaseCacheSize = 8 * gib
		}, VerdictWrong, "caches, request bodies, and responses"},
	})
}

// The advice of a run does not lead to other advice in the next run.
func TestMemoryAdviceIsConsistent(t *testing.T) {
	advice := func(l memory.Limits) string {
		return checkMemory(newDeployment(t, func(d *deployment) { d.machine.memory = l }))[0].Advice
	}
	for _, c := range []struct {
		container, runtime uint64 // in MiB
		advice             string
	}{
		{1024, 0, "lower --cache, --index-cache, --max-body-memory and --max-answer-memory, or give the server more memory; then set GOMEMLIMIT to nine tenths of it"},
		{1024, 900, "lower --cache, --index-cache, --max-body-memory and --max-answer-memory, or give the server more memory; then set GOMEMLIMIT to nine tenths of it"},
		{1024, 1100, "lower --cache, --index-cache, --max-body-memory and --max-answer-memory, or give the server more memory; then set GOMEMLIMIT to nine tenths of it"},
		{1280, 0, "set GOMEMLIMIT=1152MiB in the server's environment"},
		{1280, 900, "raise GOMEMLIMIT, to at most 1152MiB, or lower --cache, --index-cache, --max-body-memory and --max-answer-memory"},
		{1280, 1300, "set GOMEMLIMIT=1152MiB in the server's environment"},
		{1280, 1152, ""},
	} {
		require.Equal(t, c.advice, advice(memory.Limits{Machine: 8 << 30, Container: c.container << 20, Runtime: c.runtime << 20}), "%+v", c)
	}
}

func TestMemoryOfTheManifestsIsEnough(t *testing.T) {
	goLimit := regexp.MustCompile(`(?i:GOMEMLIMIT)(?:: |=|\s+value: )(\d+)MiB\n`)
	systemLimit := regexp.MustCompile(`(?:mem_limit: |MemoryMax=|limits:\s+memory: )(\d+)(?:m|M|Mi)\n`)
	mebibytes := func(file string, pattern *regexp.Regexp) uint64 {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
		require.NoError(t, err)
		found := pattern.FindAllSubmatch(text, -1)
		require.Len(t, found, 1, "%s: %s", file, pattern)
		n, err := strconv.ParseUint(string(found[0][1]), 10, 64)
		require.NoError(t, err)
		return n << 20
	}
	for _, file := range []string{
		"compose.yaml", "compose.servers.yaml", "systemd/colophon.service", "kubernetes/statefulset.yaml", "kubernetes/servers/statefulset.yaml", "helm/colophon/values.yaml",
	} {
		limits := memory.Limits{Machine: 8 << 30, Container: mebibytes(file, systemLimit), Runtime: mebibytes(file, goLimit)}
		d := newDeployment(t, func(d *deployment) { d.machine.memory = limits })
		require.Equal(t, VerdictOK, checkMemory(d)[0].Verdict, "%s: %v", file, checkMemory(d))
		require.LessOrEqual(t, limits.Runtime, limits.Container/10*9, file)
	}
}

func TestInspectMachineKnowsThisOne(t *testing.T) {
	m := inspectMachine()
	require.NotZero(t, m.memory.Machine)
	if hasModes {
		require.NotZero(t, m.openFiles)
	}
}

func TestCheckClock(t *testing.T) {
	lastEvent := func(at time.Time) func(*deployment) {
		return func(d *deployment) {
			d.server.date = testNow
			d.server.ledgers = []ledgerAnswers{{lastEvent: at}}
		}
	}
	runCheckCases(t, checkClock, []checkCase{
		{"alone", func(*deployment) {}, VerdictOK, "there is no server to compare it with"},
		{"right", lastEvent(testNow.Add(-time.Minute)), VerdictOK, "the server's clock agrees"},
		{"behind the log", lastEvent(testNow.Add(time.Hour)), VerdictWrong, "1h0m0s behind the last event"},
		{"apart", func(d *deployment) { d.server.date, d.server.skew = testNow, -time.Minute }, VerdictAdvice, "differ by 1m0s"},
	})
}
