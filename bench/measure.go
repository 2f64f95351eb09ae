package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"colophon/bench/contestant"
	"colophon/bench/corpus"
	"colophon/bench/load"
	"colophon/bench/system"
)

// timing holds the durations of a measurement and of its warm-up.
type timing struct {
	warm time.Duration // duration of the warm-up before the measurement
	time time.Duration // duration of the measurement
}

// exchange is a service and the load that its clients generate.
type exchange struct {
	service     service
	connections int
	lines       int // number of lines per batch; 0 for single records
	bodies      *corpus.Bodies
	profile     string // path of the profiles, without extensions; "" if none are taken
}

// measure starts the service with an empty folder and measures it. The measured time ends when
// everything derived from the last record is available.
func (e exchange) measure(ctx context.Context, t timing, dir string) (m contestant.Measurement, err error) {
	s, err := e.service.start(ctx, dir)
	if err != nil {
		return m, err
	}
	running := true
	defer func() {
		if running {
			err = errors.Join(err, s.stop())
		}
	}()
	connections, err := load.DialAll(s.listens["server"], e.connections)
	if err != nil {
		return m, err
	}
	defer func() { _ = load.CloseAll(connections) }() // the server has exited by then, so errors do not matter
	r := &round{exchange: e, server: s, connections: connections, queue: &load.BodyQueue{Bodies: e.bodies}, dir: dir}
	if m, err = r.drive(ctx, t); err != nil {
		return m, err
	}
	verify, err := e.service.verifier(connections[0], dir, r.taken)
	if err != nil {
		return m, err
	}
	running = false
	if err := s.stop(); err != nil {
		return m, err
	}
	for _, sample := range r.samples {
		if err := verify(ctx, sample.Answer, e.bodies.Body(sample.Record)); err != nil {
			return m, fmt.Errorf("verifying the response for record %d: %w", sample.Record, err)
		}
		m.Verified++
	}
	disk, err := system.DiskBytes(dir)
	m.Disk = float64(disk) / float64(r.taken)
	return m, err
}

// round is the state of one measurement of an exchange.
type round struct {
	exchange
	server      *server
	connections []*load.Conn
	queue       *load.BodyQueue
	dir         string
	taken       int // number of records that the server has accepted
	samples     []load.Sample
}

// drive makes the clients post records, first to warm up and then for the measurement.
func (r *round) drive(ctx context.Context, t timing) (m contestant.Measurement, err error) {
	if _, err := r.post(ctx, t.warm); err != nil {
		return m, err
	}
	profiled := r.beginProfiles(t.time)
	synced, err := r.service.fsyncs(r.connections[0])
	if err != nil {
		return m, err
	}
	own, err := system.UsageOf(os.Getpid())
	if err != nil {
		return m, err
	}
	meter, err := system.StartMeter(r.server.pid(), r.dir)
	if err != nil {
		return m, err
	}
	begin := time.Now()
	result, err := r.post(ctx, t.time)
	if err != nil {
		return m, err
	}
	if err := r.service.caughtUp(r.connections[0], r.taken); err != nil {
		return m, fmt.Errorf("catching up: %w", err)
	}
	elapsed := time.Since(begin)
	use, err := meter.Stop()
	if err != nil {
		return m, err
	}
	ownAfter, err := system.UsageOf(os.Getpid())
	if err != nil {
		return m, err
	}
	if use.Fsyncs < 0 && synced >= 0 {
		now, err := r.service.fsyncs(r.connections[0])
		if err != nil {
			return m, err
		}
		use.Fsyncs = int64(now - synced)
	}
	m = contestant.NewMeasurement(result, elapsed, use)
	m.ClientCPU = float64((ownAfter.CPU - own.CPU).Microseconds()) / float64(result.Records)
	return m, <-profiled
}

// post makes all connections post records for the given time.
func (r *round) post(ctx context.Context, time time.Duration) (*load.Result, error) {
	limited, cancel := context.WithTimeout(ctx, time)
	defer cancel()
	result, err := load.SendBodies(limited, load.NewClients(r.connections, r.service.target(r.lines)), r.queue)
	if err != nil {
		return nil, err
	}
	r.taken += result.Records
	r.samples = append(r.samples, result.Samples...)
	return result, ctx.Err()
}

// Suffixes of the names of profile files.
const (
	cpuProfile    = ".cpu.pprof"
	allocsProfile = ".allocs.pprof"
)

// beginProfiles starts taking profiles for the given time if profiles were requested. The channel
// receives nil, or an error, once the profiles have been written.
func (r *round) beginProfiles(over time.Duration) <-chan error {
	written := make(chan error, 1)
	if r.profile == "" {
		written <- nil
		return written
	}
	go func() { written <- r.takeProfiles(over) }()
	return written
}

// takeProfiles takes profiles of the server for the given time and writes them to files.
func (r *round) takeProfiles(over time.Duration) error {
	kinds := map[string]string{cpuProfile: "profile", allocsProfile: "allocs"}
	errs := make(chan error)
	for end, kind := range kinds {
		path := fmt.Sprintf("/debug/pprof/%s?seconds=%d", kind, max(1, int(over.Seconds())))
		go func() { errs <- r.takeProfile(path, r.profile+end) }()
	}
	var all error
	for range kinds {
		all = errors.Join(all, <-errs)
	}
	return all
}

func (r *round) takeProfile(path, file string) error {
	c, err := load.Dial(r.server.listens["metrics"])
	if err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	text, err := get(c, path)
	if err := errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	return os.WriteFile(file, text, 0o600)
}
