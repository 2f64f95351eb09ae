package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"colophon/bench/contestant"
	"colophon/bench/corpus"
	"colophon/bench/system"
)

// versioned lists the modules whose versions the report contains.
var versioned = []string{"github.com/transparency-dev/tessera", "github.com/codenotary/immudb", "github.com/cockroachdb/pebble/v2"}

// report holds all results of the run command.
type report struct {
	Machine system.Machine `json:"machine"`
	// Builds maps the names of the builds of Colophon to their versions.
	Builds  map[string]string  `json:"builds"`
	Began   time.Time          `json:"began"`
	Seconds float64            `json:"seconds_per_round"`
	Before  system.DiskLatency `json:"fsync_before"`
	After   system.DiskLatency `json:"fsync_after"`
	Rows    []*summary         `json:"rows"`
	Proofs  []*proofRow        `json:"proofs,omitempty"`
	Targets []target           `json:"targets"`
}

// run implements the run command, which compares Colophon with other logs.
type run struct {
	options
	seconds   float64
	rounds    int
	only      string
	profiles  string
	benchstat string
}

func newRun() *cobra.Command {
	r := new(run)
	command := &cobra.Command{
		Use:   "run",
		Short: "Compare Colophon with Tessera and immudb",
		Long: `Compare Colophon with Tessera and immudb. Each round measures every row once, in a process
of its own and in a new folder. The command prints medians and compares them with the targets.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context(), c.OutOrStdout()) },
	}
	r.bind(command)
	r.bindColophon(command)
	flags := command.Flags()
	flags.Float64Var(&r.seconds, "seconds", 3, "`time` of each measurement")
	flags.IntVar(&r.rounds, "rounds", 5, "`number` of rounds")
	flags.StringVar(&r.only, "only", "", "regular `expression` that selects rows by name, like colophon/http/single/64 (contestant/way/call/clients); proofs are left out")
	flags.StringVar(&r.profiles, "profiles", "", "`folder` for processor and allocation profiles of Colophon over HTTP; taking them reduces the speed a little")
	flags.StringVar(&r.benchstat, "benchstat", "", "`file` for every round in the format of go test -bench")
	return command
}

func (r *run) run(ctx context.Context, out io.Writer) error {
	if r.quick {
		r.seconds, r.rounds = 0.2, 1
	}
	return r.withScratch(func(scratch string) error {
		report, err := r.measure(ctx, scratch, out)
		if err != nil {
			return err
		}
		if r.benchstat != "" {
			if err := writeBenchstat(r.benchstat, report.Rows); err != nil {
				return err
			}
		}
		return writeJSON(r.json, report)
	})
}

// probeSyncs is the number of syncs made to measure the speed of the disk.
const probeSyncs = 300

func (r *run) measure(ctx context.Context, scratch string, out io.Writer) (*report, error) {
	binaries, err := r.binaries(ctx, scratch)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the path of this program: %w", err)
	}
	result := &report{Began: time.Now().UTC(), Seconds: r.seconds}
	if result.Machine, err = system.ThisMachine(scratch, versioned...); err != nil {
		return nil, err
	}
	if result.Before, err = system.ProbeDisk(scratch, probeSyncs); err != nil {
		return nil, err
	}
	result.Builds = make(map[string]string)
	for _, b := range binaries {
		if result.Builds[b.name], err = b.version(ctx); err != nil {
			return nil, err
		}
	}
	printMachine(out, result)
	if r.profiles != "" {
		if err := os.MkdirAll(r.profiles, 0o755); err != nil {
			return nil, fmt.Errorf("creating the folder for profiles: %w", err)
		}
	}
	m := &matrix{self: self, colophon: binaries, seed: r.seed, profiles: r.profiles}
	if result.Rows, err = r.measureRows(ctx, m, scratch); err != nil {
		return nil, err
	}
	if r.only == "" {
		if result.Proofs, err = measureProofs(ctx, self, scratch, r.proofSizes(), r.rounds, secondsOf(r.seconds)/3); err != nil {
			return nil, err
		}
	}
	if result.After, err = system.ProbeDisk(scratch, probeSyncs); err != nil {
		return nil, err
	}
	result.Targets = targets(result)
	return result, printReport(out, result)
}

func secondsOf(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// measureRows measures every row that --only selects, once per round.
func (r *run) measureRows(ctx context.Context, m *matrix, scratch string) ([]*summary, error) {
	rows, err := m.chosen(r.only)
	if err != nil {
		return nil, err
	}
	t := timing{warm: min(secondsOf(r.seconds)/4, 300*time.Millisecond), time: secondsOf(r.seconds)}
	if m.bodies, err = corpus.New(r.seed).MakeBodies(0, t.bodies(mostOverHTTP(rows))); err != nil {
		return nil, err
	}
	all := make([]*summary, len(rows))
	for i, row := range rows {
		all[i] = &summary{Row: row}
	}
	bar := newProgress(r.rounds*len(rows), "measuring")
	defer bar.Finish()
	for range r.rounds {
		for _, s := range all {
			bar.SetDescription(s.Row.name())
			measured, err := r.measureRow(ctx, s.Row, t, scratch)
			if err != nil {
				return nil, fmt.Errorf("measuring %s: %w", s.Row.name(), err)
			}
			s.add(measured)
			bar.Add(1)
		}
	}
	for _, s := range all {
		if s.Row.profile != "" {
			if s.Profile, err = profileOf(s.Row.profile, s.Rounds[len(s.Rounds)-1]); err != nil {
				return nil, err
			}
		}
	}
	return all, m.bodies.Free()
}

func mostOverHTTP(rows []*row) (most int) {
	for _, r := range rows {
		if r.Way == "http" {
			most = max(most, r.most)
		}
	}
	return most
}

// measureRow measures one row in a new folder. It first waits until earlier writes have reached the
// disk, unless --quick is set.
func (r *run) measureRow(ctx context.Context, row *row, t timing, scratch string) (m contestant.Measurement, err error) {
	dir, err := os.MkdirTemp(scratch, "row-")
	if err != nil {
		return m, fmt.Errorf("creating a folder for the row: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if !r.quick {
		unix.Sync()
	}
	return row.measure(ctx, t, dir)
}
