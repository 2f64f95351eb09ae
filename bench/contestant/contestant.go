// Package contestant runs the logs that the benchmark compares. Each log runs in its own process,
// either behind net/http or with its callers in that process.
package contestant

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"colophon/bench/corpus"
	"colophon/bench/load"
	"colophon/bench/system"
)

// Measurement holds the results for one row of the results table in one round.
type Measurement struct {
	Records int     `json:"records"`
	Seconds float64 `json:"seconds"`
	// Rate is the number of records per second. The time includes the wait until everything derived
	// from the records is available.
	Rate float64 `json:"records_per_second"`
	// P50 and P99 are latencies of requests, in milliseconds. A batch is a single request.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// CPU is the processor time of the contestant's process per record, in microseconds. It
	// includes the callers if they are in the same process.
	CPU float64 `json:"cpu_us_per_record"`
	// ClientCPU is the processor time of the client's process per record, in microseconds. It is 0
	// if the callers are in the contestant's process.
	ClientCPU float64 `json:"client_cpu_us_per_record"`
	// Fsyncs is the number of file syncs per 1,000 records. It is negative if syncs cannot be
	// counted.
	Fsyncs float64 `json:"fsyncs_per_1000_records"`
	// Written is the number of bytes written to the disk per record.
	Written float64 `json:"written_bytes_per_record"`
	// Disk is the size of the files after the measurement, in bytes per record.
	Disk float64 `json:"disk_bytes_per_record"`
	// Peak is the peak memory of the process, in bytes. If the callers are in the same process,
	// Peak does not include the request bodies that were generated in advance.
	Peak float64 `json:"peak_memory_bytes"`
	// CatchUp is the time that the index needed after the last acknowledgement, in milliseconds.
	// Seconds includes this time.
	CatchUp float64 `json:"catch_up_ms"`
	// Verified is the number of answers that were verified after the measurement.
	Verified int `json:"verified_answers"`
}

// NewMeasurement computes a Measurement from the results of the clients, the elapsed time, and the
// resources that the process used in that time.
func NewMeasurement(r *load.Result, elapsed time.Duration, use system.UsageDelta) Measurement {
	n := float64(r.Records)
	m := Measurement{
		Records: r.Records, Seconds: elapsed.Seconds(), Rate: n / elapsed.Seconds(),
		P50: milliseconds(r.Quantile(0.50)), P99: milliseconds(r.Quantile(0.99)),
		CPU: float64(use.CPU.Microseconds()) / n, Fsyncs: -1,
		Written: float64(use.Written) / n, Peak: float64(use.Peak),
		CatchUp: milliseconds(elapsed - r.Elapsed),
	}
	if use.Fsyncs >= 0 {
		m.Fsyncs = 1000 * float64(use.Fsyncs) / n
	}
	return m
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Config configures a contestant.
type Config struct {
	Dir     string
	Callers int // number of in-process callers
	Bodies  int // number of bodies to generate in advance, for in-process callers
	Seed    uint64
	Warm    time.Duration // duration of the warm-up before the measurement
	Time    time.Duration // duration of the measurement
	// Batch and Age determine when Tessera integrates entries: once Batch entries are waiting, or
	// once the oldest has waited for Age.
	Batch uint
	Age   time.Duration
	// Leaves is the size, in leaves, of the tree for which inclusion proofs are measured.
	Leaves uint64
	// Fresh makes Tessera create a proof builder for every proof.
	Fresh bool
}

// appended is a log in this process to which callers append records.
type appended struct {
	// add appends a record. It returns the answer once the record is durable.
	add func(ctx context.Context, body []byte) (answer []byte, err error)
	// caughtUp returns once everything derived from the given number of records is available. It is
	// nil if the log derives nothing.
	caughtUp func(ctx context.Context, records int) error
	// verify checks the answer for a record. It is called outside the measured time.
	verify func(ctx context.Context, answer, body []byte) error
}

// run measures how fast callers append records to a log.
func (c Config) run(ctx context.Context, log appended) (m Measurement, err error) {
	bodies, err := corpus.New(c.Seed).MakeBodies(0, c.Bodies)
	if err != nil {
		return m, err
	}
	queue := &load.BodyQueue{Bodies: bodies}
	warmed, err := c.append(ctx, c.Warm, log, queue)
	if err != nil {
		return m, err
	}
	debug.FreeOSMemory()
	if err := system.ResetPeakMemory(os.Getpid()); err != nil {
		return m, err
	}
	meter, err := system.StartMeter(os.Getpid(), c.Dir)
	if err != nil {
		return m, err
	}
	begin := time.Now()
	result, err := c.append(ctx, c.Time, log, queue)
	if err != nil {
		return m, err
	}
	taken := warmed.Records + result.Records
	if log.caughtUp != nil {
		if err := log.caughtUp(ctx, taken); err != nil {
			return m, fmt.Errorf("catching up: %w", err)
		}
	}
	elapsed := time.Since(begin)
	use, err := meter.Stop()
	if err != nil {
		return m, err
	}
	ahead, _ := bodies.TotalBytes()
	use.Peak -= ahead
	m = NewMeasurement(result, elapsed, use)
	if m.Verified, err = log.verifyAll(ctx, bodies, append(warmed.Samples, result.Samples...)); err != nil {
		return m, err
	}
	disk, err := system.DiskBytes(c.Dir)
	m.Disk = float64(disk) / float64(taken)
	return m, err
}

// append keeps each caller appending records, one at a time, for the given time.
func (c Config) append(ctx context.Context, time time.Duration, log appended, queue *load.BodyQueue) (*load.Result, error) {
	return during(ctx, time, make([]struct{}, c.Callers), func(_ struct{}, r *load.Result) (bool, error) {
		return log.one(context.WithoutCancel(ctx), queue, r)
	})
}

// one appends the next record. It returns false if no record is left.
func (a appended) one(ctx context.Context, queue *load.BodyQueue, r *load.Result) (more bool, err error) {
	i, ok := queue.Take(1)
	if !ok {
		return false, nil
	}
	begin := time.Now()
	answer, err := a.add(ctx, queue.Body(i))
	if err != nil {
		return false, fmt.Errorf("record %d: %w", i, err)
	}
	r.AddRequest(begin, 1)
	r.KeepSample(i, answer)
	return true, nil
}

// verifyAll verifies the sampled answers and returns their number.
func (a appended) verifyAll(ctx context.Context, bodies *corpus.Bodies, samples []load.Sample) (int, error) {
	for _, s := range samples {
		if err := a.verify(ctx, s.Answer, bodies.Body(s.Record)); err != nil {
			return 0, fmt.Errorf("verifying the response for record %d: %w", s.Record, err)
		}
	}
	return len(samples), nil
}

// during keeps all clients working for the given time. work does one unit of work for a client, and
// returns false if that client has no work left.
func during[C any](ctx context.Context, time time.Duration, clients []C, work func(C, *load.Result) (bool, error)) (*load.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time)
	defer cancel()
	return load.RunClients(ctx, clients, work)
}
