package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colophon/bench/corpus"
)

// Result is what clients saw.
type Result struct {
	Requests  int
	Records   int
	Elapsed   time.Duration
	Latencies []time.Duration // of requests, sorted
	Samples   []Sample
}

// Sample is the answer to a record, kept to be verified when nothing is measured.
type Sample struct {
	Record int // in the bodies
	Answer []byte
}

// sampleEvery is how many records go to one sample of their answers.
const sampleEvery = 1021

// Done notes a request that a client made for consecutive records, and when it began.
func (r *Result) Done(begin time.Time, records int) {
	r.Latencies = append(r.Latencies, time.Since(begin))
	r.Requests++
	r.Records += records
}

// Keep keeps a copy of the answer to a record, if it is one of those that are kept.
func (r *Result) Keep(record int, answer []byte) {
	if record%sampleEvery == 0 {
		r.Samples = append(r.Samples, Sample{record, slices.Clone(answer)})
	}
}

// Quantile is the latency that a share q of the requests kept within; 0 if there were
// none.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(int(q*float64(len(r.Latencies))), len(r.Latencies)-1)]
}

// Deck deals out bodies, each once.
type Deck struct {
	*corpus.Bodies
	next atomic.Int64
}

// Deal takes the next n bodies; ok is false when there are not so many.
func (d *Deck) Deal(n int) (first int, ok bool) {
	first = int(d.next.Add(int64(n))) - n
	return first, first+n <= d.Len()
}

// Each has every client work, in a goroutine of its own, until ctx is done, it has no
// more work or one fails. What work is done it notes in the Result that is its alone.
func Each[C any](ctx context.Context, clients []C, work func(client C, r *Result) (more bool, err error)) (*Result, error) {
	results := make([]Result, len(clients))
	var failed error
	var once sync.Once
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	var all sync.WaitGroup
	for n, c := range clients {
		all.Go(func() {
			for more, err := true, error(nil); more && ctx.Err() == nil; {
				if more, err = work(c, &results[n]); err != nil {
					once.Do(func() { failed = err })
					cancel()
					return
				}
			}
		})
	}
	all.Wait()
	total := &Result{Elapsed: time.Since(begin)}
	for _, r := range results {
		total.Requests += r.Requests
		total.Records += r.Records
		total.Latencies = append(total.Latencies, r.Latencies...)
		total.Samples = append(total.Samples, r.Samples...)
	}
	slices.Sort(total.Latencies)
	return total, failed
}

// Target is what a server takes records by.
type Target struct {
	Head   []byte // of a request, as Post makes it
	Status int    // of an answer that takes it
	Lines  int    // records in a request; 0 for one that is the whole body
}

// Drive has every connection make requests, one after the other, until ctx is done or
// the deck is empty. Every answer is checked for its status.
func Drive(ctx context.Context, connections []*Conn, target Target, deck *Deck) (*Result, error) {
	work := func(c *Conn, r *Result) (bool, error) { return c.single(target, deck, r) }
	if target.Lines > 0 {
		work = func(c *Conn, r *Result) (bool, error) { return c.batch(target, deck, r) }
	}
	return Each(ctx, connections, work)
}

// single posts one record.
func (c *Conn) single(target Target, deck *Deck, r *Result) (more bool, err error) {
	i, ok := deck.Deal(1)
	if !ok {
		return false, nil
	}
	begin := time.Now()
	if err := c.Send(target.Head, deck.Body(i)); err != nil {
		return false, fmt.Errorf("sending record %d: %w", i, err)
	}
	status, answer, err := c.Receive(c.answer[:0])
	if err != nil {
		return false, fmt.Errorf("answer to record %d: %w", i, err)
	}
	c.answer = answer
	r.Done(begin, 1)
	if status != target.Status {
		return false, fmt.Errorf("record %d: status %d, want %d: %.500s", i, status, target.Status, answer)
	}
	r.Keep(i, answer)
	return true, nil
}
