package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"colophon/bench/contestant"
	"colophon/bench/corpus"
	"colophon/bench/database"
	"colophon/bench/load"
	"colophon/bench/system"
)

// postgres implements the postgres command, which compares Colophon on PostgreSQL with Colophon in
// a data folder, and with programs that write to PostgreSQL directly.
type postgres struct {
	options
	seconds  float64
	rounds   int
	profiles string
	delay    time.Duration
}

func newPostgres() *cobra.Command {
	p := new(postgres)
	command := &cobra.Command{
		Use:   "postgres",
		Short: "Compare Colophon on PostgreSQL with Colophon in a data folder, and with plain SQL",
		Long: `Start one PostgreSQL server in the folder for temporary files, and let 64 clients post records.
Each round measures every contestant once: Colophon with its log in PostgreSQL; Colophon with
its log in the data folder; a plain hash chain in SQL (SELECT … FOR UPDATE, INSERT, UPDATE); and
pgbench, which inserts rows of the same size without a chain, with prepared statements and
then with the simple query protocol, its default. It needs PostgreSQL's programs, pgbench
included.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.run(c.Context(), c.OutOrStdout()) },
	}
	p.bind(command)
	p.bindColophon(command)
	command.Flags().Float64Var(&p.seconds, "seconds", 5, "`time` of each measurement")
	command.Flags().IntVar(&p.rounds, "rounds", 3, "`number` of rounds")
	command.Flags().DurationVar(&p.delay, "delay", 0, "`time` by which bytes are delayed in each direction between every program and PostgreSQL, as by a network")
	command.Flags().StringVar(&p.profiles, "profiles", "", "`folder` for profiles of Colophon")
	return command
}

// postgresClients is the number of connections used for every row.
const postgresClients = 64

// postgresRow describes one way to store records, and holds its measurements.
type postgresRow struct {
	summary
	// Database is the processor time that PostgreSQL used in each round, in µs per record.
	Database []float64 `json:"postgres_cpu_us_per_record"`
	// WAL is how much PostgreSQL wrote to its write-ahead log in each round, in bytes per record.
	WAL []float64 `json:"wal_bytes_per_record"`
	// LoadAverage is the machine's load average after each round.
	LoadAverage []string `json:"load"`
}

func (p *postgres) run(ctx context.Context, out io.Writer) error {
	if p.quick {
		p.seconds, p.rounds = 1, 1
	}
	return p.withScratch(func(scratch string) (err error) {
		binaries, err := p.binaries(ctx, scratch)
		if err != nil {
			return err
		}
		server, err := database.Start(200)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		if p.profiles != "" {
			if err := os.MkdirAll(p.profiles, 0o755); err != nil {
				return fmt.Errorf("creating the folder for profiles: %w", err)
			}
		}
		c := &postgresRun{postgres: p, Database: server, scratch: scratch}
		if p.delay > 0 {
			var stop func() error
			if c.proxy, stop, err = server.Delay(p.delay); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stop()) }()
		}
		t := timing{warm: min(secondsOf(p.seconds)/4, time.Second), time: secondsOf(p.seconds)}
		if c.bodies, err = corpus.New(p.seed).MakeBodies(0, t.bodies(60_000)); err != nil {
			return err
		}
		rows := c.rows(binaries)
		if err := c.measure(ctx, rows, t); err != nil {
			return err
		}
		if err := printPostgres(out, rows); err != nil {
			return err
		}
		targets := postgresTargets(rows)
		for _, t := range targets {
			fmt.Fprintln(out, t)
		}
		return errors.Join(c.bodies.Free(), writeJSON(p.json, struct {
			Rows    []*postgresRow `json:"rows"`
			Targets []target       `json:"targets"`
		}{rows, targets}))
	})
}

// postgresRun is the state of one run of the postgres command.
type postgresRun struct {
	*postgres
	*database.Database
	scratch string
	bodies  *corpus.Bodies
	proxy   []string // connection options that lead through the proxy; nil without --delay
}

// measuredURL returns the URL for connections that are measured.
func (c *postgresRun) measuredURL(options ...string) string {
	return c.URL(append(options, c.proxy...)...)
}

// rows returns the rows to measure. Rows that are compared with each other are measured close
// together in time.
func (c *postgresRun) rows(binaries []binary) (rows []*postgresRow) {
	add := func(name, way, call string, measure func(ctx context.Context, t timing, dir string) (contestant.Measurement, error)) {
		rows = append(rows, &postgresRow{summary: summary{Row: &row{Contestant: name, Way: way, Call: call, Clients: postgresClients, measure: measure}}})
	}
	for _, call := range []string{"single", "batch"} {
		for _, b := range binaries {
			for _, way := range []string{"postgres", "folder"} {
				add(b.name, way, call, func(ctx context.Context, t timing, dir string) (contestant.Measurement, error) {
					return c.colophon(ctx, t, dir, b, way, call)
				})
			}
		}
		if call == "single" {
			add("chain", "postgres", "FOR UPDATE", c.chain)
			for _, insert := range []string{preparedInsert, simpleInsert} {
				add("pgbench", "postgres", insert, func(ctx context.Context, t timing, dir string) (contestant.Measurement, error) {
					return c.inserts(ctx, t, dir, insert)
				})
			}
		}
	}
	return rows
}

func (c *postgresRun) measure(ctx context.Context, rows []*postgresRow, t timing) error {
	bar := newProgress(c.rounds*len(rows), "measuring")
	defer bar.Finish()
	for range c.rounds {
		for _, r := range rows {
			bar.SetDescription(r.Row.name())
			if err := c.measureRow(ctx, r, t); err != nil {
				return fmt.Errorf("measuring %s: %w", r.Row.name(), err)
			}
			bar.Add(1)
		}
	}
	return nil
}

// measureRow measures a row once. It first waits until earlier writes have reached the disk.
func (c *postgresRun) measureRow(ctx context.Context, r *postgresRow, t timing) (err error) {
	dir, err := os.MkdirTemp(c.scratch, "row-")
	if err != nil {
		return fmt.Errorf("creating a folder for the row: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := c.WaitForDisk(ctx); err != nil {
		return err
	}
	before, err := c.Usage(ctx)
	if err != nil {
		return err
	}
	m, err := r.Row.measure(ctx, t, dir)
	if err != nil {
		return err
	}
	// The processor time and the write-ahead log include the warm-up, so the number of records must
	// include it too.
	records := float64(m.Records) * (t.warm + t.time).Seconds() / t.time.Seconds()
	after, err := c.Usage(ctx)
	if err != nil {
		return err
	}
	average, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return fmt.Errorf("reading the load: %w", err)
	}
	now, _, _ := strings.Cut(string(average), " ")
	r.add(m)
	r.Database = append(r.Database, float64((after.CPU-before.CPU).Microseconds())/records)
	r.WAL = append(r.WAL, float64(after.WAL-before.WAL)/records)
	r.LoadAverage = append(r.LoadAverage, now)
	return nil
}

// colophon measures a build of Colophon. way says whether the build stores its log in PostgreSQL or
// in its data folder.
func (c *postgresRun) colophon(ctx context.Context, t timing, dir string, b binary, way, call string) (m contestant.Measurement, err error) {
	e := exchange{connections: postgresClients, bodies: c.bodies}
	if call == "batch" {
		e.lines = batchLines[postgresClients]
	}
	service := colophonService{binary: b.file, profiled: c.profiles != ""}
	if c.profiles != "" {
		e.profile = filepath.Join(c.profiles, fmt.Sprintf("%s-%s-%s", b.name, way, call))
	}
	if way == "folder" {
		e.service = service
		return e.measure(ctx, t, dir)
	}
	err = c.InSchema(ctx, func(_ string, options ...string) (err error) {
		service.store = c.measuredURL(options...)
		e.service = service
		m, err = e.measure(ctx, t, dir)
		return err
	})
	return m, err
}

// chain measures a hash chain that is kept in the database with plain SQL. Each record is appended
// in a transaction that locks the row of the head.
func (c *postgresRun) chain(ctx context.Context, t timing, _ string) (m contestant.Measurement, err error) {
	err = c.InSchema(ctx, func(_ string, options ...string) (err error) {
		err = c.WithConnection(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `CREATE TABLE head (size bigint NOT NULL, tip bytea NOT NULL);
				INSERT INTO head VALUES (0, ''); CREATE TABLE chain (seq bigint NOT NULL PRIMARY KEY, hash bytea NOT NULL, body bytea NOT NULL)`)
			return err
		}, options...)
		if err != nil {
			return err
		}
		clients := make([]*pgx.Conn, 0, postgresClients)
		defer func() {
			for _, conn := range clients {
				err = errors.Join(err, conn.Close(ctx))
			}
		}()
		for range postgresClients {
			conn, err := pgx.Connect(ctx, c.measuredURL(options...))
			if err != nil {
				return err
			}
			clients = append(clients, conn)
		}
		queue := &load.BodyQueue{Bodies: c.bodies}
		drive := func(over time.Duration) (*load.Result, error) {
			limited, cancel := context.WithTimeout(ctx, over)
			defer cancel()
			return load.RunClients(limited, clients, func(conn *pgx.Conn, r *load.Result) (bool, error) {
				i, ok := queue.Take(1)
				if !ok {
					return false, nil
				}
				begin := time.Now()
				err := link(ctx, conn, queue.Body(i))
				r.AddRequest(begin, 1)
				return true, err
			})
		}
		if _, err := drive(t.warm); err != nil {
			return err
		}
		result, err := drive(t.time)
		if err == nil {
			m = contestant.NewMeasurement(result, result.Elapsed, system.UsageDelta{Fsyncs: -1})
		}
		return err
	})
	return m, err
}

// link appends a body to the hash chain in one transaction.
func link(ctx context.Context, conn *pgx.Conn, body []byte) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var size int64
		var tip []byte
		if err := tx.QueryRow(ctx, `SELECT size, tip FROM head FOR UPDATE`).Scan(&size, &tip); err != nil {
			return err
		}
		hash := sha256.Sum256(append(slices.Clone(tip), body...))
		if _, err := tx.Exec(ctx, `INSERT INTO chain (seq, hash, body) VALUES ($1, $2, $3)`, size, hash[:], body); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE head SET size = $1, tip = $2`, size+1, hash[:])
		return err
	})
}

// Calls of pgbench. preparedInsert is faster, because PostgreSQL does not parse and plan the statement again
// for each row. simpleInsert uses the simple query protocol, as pgbench does by default.
const (
	preparedInsert = "INSERT"
	simpleInsert   = "INSERT, simple"
)

// inserts measures pgbench while it repeatedly inserts the same record, one row per transaction.
func (c *postgresRun) inserts(ctx context.Context, t timing, dir, call string) (m contestant.Measurement, err error) {
	body, protocol := string(c.bodies.Body(0)), "prepared"
	if call == simpleInsert { // pgbench puts the value into the statement as it is
		body, protocol = "'"+strings.ReplaceAll(body, "'", "''")+"'", "simple"
	}
	script := filepath.Join(dir, "insert.sql")
	if err := os.WriteFile(script, []byte("INSERT INTO plain (body) VALUES (:body);\n"), 0o600); err != nil {
		return m, fmt.Errorf("writing pgbench's script: %w", err)
	}
	err = c.InSchema(ctx, func(_ string, options ...string) error { // options are search_path and the schema
		err := c.WithConnection(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)`)
			return err
		}, options...)
		if err != nil {
			return err
		}
		clients, seconds := strconv.Itoa(postgresClients), strconv.Itoa(int(math.Ceil((t.warm + t.time).Seconds())))
		command := exec.CommandContext(ctx, c.ProgramPath("pgbench"), "-n", "-M", protocol, "-c", clients, "-j", "2", "-T", seconds,
			"-f", script, "-D", "body="+body, "-l", "--log-prefix", filepath.Join(dir, "log"), c.measuredURL())
		command.Env = append(os.Environ(), "PGOPTIONS=-c "+strings.Join(options, "="))
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("pgbench: %w: %s", err, out)
		}
		result, err := pgbenchLog(dir, t.warm)
		if err == nil {
			m = contestant.NewMeasurement(result, result.Elapsed, system.UsageDelta{Fsyncs: -1})
		}
		return err
	})
	return m, err
}

// pgbenchLog computes the rate and latencies from pgbench's log files in dir. It leaves out the transactions
// that ended in the first part of the run, the warm-up.
func pgbenchLog(dir string, warm time.Duration) (*load.Result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		return nil, err
	}
	type transaction struct{ at, took time.Duration }
	var all []transaction
	var first, last time.Duration
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var client, number, latency, script, second, micro int64
			if _, err := fmt.Sscan(lines.Text(), &client, &number, &latency, &script, &second, &micro); err != nil {
				return nil, errors.Join(fmt.Errorf("parsing a line of pgbench's log: %w", err), f.Close())
			}
			took, at := time.Duration(latency)*time.Microsecond, time.Duration(second)*time.Second+time.Duration(micro)*time.Microsecond
			if begin := at - took; first == 0 || begin < first {
				first = begin
			}
			last = max(last, at)
			all = append(all, transaction{at, took})
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	r := &load.Result{Elapsed: last - first - warm}
	for _, one := range all {
		if one.at > first+warm {
			r.Latencies = append(r.Latencies, one.took)
		}
	}
	if r.Requests, r.Records = len(r.Latencies), len(r.Latencies); r.Records == 0 {
		return nil, errors.New("pgbench has logged nothing")
	}
	slices.Sort(r.Latencies)
	return r, nil
}

func printPostgres(out io.Writer, rows []*postgresRow) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "contestant\tlog\tcall\trecords/s\tlowest–highest\tp50 ms\tp99 ms\tCPU µs\tPostgreSQL µs\tWAL B\tload\t")
	for _, r := range rows {
		m := r.Median
		fmt.Fprintf(table, "%s\t%s\t%s\t%.0f\t%.0f–%.0f\t%.2f\t%.2f\t%.1f\t%.1f\t%.0f\t%s\t\n", r.Row.Contestant, r.Row.Way, r.Row.Call,
			m.Rate, r.Lowest, r.Highest, m.P50, m.P99, m.CPU, median(r.Database), median(r.WAL), strings.Join(r.LoadAverage, " "))
	}
	return table.Flush()
}

// postgresTargets returns the targets that compare each build of Colophon on PostgreSQL with the
// other rows.
func postgresTargets(all []*postgresRow) (list []target) {
	rows := make(summaries)
	for _, r := range all {
		rows[r.Row.name()] = &r.summary
	}
	suffix := "/" + strconv.Itoa(postgresClients)
	chain := rows["chain/postgres/FOR UPDATE"+suffix]
	for _, r := range all {
		if r.Row.Way != "folder" || r.Row.Call != "single" {
			continue
		}
		name := r.Row.Contestant
		single, batch := rows[name+"/postgres/single"+suffix], rows[name+"/postgres/batch"+suffix]
		list = append(list,
			target{What: name + ", single posts over the chain in SQL", AtLeast: 5}.of(ratios(single, chain, rate)...))
		for _, call := range []string{preparedInsert, simpleInsert} {
			insert := rows["pgbench/postgres/"+call+suffix]
			list = append(list,
				target{What: name + ", p50 of single posts over that of pgbench's " + call, AtMost: 3}.of(ratios(single, insert, p50)...),
				target{What: name + ", batches over pgbench's " + call, AtLeast: 1}.of(ratios(batch, insert, rate)...))
		}
		list = append(list,
			target{What: name + ", batches over the same in its folder", AtLeast: 0.4}.of(ratios(batch, rows[name+"/folder/batch"+suffix], rate)...),
			target{What: name + ", single posts over the same in its folder", AtLeast: 0.4}.of(ratios(single, rows[name+"/folder/single"+suffix], rate)...))
	}
	return list
}
