package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"colophon/bench/capacity"
	"colophon/bench/corpus"
	"colophon/bench/database"
	"colophon/bench/load"
	"colophon/bench/system"
)

// servers implements the servers command, which measures several servers on one database and compares
// the results with a simulation.
type servers struct {
	options
	seconds float64
	rounds  int
}

func newServers() *cobra.Command {
	s := new(servers)
	command := &cobra.Command{
		Use:   "servers",
		Short: "Measure several servers on one database, and compare them with a simulation",
		Long: `Start one PostgreSQL server in the folder for temporary files, and let clients post records to one,
two, and three servers with one to six ledgers, in rounds in which each setup is measured once. Four of the rows
have one ledger: they give the costs of a record and of a commit, and those of a server that follows. A
simulation with these costs predicts all rows. While clients post, the command looks 50 times a second at
what the sessions of the database wait for. It needs PostgreSQL's programs.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context(), c.OutOrStdout()) },
	}
	s.bind(command)
	s.bindColophon(command)
	command.Flags().Float64Var(&s.seconds, "seconds", 5, "`time` of each measurement")
	command.Flags().IntVar(&s.rounds, "rounds", 3, "`number` of rounds")
	return command
}

// serversRow describes a setup of servers, ledgers, and clients, and contains its results.
type serversRow struct {
	Servers int `json:"servers"`
	Ledgers int `json:"ledgers"`
	Clients int `json:"clients"`
	// Forwarded means that clients post to servers that must forward the records to another server.
	Forwarded bool           `json:"forwarded,omitempty"`
	Rounds    []serversRound `json:"rounds"`
	Median    serversRound   `json:"median"`
	// Predicted is the number of records per second that the simulation predicts.
	Predicted float64 `json:"predicted_records_per_second"`
}

// serversRound contains the results of one round. Server, Database and Client are processor times in µs
// per record.
type serversRound struct {
	Rate      float64 `json:"records_per_second"` // the measured time ends when all servers have indexed all records
	P50       float64 `json:"p50_ms"`
	Server    float64 `json:"server_us"`
	Database  float64 `json:"postgres_us"`
	Client    float64 `json:"client_us"`
	PerCommit float64 `json:"records_per_commit"`
	Busy      float64 `json:"busy_cores"` // number of cores that clients, servers, and PostgreSQL kept busy
	WAL       float64 `json:"wal_bytes"`
	Tables    float64 `json:"table_bytes"` // size of the tables including indexes, in bytes per record
	Folder    float64 `json:"folder_bytes"`
	Locks     float64 `json:"sessions_waiting_for_locks"` // mean number of database sessions that wait for locks
	Disk      float64 `json:"sessions_waiting_for_disk"`

	ByTable map[string]float64 `json:"bytes_by_table"` // value of Tables for each table, keyed by its name
}

// fields returns pointers to the figures for which medians are computed.
func (r *serversRound) fields() []*float64 {
	return []*float64{&r.Rate, &r.P50, &r.Server, &r.Database, &r.Client, &r.PerCommit, &r.Busy, &r.WAL, &r.Tables, &r.Folder, &r.Locks, &r.Disk}
}

// Indexes of the rows from which costsOf computes the costs. One and Many refer to the number of
// clients. In the Followed rows, a second server follows the ledger.
const (
	rowOfOne = iota
	rowOfMany
	rowOfOneFollowed
	rowOfManyFollowed
)

func serversRows() []*serversRow {
	const many = postgresClients
	return []*serversRow{
		rowOfOne:          {Servers: 1, Ledgers: 1, Clients: 1},
		rowOfMany:         {Servers: 1, Ledgers: 1, Clients: many},
		rowOfOneFollowed:  {Servers: 2, Ledgers: 1, Clients: 1},
		rowOfManyFollowed: {Servers: 2, Ledgers: 1, Clients: many},
		{Servers: 1, Ledgers: 4, Clients: many},
		{Servers: 2, Ledgers: 2, Clients: many},
		{Servers: 2, Ledgers: 4, Clients: many},
		{Servers: 3, Ledgers: 6, Clients: many},
		{Servers: 2, Ledgers: 4, Clients: many, Forwarded: true},
	}
}

func (s *servers) run(ctx context.Context, out io.Writer) error {
	if s.quick {
		s.seconds, s.rounds = 1, 1
	}
	return s.withScratch(func(scratch string) (err error) {
		binaries, err := s.binaries(ctx, scratch)
		if err != nil {
			return err
		}
		database, err := database.Start(400)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, database.Close()) }()
		t := timing{warm: min(secondsOf(s.seconds)/4, time.Second), time: secondsOf(s.seconds)}
		bodies, err := corpus.New(s.seed).MakeBodies(0, t.bodies(40_000))
		if err != nil {
			return err
		}
		rows := serversRows()
		bar := newProgress(s.rounds*len(rows), "measuring")
		for range s.rounds {
			for _, r := range rows {
				if err := r.measure(ctx, &fleet{row: r, database: database, bodies: bodies}, binaries[0], scratch, t); err != nil {
					return fmt.Errorf("%d servers, %d ledgers: %w", r.Servers, r.Ledgers, err)
				}
				bar.Add(1)
			}
		}
		bar.Finish()
		costs := costsOf(rows)
		for _, r := range rows {
			if !r.Forwarded { // the simulation does not cover forwarding
				r.Predicted = capacity.Simulate(costs, capacity.Scenario{Servers: r.Servers, Ledgers: r.Ledgers, Clients: r.Clients,
					ServerCores: runtime.NumCPU(), Together: true}, 20_000).Rate
			}
		}
		if err := printServers(out, costs, rows); err != nil {
			return err
		}
		return errors.Join(bodies.Free(), writeJSON(s.json, struct {
			Costs capacity.Costs `json:"costs"`
			Rows  []*serversRow  `json:"rows"`
		}{costs, rows}))
	})
}

// measure measures the row once, in a new schema and new folders.
func (r *serversRow) measure(ctx context.Context, f *fleet, b binary, scratch string, t timing) error {
	return f.database.InSchema(ctx, func(schema string, options ...string) (err error) {
		f.schema = schema
		if f.dir, err = os.MkdirTemp(scratch, "servers-"); err != nil {
			return fmt.Errorf("creating a folder for the servers: %w", err)
		}
		defer func() { err = errors.Join(err, f.stop(), os.RemoveAll(f.dir)) }()
		for i := range r.Servers {
			service := colophonService{binary: b.file, store: f.database.URL(options...)}
			s, err := service.start(ctx, filepath.Join(f.dir, strconv.Itoa(i)))
			if err != nil {
				return err
			}
			f.servers = append(f.servers, s)
		}
		if err := f.connect(); err != nil {
			return err
		}
		round, err := f.measure(ctx, t)
		if err != nil {
			return err
		}
		r.Rounds = append(r.Rounds, round)
		for i, figure := range r.Median.fields() {
			values := make([]float64, len(r.Rounds))
			for j := range r.Rounds {
				values[j] = *r.Rounds[j].fields()[i]
			}
			*figure = median(values)
		}
		return nil
	})
}

// fleet is a group of running servers on one database, and their clients.
type fleet struct {
	row      *serversRow
	database *database.Database
	bodies   *corpus.Bodies
	schema   string
	dir      string
	servers  []*server
	control  []*load.Conn // one connection to each server, for requests outside the measurement
	clients  []load.Client
}

func (f *fleet) stop() (err error) {
	for _, c := range f.control {
		err = errors.Join(err, c.Close())
	}
	for _, c := range f.clients {
		err = errors.Join(err, c.Close())
	}
	for _, s := range f.servers {
		err = errors.Join(err, s.stop())
	}
	return err
}

// ledgerOf returns the path of the i-th ledger. The server with index i modulo the number of servers
// creates the ledger. Only this server has the signing key, so only this server can write the ledger.
func ledgerOf(i int) string { return "/v1/ledgers/ledger" + strconv.Itoa(i) }

// connect creates the ledgers and opens the connections of all clients.
func (f *fleet) connect() error {
	for _, s := range f.servers {
		c, err := load.Dial(s.listens["server"])
		if err != nil {
			return err
		}
		f.control = append(f.control, c)
	}
	for i := range f.row.Ledgers {
		c := f.control[i%len(f.control)]
		body := fmt.Sprintf(`{"name":"ledger%d"}`, i)
		if err := c.Send(load.PostRequestHead("/v1/ledgers", "Content-Type: application/json"), []byte(body)); err != nil {
			return fmt.Errorf("creating a ledger: %w", err)
		}
		status, answer, err := c.Receive(nil)
		if err != nil {
			return fmt.Errorf("creating a ledger: %w", err)
		}
		if status != http.StatusCreated {
			return fmt.Errorf("creating a ledger: status %d: %.500s", status, answer)
		}
	}
	if f.row.Forwarded { // the other servers must know the ledger before clients post to them
		time.Sleep(2 * time.Second)
	}
	for i := range f.row.Clients {
		l := i % f.row.Ledgers
		at := l % len(f.servers)
		if f.row.Forwarded {
			at = (at + 1) % len(f.servers)
		}
		c, err := load.Dial(f.servers[at].listens["server"])
		if err != nil {
			return err
		}
		head := load.PostRequestHead(ledgerOf(l)+"/ipc-records", "Content-Type: application/json", "Prefer: return=representation")
		f.clients = append(f.clients, load.Client{Conn: c, Target: load.Target{Head: head, Status: http.StatusCreated}})
	}
	return nil
}

// usage contains the resources that the servers, the database, and the clients have used so far.
type usage struct {
	database        database.Usage
	servers, client time.Duration
	commits, events float64
}

func (f *fleet) usage(ctx context.Context) (u usage, err error) {
	for i, s := range f.servers {
		used, err := system.UsageOf(s.pid())
		if err != nil {
			return u, err
		}
		u.servers += used.CPU
		if i >= f.row.Ledgers { // this server writes no ledger, so its metrics count no commits
			continue
		}
		for name, sum := range map[string]*float64{"colophon_commit_events_count": &u.commits, "colophon_commit_events_sum": &u.events} {
			n, err := metric(f.control[i], name)
			if err != nil {
				return u, err
			}
			*sum += n
		}
	}
	own, err := system.UsageOf(os.Getpid())
	if err != nil {
		return u, err
	}
	u.client = own.CPU
	u.database, err = f.database.Usage(ctx)
	return u, err
}

// measure makes the clients post records, first to warm up and then for the measurement.
func (f *fleet) measure(ctx context.Context, t timing) (r serversRound, err error) {
	if err := f.database.WaitForDisk(ctx); err != nil {
		return r, err
	}
	queue := &load.BodyQueue{Bodies: f.bodies}
	post := func(over time.Duration) (*load.Result, error) {
		limited, cancel := context.WithTimeout(ctx, over)
		defer cancel()
		return load.SendBodies(limited, f.clients, queue)
	}
	warmed, err := post(t.warm)
	if err != nil {
		return r, err
	}
	before, err := f.usage(ctx)
	if err != nil {
		return r, err
	}
	begin := time.Now()
	waits := f.database.SampleWaits(ctx)
	result, err := post(t.time)
	waited, watchErr := waits()
	if err := errors.Join(err, watchErr); err != nil {
		return r, err
	}
	if err := f.caughtUp(); err != nil {
		return r, err
	}
	elapsed := time.Since(begin)
	after, err := f.usage(ctx)
	if err != nil {
		return r, err
	}
	n := float64(result.Records)
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / n }
	r = serversRound{Rate: n / elapsed.Seconds(), P50: float64(result.Quantile(0.5).Microseconds()) / 1000,
		Server: each(after.servers - before.servers), Database: each(after.database.CPU - before.database.CPU), Client: each(after.client - before.client),
		PerCommit: (after.events - before.events) / (after.commits - before.commits),
		Busy:      (after.servers - before.servers + after.database.CPU - before.database.CPU + after.client - before.client).Seconds() / elapsed.Seconds(),
		WAL:       float64(after.database.WAL-before.database.WAL) / n,
		Locks:     waited.Locks, Disk: waited.Disk}
	all := float64(warmed.Records + result.Records)
	tables, err := f.database.TableSizes(ctx, f.schema)
	if err != nil {
		return r, err
	}
	r.ByTable = make(map[string]float64)
	for name, bytes := range tables {
		r.ByTable[name] = float64(bytes) / all
		r.Tables += float64(bytes) / all
	}
	folders, err := system.DiskBytes(f.dir)
	r.Folder = float64(folders) / all
	return r, err
}

// caughtUp waits until all servers have indexed all records of all ledgers.
func (f *fleet) caughtUp() error {
	for i := range f.row.Ledgers {
		size, err := sizeAt(f.control[i%len(f.control)], i)
		if err != nil {
			return err
		}
		for _, c := range f.control {
			for {
				shown, err := sizeAt(c, i)
				if err != nil {
					return err
				}
				if shown >= size {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			if _, err := get(c, ledgerOf(i)+"/records/"+strconv.FormatUint(size-1, 10)); err != nil {
				return fmt.Errorf("catching up: %w", err)
			}
		}
	}
	return nil
}

// sizeAt returns the size of the i-th ledger according to the server that c is connected to.
func sizeAt(c *load.Conn, i int) (uint64, error) {
	checkpoint, err := get(c, ledgerOf(i)+"/log/checkpoint")
	if err != nil {
		return 0, err
	}
	lines := strings.Split(string(checkpoint), "\n")
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing the size in a checkpoint: %w", err)
	}
	return size, nil
}

// Each constant is the fraction of a server's processor time per record that one step uses,
// measured with `bench run --profiles` (64 clients sending single posts).
const (
	beforeShare   = 0.30 // reading, routing, parsing, hashing, and building the event
	sequenceShare = 0.10
	indexShare    = 0.42
)

// pollInterval is the minimum time between a follower's polls of the head.
const pollInterval = 20 * time.Millisecond

// costsOf derives the costs from the four rows with one ledger. A record that shares its commit with other
// records costs less than a record with its own commit. The difference yields the cost of a commit. The
// second server of a row adds the cost of following.
func costsOf(rows []*serversRow) capacity.Costs {
	one, many := rows[rowOfOne].Median, rows[rowOfMany].Median
	split := func(alone, shared float64) (commit, record float64) {
		commit = max(0, (alone-shared)/(1-1/many.PerCommit))
		return commit, alone - commit
	}
	us := func(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }
	commit, record := split(one.Server, many.Server)
	databaseCommit, database := split(one.Database, many.Database)
	c := capacity.Costs{
		Client: us(many.Client), Before: us(record * beforeShare), Sequence: us(record * sequenceShare), Index: us(record * indexShare),
		After:        us(record * (1 - beforeShare - sequenceShare - indexShare)),
		ServerCommit: us(commit), Database: us(database), DatabaseCommit: us(databaseCommit),
	}
	followedOne, followedMany := rows[rowOfOneFollowed].Median, rows[rowOfManyFollowed].Median
	// recordsPerPoll returns the number of records between two polls.
	recordsPerPoll := func(r serversRound) float64 { return max(1, r.Rate*pollInterval.Seconds()) }
	follow := func(alone, shared float64) (poll, record float64) {
		if rarer := 1/recordsPerPoll(followedOne) - 1/recordsPerPoll(followedMany); rarer > 0 {
			poll = max(0, (alone-shared)/rarer)
		}
		return poll, max(0, shared-poll/recordsPerPoll(followedMany))
	}
	// rest returns the cost per record apart from following. Followers change only the number of records
	// per commit, not the cost of a commit.
	rest := func(r serversRound, commit, record float64) float64 { return record + commit/r.PerCommit }
	c.PollInterval = pollInterval
	poll, followed := follow(followedOne.Server-rest(followedOne, commit, record), followedMany.Server-rest(followedMany, commit, record))
	c.Poll, c.Follow = us(poll), us(followed)
	poll, followed = follow(followedOne.Database-rest(followedOne, databaseCommit, database), followedMany.Database-rest(followedMany, databaseCommit, database))
	c.PollDatabase, c.FollowDatabase = us(poll), us(followed)
	c.Wait = max(0, us(one.P50*1000)-c.Before-c.Sequence-c.After-c.ServerCommit-c.Database-c.DatabaseCommit)
	return c
}

func printServers(out io.Writer, c capacity.Costs, rows []*serversRow) error {
	fmt.Fprintf(out, "a record: client %v, server %v and index %v, database %v; a commit: server %v, database %v, wait %v\n",
		c.Client, c.Before+c.Sequence+c.After, c.Index, c.Database, c.ServerCommit, c.DatabaseCommit, c.Wait)
	fmt.Fprintf(out, "each server that follows: a record: server %v, database %v; a poll, at most one every %v: server %v, database %v\n\n",
		c.Follow, c.FollowDatabase, c.PollInterval, c.Poll, c.PollDatabase)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "servers\tledgers\tclients\trecords/s\tratio to first row\tp50 ms\tper commit\tserver µs\tPostgreSQL µs\tclient µs\tbusy cores\tlock waits\tdisk waits\tWAL B\ttables B\tfolder B\tpredicted\tpredicted/measured\t")
	for _, r := range rows {
		m, forwarded, predicted, accuracy := r.Median, "", "", ""
		if r.Forwarded {
			forwarded = " forwarded"
		} else {
			predicted, accuracy = fmt.Sprintf("%.0f", r.Predicted), fmt.Sprintf("%.2f", r.Predicted/m.Rate)
		}
		fmt.Fprintf(table, "%d\t%d\t%d%s\t%.0f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%s\t%s\t\n", r.Servers, r.Ledgers, r.Clients, forwarded,
			m.Rate, m.Rate/rows[rowOfMany].Median.Rate, m.P50, m.PerCommit, m.Server, m.Database, m.Client, m.Busy, m.Locks, m.Disk, m.WAL, m.Tables, m.Folder, predicted, accuracy)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	many := rows[rowOfMany].Rounds[0].ByTable
	fmt.Fprint(out, "\nbytes per record by table, including indexes:")
	for _, name := range slices.SortedFunc(maps.Keys(many), func(a, b string) int { return cmp.Compare(many[b], many[a]) }) {
		if many[name] >= 1 {
			fmt.Fprintf(out, " %s %.0f", name, many[name])
		}
	}
	return printPlans(out, c)
}

// printPlans prints what the simulation predicts if each server and the database have their own machines.
func printPlans(out io.Writer, c capacity.Costs) error {
	fmt.Fprint(out, "\n\npredicted, if each server and the database have their own machines, with 64 clients per ledger:\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "server cores\tdatabase cores\tservers\tledgers\trecords/s\tratio to first row\tper commit\tbusiest machine\t")
	for _, cores := range []int{2, 8} {
		one := 0.0
		for _, s := range []capacity.Scenario{{Servers: 1, Ledgers: 1}, {Servers: 1, Ledgers: 4}, {Servers: 2, Ledgers: 4}, {Servers: 3, Ledgers: 6}, {Servers: 6, Ledgers: 12}} {
			s.Clients, s.ServerCores, s.DatabaseCores = postgresClients*s.Ledgers, cores, 4*cores
			p := capacity.Simulate(c, s, 40_000)
			if one == 0 {
				one = p.Rate
			}
			fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%.0f\t%.2f\t%.1f\t%.2f\t\n", s.ServerCores, s.DatabaseCores, s.Servers, s.Ledgers, p.Rate, p.Rate/one, p.PerCommit, p.Busy)
		}
	}
	return table.Flush()
}
