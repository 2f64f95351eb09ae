package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"colophon/bench/contestant"
	"colophon/bench/corpus"
	"colophon/bench/load"
	"colophon/bench/system"
	"colophon/internal/cli"
)

// filling is a ledger that is being filled. Only one goroutine may use it.
type filling struct {
	service      colophonService
	server       *server
	dir          string
	corpus       *corpus.Corpus
	began        time.Time
	waitsForIdle bool // wait until the server is idle before each measurement

	taken         int   // number of records posted so far
	bytes, unique int64 // total length of the posted records, and how much of it is unique
	fillRate      float64
	fillCPU       float64 // processor time of the server in µs per record
}

// step holds the measurements at one size of the ledger.
type step struct {
	Records int `json:"records"` // number of records at the beginning of the measurement
	// FillRate is the number of records per second since the previous step.
	FillRate float64 `json:"fill_records_per_second"`
	// FillCPU is the server's processor time per record since the previous step, in µs.
	FillCPU float64 `json:"fill_cpu_us_per_record"`
	// Batches holds the measurement with batches, and Singles the measurement with single posts.
	Batches contestant.Measurement `json:"batches"`
	Singles contestant.Measurement `json:"singles"`
	// Lag is the number of events by which the index lagged behind when the last batch was
	// acknowledged.
	Lag float64 `json:"index_lag_events"`
	// Memory and Peak are the server's current and peak memory, in bytes.
	Memory int64 `json:"memory_bytes"`
	Peak   int64 `json:"peak_memory_bytes"`
	// Database and Index are the sizes on disk of the database and of the index, in bytes per
	// record.
	Database float64 `json:"database_bytes_per_record"`
	Index    float64 `json:"index_bytes_per_record"`
	// Body is the mean length of a posted record. Unique is the mean length without the texts that
	// also occur in an earlier record.
	Body   float64 `json:"body_bytes_per_record"`
	Unique float64 `json:"unique_bytes_per_record"`
	// Amplification is the number of bytes that the server wrote per byte that it received.
	Amplification float64 `json:"write_amplification"`
}

// growTo fills the ledger until it has size records. inTime is false if the deadline passed first.
func (f *filling) growTo(ctx context.Context, size int, deadline time.Time, bar *cli.Progress) (inTime bool, err error) {
	before, took := f.taken, time.Duration(0)
	began, err := system.UsageOf(f.server.pid())
	if err != nil {
		return false, err
	}
	for inTime = true; f.taken < size && inTime; {
		begin := f.taken
		posted, err := f.post(ctx, min(fillRecords, size-f.taken), fillConnections, fillLines)
		if err != nil {
			return false, err
		}
		took += posted.Elapsed
		bar.Add(f.taken - begin)
		inTime = time.Now().Before(deadline)
	}
	ended, err := system.UsageOf(f.server.pid())
	if err != nil || took == 0 {
		return inTime, err
	}
	f.fillRate = float64(f.taken-before) / took.Seconds()
	f.fillCPU = float64((ended.CPU - began.CPU).Microseconds()) / float64(f.taken-before)
	return inTime, nil
}

// post generates the next records and posts them over new connections, because the server closes
// connections that are idle for long.
func (f *filling) post(ctx context.Context, count, connections, lines int) (*load.Result, error) {
	if lines > 0 {
		count = max(lines, count/lines*lines)
	}
	bodies, err := f.corpus.MakeBodies(uint64(f.taken), count)
	if err != nil {
		return nil, err
	}
	opened, err := load.DialAll(f.server.listens["server"], connections)
	if err != nil {
		return nil, err
	}
	all, unique := bodies.TotalBytes()
	f.bytes, f.unique = f.bytes+all, f.unique+unique
	f.taken += count
	result, err := load.SendBodies(ctx, load.NewClients(opened, f.service.target(lines)), &load.BodyQueue{Bodies: bodies})
	if err == nil {
		err = ctx.Err()
	}
	return result, errors.Join(err, load.CloseAll(opened), bodies.Free())
}

// ask opens a connection, calls question with it, and closes it.
func (f *filling) ask(question func(*load.Conn) error) error {
	c, err := load.Dial(f.server.listens["server"])
	if err != nil {
		return err
	}
	return errors.Join(question(c), c.Close())
}

// catchUp waits until the index contains all posted records.
func (f *filling) catchUp() error {
	return f.ask(func(c *load.Conn) error { return f.service.caughtUp(c, f.taken) })
}

// measure posts window records in batches, and then half as many one at a time. It measures the
// speed of both, and the size of the ledger.
func (f *filling) measure(ctx context.Context, window int) (s step, err error) {
	s = step{Records: f.taken, FillRate: f.fillRate, FillCPU: f.fillCPU}
	if err := f.catchUp(); err != nil {
		return s, err
	}
	if s.Batches, s.Lag, err = f.measureWindow(ctx, window, fillConnections, fillLines); err != nil {
		return s, err
	}
	if s.Singles, _, err = f.measureWindow(ctx, window/2, singleConnections, 0); err != nil {
		return s, err
	}
	use, err := system.UsageOf(f.server.pid())
	if err != nil {
		return s, err
	}
	database, err := system.DiskBytes(filepath.Join(f.dir, "data", "db"))
	if err != nil {
		return s, err
	}
	index, err := system.DiskBytes(filepath.Join(f.dir, "data", "index"))
	if err != nil {
		return s, err
	}
	records := float64(f.taken)
	s.Memory, s.Peak = use.Memory, use.Peak
	s.Database, s.Index = float64(database)/records, float64(index)/records
	s.Body, s.Unique = float64(f.bytes)/records, float64(f.unique)/records
	s.Amplification = float64(use.Written) / float64(f.bytes)
	return s, nil
}

// measureWindow posts count records, and measures until the index contains them. lag is the number
// of events by which the index lagged behind when all records had been acknowledged.
func (f *filling) measureWindow(ctx context.Context, count, connections, lines int) (m contestant.Measurement, lag float64, err error) {
	if f.waitsForIdle {
		if err := f.server.rest(ctx); err != nil {
			return m, 0, err
		}
	}
	meter, err := system.StartMeter(f.server.pid(), f.dir)
	if err != nil {
		return m, 0, err
	}
	result, err := f.post(ctx, count, connections, lines)
	if err != nil {
		return m, 0, err
	}
	acknowledged := time.Now()
	err = f.ask(func(c *load.Conn) (err error) {
		lag, err = metric(c, "colophon_index_lag_events")
		return err
	})
	if err = errors.Join(err, f.catchUp()); err != nil {
		return m, 0, err
	}
	elapsed := result.Elapsed + time.Since(acknowledged)
	use, err := meter.Stop()
	if err != nil {
		return m, 0, err
	}
	return contestant.NewMeasurement(result, elapsed, use), lag, nil
}

// stepColumns are the columns of the table of steps. form is the fmt verb for a value.
var stepColumns = []struct {
	name string
	of   func(s *step) float64
	form string
}{
	{"records", func(s *step) float64 { return float64(s.Records) }, "%.0f"},
	{"filled/s", func(s *step) float64 { return s.FillRate }, "%.0f"},
	{"CPU µs", func(s *step) float64 { return s.FillCPU }, "%.1f"},
	{"batch/s", func(s *step) float64 { return s.Batches.Rate }, "%.0f"},
	{"CPU µs", func(s *step) float64 { return s.Batches.CPU }, "%.1f"},
	{"lag", func(s *step) float64 { return s.Lag }, "%.0f"},
	{"catch-up ms", func(s *step) float64 { return s.Batches.CatchUp }, "%.0f"},
	{"single/s", func(s *step) float64 { return s.Singles.Rate }, "%.0f"},
	{"p50 ms", func(s *step) float64 { return s.Singles.P50 }, "%.2f"},
	{"p99 ms", func(s *step) float64 { return s.Singles.P99 }, "%.2f"},
	{"CPU µs", func(s *step) float64 { return s.Singles.CPU }, "%.1f"},
	{"memory MiB", func(s *step) float64 { return float64(s.Memory >> 20) }, "%.0f"},
	{"peak MiB", func(s *step) float64 { return float64(s.Peak >> 20) }, "%.0f"},
	{"body B", func(s *step) float64 { return s.Body }, "%.0f"},
	{"unique B", func(s *step) float64 { return s.Unique }, "%.0f"},
	{"database B", func(s *step) float64 { return s.Database }, "%.0f"},
	{"index B", func(s *step) float64 { return s.Index }, "%.0f"},
	{"disk/unique", (*step).overUnique, "%.2f"},
	{"written/body", func(s *step) float64 { return s.Amplification }, "%.2f"},
}

// columnWidth is the width of the widest column plus a space, in characters.
const columnWidth = 13

func printStepNames(out io.Writer) {
	for _, c := range stepColumns {
		fmt.Fprintf(out, "%*s", columnWidth, c.name)
	}
	fmt.Fprintln(out)
}

func (s *step) print(out io.Writer) {
	for _, c := range stepColumns {
		fmt.Fprintf(out, "%*s", columnWidth, fmt.Sprintf(c.form, c.of(s)))
	}
	fmt.Fprintln(out)
}

// overUnique returns the ratio of the ledger's size on disk to the number of unique bytes that were
// posted.
func (s *step) overUnique() float64 { return (s.Database + s.Index) / s.Unique }

// growthTargets returns the targets that compare the last step with the first.
func growthTargets(steps []step) []target {
	first, last := &steps[0], &steps[len(steps)-1]
	what := fmt.Sprintf("at %d records over %d: ", last.Records, first.Records)
	return []target{
		target{What: what + "batches", AtLeast: 0.9}.of(last.Batches.Rate / first.Batches.Rate),
		target{What: what + "single posts", AtLeast: 0.9}.of(last.Singles.Rate / first.Singles.Rate),
		target{What: fmt.Sprintf("disk, index included, over unique bytes at %d records", last.Records), AtMost: 2.5}.of(last.overUnique()),
	}
}
