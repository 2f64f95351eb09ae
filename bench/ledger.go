package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"time"

	"colophon/bench/load"
	"colophon/bench/system"
)

// linesPerBatch is the number of records in each batch that is posted to fill a ledger.
const linesPerBatch = 2500

// filledLedger is a running server with a filled ledger, to which queries are sent.
type filledLedger struct {
	server  *server
	records int
	took    time.Duration // how long it took to fill the ledger and its index
}

// fillLedger starts a server, fills its ledger with the given number of records, and waits until
// the index contains them.
func fillLedger(ctx context.Context, binary, dir string, records int, seed uint64) (*filledLedger, error) {
	service := colophonService{binary: binary}
	server, err := service.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	a := &filledLedger{server: server, records: records}
	begin := time.Now()
	if err := a.fill(ctx, service, seed); err != nil {
		return nil, errors.Join(err, a.end())
	}
	a.took = time.Since(begin)
	return a, nil
}

// dial opens a connection for a single use. A connection that stayed open would be idle while
// another ledger is filled or read, and the server would close it.
func (a *filledLedger) dial() (*load.Conn, error) { return load.Dial(a.server.listens["server"]) }

func (a *filledLedger) end() error { return a.server.stop() }

// fill posts the records and waits until the index contains them.
func (a *filledLedger) fill(ctx context.Context, service colophonService, seed uint64) (err error) {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	bar := newProgress(a.records, fmt.Sprintf("filling %d", a.records))
	defer bar.Finish()
	var lines []byte
	for first := 0; first < a.records; first += linesPerBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		count := min(linesPerBatch, a.records-first)
		lines = lines[:0]
		for n := range count {
			lines = appendRun(lines, seed, first+n, a.records)
		}
		if err := batch(conn, service.target(count).Head, lines); err != nil {
			return err
		}
		bar.Add(count)
	}
	return service.caughtUp(conn, a.records)
}

// refusedForm matches a refusal in the response to a batch.
var refusedForm = regexp.MustCompile(`"status":4\d\d`)

// batch posts a batch and returns an error if any of its records is refused.
func batch(conn *load.Conn, head, lines []byte) error {
	if err := conn.Send(head, lines); err != nil {
		return err
	}
	status, answer, err := conn.Receive(nil)
	if err != nil {
		return err
	}
	if refused := refusedForm.Find(answer); status != 200 || refused != nil {
		return fmt.Errorf("filling the ledger: status %d, %s: %.300s", status, refused, answer)
	}
	return nil
}

// appendRun appends the batch line for run number n. all is the total number of runs. Each input
// has about ten runs, except one, which accounts for a twentieth of all runs. A third of the runs
// have an output that is not unique.
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

// print prints how fast the ledger and its index were filled, and how much processor time and
// memory this took.
func (a *filledLedger) print(out io.Writer) error {
	use, err := system.UsageOf(a.server.pid())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d records: %.0f/s, CPU %.1f µs per record, at most %d MiB of memory\n", a.records,
		float64(a.records)/a.took.Seconds(), float64(use.CPU.Microseconds())/float64(a.records), use.Peak>>20)
	return err
}

// nextForm matches the cursor of the next page.
var nextForm = regexp.MustCompile(`"next":"([^"]+)"`)

// walk reads all events and all groups of inputs to warm up the caches.
func (a *filledLedger) walk(ctx context.Context) (err error) {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	const page = 1000
	bar := newProgress(a.records, fmt.Sprintf("reading %d", a.records))
	defer bar.Finish()
	for from := 0; from < a.records && ctx.Err() == nil; from += page {
		if _, err := get(conn, fmt.Sprintf("%s/events?from=%d&limit=%d", ledgerPath, from, page)); err != nil {
			return err
		}
		bar.Add(page)
	}
	groups := fmt.Sprintf("%s/drift/groups?by=input_hash&limit=%d", ledgerPath, page)
	for cursor := ""; ctx.Err() == nil; {
		answer, err := get(conn, groups+cursor)
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

// inputForm matches a record's input_hash.
var inputForm = regexp.MustCompile(`"input_hash":"([0-9a-f]{64})"`)

// timeForm matches the time of an event.
var timeForm = regexp.MustCompile(`"time":"([^"]+)"`)

// sampledRecord is a random record to query. other is the seq of a second random record.
type sampledRecord struct {
	seq, other  int
	input, time string
}

// sampleRecord chooses a record at random and reads its input_hash and its time.
func (a *filledLedger) sampleRecord(conn *load.Conn, random *rand.Rand) (sampledRecord, error) {
	d := sampledRecord{seq: 1 + random.IntN(a.records), other: 1 + random.IntN(a.records)}
	text, err := get(conn, fmt.Sprintf("%s/records/%d", ledgerPath, d.seq))
	if err != nil {
		return d, err
	}
	input, at := inputForm.FindSubmatch(text), timeForm.FindSubmatch(text)
	if input == nil || at == nil {
		return d, fmt.Errorf("record %d lacks an input_hash or a time: %.300s", d.seq, text)
	}
	d.input, d.time = string(input[1]), string(at[1])
	return d, nil
}
