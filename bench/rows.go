package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"colophon/bench/contestant"
	"colophon/bench/corpus"
)

// row is one configuration to measure: a contestant and the way in which clients call it.
type row struct {
	Contestant string `json:"contestant"`
	Way        string `json:"way"`     // "http", or "process" for in-process calls
	Call       string `json:"call"`    // kind of request, such as "single" or "batch"
	Clients    int    `json:"clients"` // number of HTTP connections, or of callers if Way is "process"
	Note       string `json:"note,omitempty"`

	most    int    // upper bound on the records per second, used to generate enough bodies
	profile string // path of the profile files, without extensions; "" if no profiles are taken
	measure func(ctx context.Context, t timing, dir string) (contestant.Measurement, error)
}

// name returns the name by which --only and the targets refer to the row.
func (r *row) name() string {
	return fmt.Sprintf("%s/%s/%s/%d", r.Contestant, r.Way, r.Call, r.Clients)
}

// tesseraSettings maps the number of callers to the settings with which Tessera is fastest. Tessera
// writes a batch when it is full, or when its oldest entry has reached the maximum age.
var tesseraSettings = map[int]struct {
	batch uint
	age   time.Duration
}{
	1:    {1, 10 * time.Millisecond},
	64:   {64, 10 * time.Millisecond},
	512:  {256, 100 * time.Millisecond},
	8192: {4096, 100 * time.Millisecond},
}

// batchClients lists the numbers of connections that post batches. For each of them, batchLines
// contains a number of lines per batch that keeps the server busy.
var batchClients = []int{1, 64, 512}

var batchLines = map[int]int{1: 5000, 64: 128, 512: 16}

// matrix defines all rows for one or more builds of Colophon.
type matrix struct {
	self     string // path of this program
	colophon []binary
	seed     uint64
	profiles string // folder for profiles; "" if none are taken
	bodies   *corpus.Bodies
}

// rows returns the rows to measure. Rows that are compared with each other are measured close
// together in time.
func (m *matrix) rows() []*row {
	var rows []*row
	for _, connections := range []int{1, 64, 512} {
		for _, b := range m.colophon {
			rows = append(rows, m.colophonHTTP(b, "single", connections, 0))
		}
		rows = append(rows, m.tesseraHTTP(connections))
	}
	for _, b := range m.colophon {
		rows = append(rows, m.colophonHTTP(b, "batch-minimal", 64, batchLines[64]))
		for _, connections := range batchClients {
			rows = append(rows, m.colophonHTTP(b, "batch", connections, batchLines[connections]))
		}
	}
	for _, callers := range []int{8192, 512, 64, 1} {
		rows = append(rows, m.inProcess("tessera", callers, 130_000, m.tesseraFlags(callers)...), m.inProcess("colophon", callers, 60_000))
	}
	for _, callers := range []int{512, 64, 1} {
		rows = append(rows, m.inProcess("immudb", callers, 60_000))
	}
	return rows
}

// chosen returns the rows selected by only, a regular expression that matches their names. An empty
// expression matches all rows.
func (m *matrix) chosen(only string) ([]*row, error) {
	expression, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	var rows []*row
	for _, r := range m.rows() {
		if expression.MatchString(r.name()) {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("--only: no row has a name that matches %q", only)
	}
	return rows, nil
}

func (m *matrix) colophonHTTP(b binary, call string, connections, lines int) *row {
	r := &row{Contestant: b.name, Way: "http", Call: call, Clients: connections, most: 40_000}
	if lines > 0 {
		r.Note, r.most = fmt.Sprintf("%d lines per request", lines), 120_000
	}
	service := colophonService{binary: b.file, minimal: call == "batch-minimal", profiled: m.profiles != ""}
	if m.profiles != "" {
		r.profile = filepath.Join(m.profiles, fmt.Sprintf("%s-%s-%d", b.name, call, connections))
	}
	r.measure = func(ctx context.Context, t timing, dir string) (contestant.Measurement, error) {
		e := exchange{service: service, connections: connections, lines: lines, bodies: m.bodies, profile: r.profile}
		return e.measure(ctx, t, dir)
	}
	return r
}

func (m *matrix) tesseraFlags(callers int) []string {
	s := tesseraSettings[callers]
	return []string{"--batch", strconv.Itoa(int(s.batch)), "--age", s.age.String()}
}

func (m *matrix) tesseraHTTP(connections int) *row {
	s := tesseraSettings[connections]
	r := &row{Contestant: "tessera", Way: "http", Call: "single", Clients: connections, most: 40_000,
		Note: fmt.Sprintf("batch %d, age %s", s.batch, s.age)}
	r.measure = func(ctx context.Context, t timing, dir string) (contestant.Measurement, error) {
		service := tesseraService{self: m.self, settings: m.tesseraFlags(connections)}
		return exchange{service: service, connections: connections, bodies: m.bodies}.measure(ctx, t, dir)
	}
	return r
}

func (m *matrix) inProcess(name string, callers, most int, settings ...string) *row {
	r := &row{Contestant: name, Way: "process", Call: "single", Clients: callers, most: most}
	if name == "tessera" {
		s := tesseraSettings[callers]
		r.Note = fmt.Sprintf("batch %d, age %s", s.batch, s.age)
	}
	if callers == 1 {
		most = min(most, 10_000)
	}
	r.measure = func(ctx context.Context, t timing, dir string) (contestant.Measurement, error) {
		settings := append(settings, "--callers", strconv.Itoa(callers), "--bodies", strconv.Itoa(t.bodies(most)),
			"--seed", strconv.FormatUint(m.seed, 10), "--warm", t.warm.String(), "--time", t.time.String())
		var measured contestant.Measurement
		err := measureChild(ctx, &measured, m.self, name, dir, settings...)
		return measured, err
	}
	return r
}

// bodies returns the number of bodies needed for the warm-up and the measurement. most is an upper
// bound on the number of bodies that the clients post per second.
func (t timing) bodies(most int) int { return int((t.warm + t.time).Seconds() * float64(most)) }
