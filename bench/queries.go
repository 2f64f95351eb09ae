package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"colophon/bench/load"
	"colophon/bench/system"
)

// queries is the command that holds what a question costs in a large ledger against
// what it costs in a small one.
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
		Short: "Ask a large ledger and a small one the same, over HTTP",
		Long: `Fill two ledgers with IPC records, ten of each input and one input with a twentieth of
all, wait until both servers rest, read all events and all groups of either once, as a
server has that runs for a while, and ask them in turns, one kind after the other, about records drawn from all:
pages of ten rows, one connection. Then hold the large one's proofs against its /healthz.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return q.run(c.Context(), c.OutOrStdout()) },
	}
	q.bind(command)
	q.bindColophon(command)
	command.Flags().IntVar(&q.small, "small", 10_000, "`number` of records of the small ledger")
	command.Flags().IntVar(&q.large, "records", 1_000_000, "`number` of records of the large ledger")
	command.Flags().IntVar(&q.asks, "asks", 2000, "`number` of times that each question is asked")
	command.Flags().BoolVar(&q.cold, "cold", false, "do not have both ledgers read once before")
	command.Flags().BoolVar(&q.mixed, "mixed", false, "ask all kinds in turns, so that none finds the processor's caches as it left them")
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
		var sides [2]*asked
		for i, records := range []int{q.small, q.large} {
			if sides[i], err = askedOf(ctx, binaries[0].file, filepath.Join(scratch, fmt.Sprint(records)), records, q.seed); err != nil {
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
			if err := a.redial(); err != nil {
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

// askedLines is how many records a batch has by which a ledger is filled.
const askedLines = 2500

// asked is a server with a ledger that is asked.
type asked struct {
	server  *server
	conn    *load.Conn
	records int
	took    time.Duration // to fill it
}

// askedOf fills a ledger; the index has all of it.
func askedOf(ctx context.Context, binary, dir string, records int, seed uint64) (a *asked, err error) {
	a = &asked{records: records}
	service := colophonService{binary: binary}
	if a.server, err = service.start(ctx, dir); err != nil {
		return nil, err
	}
	if a.conn, err = load.Dial(a.server.listens["server"]); err != nil {
		return nil, errors.Join(err, a.server.stop())
	}
	begin := time.Now()
	bar := newProgress(records, fmt.Sprintf("filling %d", records))
	defer bar.finish()
	var lines []byte
	for first := 0; first < records && err == nil && ctx.Err() == nil; first += askedLines {
		count := min(askedLines, records-first)
		lines = lines[:0]
		for n := range count {
			lines = appendRun(lines, seed, first+n, records)
		}
		err = a.batch(service.target(count).Head, lines)
		bar.add(count)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = service.caughtUp(a.conn, records)
	}
	if err != nil {
		return nil, errors.Join(err, a.end())
	}
	a.took = time.Since(begin)
	return a, nil
}

// print tells how the ledger was filled, the index included.
func (a *asked) print(out io.Writer) error {
	use, err := system.UsageOf(a.server.pid())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d records: %.0f/s, CPU %.1f µs a record, at most %d MiB of memory\n", a.records,
		float64(a.records)/a.took.Seconds(), float64(use.CPU.Microseconds())/float64(a.records), use.Peak>>20)
	return err
}

// nextForm finds the cursor of the next page.
var nextForm = regexp.MustCompile(`"next":"([^"]+)"`)

// walk reads all events and all groups of inputs, so that caches hold what they can.
func (a *asked) walk(ctx context.Context) error {
	const page = 1000
	bar := newProgress(a.records, fmt.Sprintf("reading %d", a.records))
	defer bar.finish()
	for from := 0; from < a.records && ctx.Err() == nil; from += page {
		if _, err := get(a.conn, fmt.Sprintf("%s/events?from=%d&limit=%d", ledgerPath, from, page)); err != nil {
			return err
		}
		bar.add(page)
	}
	groups := fmt.Sprintf("%s/drift/groups?by=input_hash&limit=%d", ledgerPath, page)
	for cursor := ""; ctx.Err() == nil; {
		answer, err := get(a.conn, groups+cursor)
		if err != nil {
			return err
		}
		next := nextForm.FindSubmatch(answer)
		if next == nil {
			return nil
		}
		cursor = "&cursor=" + string(next[1])
	}
	return ctx.Err()
}

// redial takes a new connection: a server closes those on which nothing comes, as while
// the other ledger is filled.
func (a *asked) redial() error {
	if err := a.conn.Close(); err != nil {
		return err
	}
	conn, err := load.Dial(a.server.listens["server"])
	if err == nil {
		a.conn = conn
	}
	return err
}

func (a *asked) end() error { return errors.Join(a.conn.Close(), a.server.stop()) }

// batch posts records of which none must be refused.
func (a *asked) batch(head, lines []byte) error {
	if err := a.conn.Send(head, lines); err != nil {
		return err
	}
	status, answer, err := a.conn.Receive(nil)
	if err != nil {
		return err
	}
	if refused := regexp.MustCompile(`"status":4\d\d`).Find(answer); status != 200 || refused != nil {
		return fmt.Errorf("filling: status %d, %s: %.300s", status, refused, answer)
	}
	return nil
}

// appendRun appends the line of the n-th of all runs: each input has about ten, but for
// one that has every twentieth. A third of the outputs comes again.
func appendRun(dst []byte, seed uint64, n, all int) []byte {
	input := int(rand.New(rand.NewPCG(seed, uint64(n))).Int64N(max(int64(all)/10*19/20, 1)))
	if n%20 == 0 {
		input = -1
	}
	output := fmt.Sprintf("because %d, and some more words to make a sentence of it", n)
	if n%3 == 0 {
		output = fmt.Sprintf("because of %d", input%1000)
	}
	return fmt.Appendf(dst, `{"kind":"ipc_record","record":{"run_id":"run-%d","payload":{"seed":42,"q":"why %d?"},"system_prompt":"Be kind.",`+
		`"output":%q,"model":"model-%d","temperature":%s,"max_tokens":512,"labels":{"experiment":"e-%d"}}}`+"\n",
		n, input, output, n%3, []string{"0.7", "0.2"}[n/20%2], n/5000)
}

// inputForm finds a record's input_hash.
var inputForm = regexp.MustCompile(`"input_hash":"([0-9a-f]{64})"`)

// timeForm finds the time of an event.
var timeForm = regexp.MustCompile(`"time":"([^"]+)"`)

// drawn is what a question is about.
type drawn struct {
	seq, other  int
	input, time string
}

// draw draws a record.
func (a *asked) draw(random *rand.Rand) (drawn, error) {
	d := drawn{seq: 1 + random.IntN(a.records), other: 1 + random.IntN(a.records)}
	text, err := get(a.conn, fmt.Sprintf("%s/records/%d", ledgerPath, d.seq))
	if err != nil {
		return d, err
	}
	input, at := inputForm.FindSubmatch(text), timeForm.FindSubmatch(text)
	if input == nil || at == nil {
		return d, fmt.Errorf("record %d has no input_hash or no time: %.300s", d.seq, text)
	}
	d.input, d.time = string(input[1]), string(at[1])
	return d, nil
}

// questions are the kinds that are compared.
var questions = []struct {
	name string
	path func(d drawn) string
}{
	{"records of an input", func(d drawn) string { return "/records?limit=10&input_hash=" + d.input }},
	{"groups", func(drawn) string { return "/drift/groups?by=input_hash&limit=10" }},
	{"groups since", func(d drawn) string { return "/drift/groups?by=input_hash&limit=10&since=" + d.time }},
	{"groups by runs", func(drawn) string { return "/drift/groups?by=input_hash&limit=10&sort=runs" }},
	{"groups by flips", func(drawn) string { return "/drift/groups?by=input_hash&limit=10&sort=flips" }},
	{"groups by stability", func(drawn) string { return "/drift/groups?by=input_hash&limit=10&sort=stability" }},
	{"group with its runs", func(d drawn) string { return "/drift/groups/input_hash/" + d.input + "?limit=10" }},
	{"timeline", func(d drawn) string { return "/drift/timeline?limit=10&input_hash=" + d.input }},
	{"attribution", func(d drawn) string { return fmt.Sprintf("/drift/attribution?a=%d&b=%d", d.seq, d.other) }},
	{"effects", func(drawn) string { return "/drift/effects?variable=temperature&a=0.7&b=0.2&limit=10" }},
}

// comparison is what a question takes in either ledger.
type comparison struct {
	Name  string           `json:"name"`
	P50   [2]time.Duration `json:"p50_ns"`
	P99   [2]time.Duration `json:"p99_ns"`
	Bytes [2]int           `json:"answer_bytes"` // of all answers
}

// compare asks either ledger each question, in turns.
func (q *queries) compare(sides [2]*asked, out io.Writer) (list []comparison, err error) {
	fmt.Fprintf(out, "%-20s %12s %12s %7s %12s %12s %7s %7s\n", "question", "p50 µs small", "large", "ratio", "p99 µs small", "large", "ratio", "bytes")
	list = make([]comparison, len(questions))
	results := make([][2]load.Result, len(questions))
	random := rand.New(rand.NewPCG(q.seed, 7))
	ask := func(n int) error {
		for i, a := range sides {
			d, err := a.draw(random)
			if err != nil {
				return err
			}
			begin := time.Now()
			answer, err := get(a.conn, ledgerPath+questions[n].path(d))
			if err != nil {
				return err
			}
			results[n][i].Done(begin, 1)
			list[n].Bytes[i] += len(answer)
		}
		return nil
	}
	bar := newProgress(q.asks*len(questions), "asking")
	defer bar.finish()
	for turn := range q.asks * len(questions) {
		n := turn / q.asks
		if q.mixed {
			n = turn % len(questions)
		}
		if err := ask(n); err != nil {
			return nil, err
		}
		bar.add(1)
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
