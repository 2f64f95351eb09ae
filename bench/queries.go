package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"colophon/bench/load"
)

// queries implements the queries command, which compares the response times of a large ledger with
// those of a small one.
type queries struct {
	options
	small, large int
	asks         int
	mixed, cold  bool
	time         time.Duration
}

func newQueries() *cobra.Command {
	q := new(queries)
	command := &cobra.Command{
		Use:   "queries",
		Short: "Ask a large and a small ledger the same questions, over HTTP",
		Long: `Fill two ledgers with IPC records, and wait until both servers are idle. Each input has ten
records, except for one input that has a twentieth of all records. To warm the caches, read
all events and all groups of both ledgers once, and ask a quarter of all questions. Then ask
both servers alternately about random records, one kind of question after the other: pages
of ten rows, over one connection. At the end, compare the speed of the large ledger's
proofs with that of its /healthz.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return q.run(c.Context(), c.OutOrStdout()) },
	}
	q.bind(command)
	q.bindColophon(command)
	command.Flags().IntVar(&q.small, "small", 10_000, "`number` of records of the small ledger")
	command.Flags().IntVar(&q.large, "records", 1_000_000, "`number` of records of the large ledger")
	command.Flags().IntVar(&q.asks, "asks", 2000, "`number` of times to ask each question")
	command.Flags().BoolVar(&q.cold, "cold", false, "time the first questions, with empty caches")
	command.Flags().BoolVar(&q.mixed, "mixed", false, "alternate between the kinds of queries, so that each starts with cold processor caches")
	command.Flags().DurationVar(&q.time, "time", 2*time.Second, "`time` of each round of proofs")
	return command
}

func (q *queries) run(ctx context.Context, out io.Writer) error {
	if q.quick {
		q.small, q.large, q.asks, q.time = 500, 2000, 20, 50*time.Millisecond
	}
	return q.withScratch(func(scratch string) (err error) {
		binaries, err := q.binaries(ctx, scratch)
		if err != nil {
			return err
		}
		var sides [2]*filledLedger
		for i, records := range []int{q.small, q.large} {
			if sides[i], err = fillLedger(ctx, binaries[0].file, filepath.Join(scratch, fmt.Sprint(records)), records, q.seed); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, sides[i].end()) }()
			if err := sides[i].print(out); err != nil {
				return err
			}
		}
		for _, a := range sides {
			if err := a.server.rest(ctx); err != nil {
				return err
			}
			if q.cold {
				continue
			}
			if err := a.walk(ctx); err != nil {
				return err
			}
		}
		asked, err := q.compare(sides, out)
		if err != nil {
			return err
		}
		proofs, err := q.proofs(ctx, sides[1], out)
		if err != nil {
			return err
		}
		return writeJSON(q.json, struct {
			Questions []comparison `json:"questions"`
			Proofs    []readRate   `json:"proofs"`
		}{asked, proofs})
	})
}

// questions lists the kinds of queries that are compared. path returns the path of a query about
// the record d.
var questions = []struct {
	name string
	path func(d sampledRecord) string
}{
	{"records of an input", func(d sampledRecord) string { return "/records?limit=10&input_hash=" + d.input }},
	{"groups", func(sampledRecord) string { return "/drift/groups?by=input_hash&limit=10" }},
	{"groups since", func(d sampledRecord) string { return "/drift/groups?by=input_hash&limit=10&since=" + d.time }},
	{"groups by runs", func(sampledRecord) string { return "/drift/groups?by=input_hash&limit=10&sort=runs" }},
	{"groups by flips", func(sampledRecord) string { return "/drift/groups?by=input_hash&limit=10&sort=flips" }},
	{"groups by stability", func(sampledRecord) string { return "/drift/groups?by=input_hash&limit=10&sort=stability" }},
	{"group with its runs", func(d sampledRecord) string { return "/drift/groups/input_hash/" + d.input + "?limit=10" }},
	{"timeline", func(d sampledRecord) string { return "/drift/timeline?limit=10&input_hash=" + d.input }},
	{"attribution", func(d sampledRecord) string { return fmt.Sprintf("/drift/attribution?a=%d&b=%d", d.seq, d.other) }},
	{"effects", func(sampledRecord) string { return "/drift/effects?variable=temperature&a=0.7&b=0.2&limit=10" }},
}

// comparison holds the figures of one kind of query in both ledgers, the small one first.
type comparison struct {
	Name  string           `json:"name"`
	P50   [2]time.Duration `json:"p50_ns"`
	P99   [2]time.Duration `json:"p99_ns"`
	Bytes [2]int           `json:"answer_bytes"` // total length of all answers, in bytes
}

// compare sends every kind of query to both ledgers, alternating between them.
func (q *queries) compare(sides [2]*filledLedger, out io.Writer) (list []comparison, err error) {
	fmt.Fprintf(out, "%-20s %12s %12s %7s %12s %12s %7s %7s\n", "question", "p50 µs small", "large", "ratio", "p99 µs small", "large", "ratio", "bytes")
	var connections [2]*load.Conn
	for i, a := range sides {
		if connections[i], err = a.dial(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, connections[i].Close()) }()
	}
	list = make([]comparison, len(questions))
	results := make([][2]load.Result, len(questions))
	random := rand.New(rand.NewPCG(q.seed, 7))
	ask := func(n int) error {
		for i, a := range sides {
			d, err := a.sampleRecord(connections[i], random)
			if err != nil {
				return err
			}
			begin := time.Now()
			answer, err := get(connections[i], ledgerPath+questions[n].path(d))
			if err != nil {
				return err
			}
			results[n][i].AddRequest(begin, 1)
			list[n].Bytes[i] += len(answer)
		}
		return nil
	}
	if !q.cold { // warm up, because clearing new pages slows down a server while its memory grows
		for n := range q.asks / 4 * len(questions) {
			if err := ask(n % len(questions)); err != nil {
				return nil, err
			}
		}
		clear(list)
		clear(results)
	}
	bar := newProgress(q.asks*len(questions), "asking")
	defer bar.Finish()
	for turn := range q.asks * len(questions) {
		n := turn / q.asks
		if q.mixed {
			n = turn % len(questions)
		}
		if err := ask(n); err != nil {
			return nil, err
		}
		bar.Add(1)
	}
	for n, question := range questions {
		c := &list[n]
		c.Name = question.name
		for i := range sides {
			slices.Sort(results[n][i].Latencies)
			c.P50[i], c.P99[i] = results[n][i].Quantile(0.5), results[n][i].Quantile(0.99)
		}
		c.print(out)
	}
	return list, nil
}

func (c *comparison) print(out io.Writer) {
	ratio := func(of [2]time.Duration) float64 { return float64(of[1]) / float64(of[0]) }
	fmt.Fprintf(out, "%-20s %12d %12d %7.2f %12d %12d %7.2f %7.2f\n", c.Name, c.P50[0].Microseconds(), c.P50[1].Microseconds(), ratio(c.P50),
		c.P99[0].Microseconds(), c.P99[1].Microseconds(), ratio(c.P99), float64(c.Bytes[1])/float64(c.Bytes[0]))
}
