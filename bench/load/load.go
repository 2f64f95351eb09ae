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

// Result holds the measurements of the clients.
type Result struct {
	Requests  int
	Records   int
	Elapsed   time.Duration
	Latencies []time.Duration // latencies of requests; RunClients sorts them
	Samples   []Sample
}

// Sample is the answer for one record. It is verified after the measurement ends.
type Sample struct {
	Record int // index of the record in the bodies
	Answer []byte
}

// sampleEvery determines how many answers are sampled: one in every sampleEvery records.
const sampleEvery = 1021

// AddRequest adds a request for a number of consecutive records. The request was sent at begin and has
// just been answered.
func (r *Result) AddRequest(begin time.Time, records int) {
	r.Latencies = append(r.Latencies, time.Since(begin))
	r.Requests++
	r.Records += records
}

// KeepSample copies the answer for a record if the record is to be sampled.
func (r *Result) KeepSample(record int, answer []byte) {
	if record%sampleEvery == 0 {
		r.Samples = append(r.Samples, Sample{record, slices.Clone(answer)})
	}
}

// Quantile returns the q-quantile of Latencies, which must be sorted, or 0 if there are none.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(int(q*float64(len(r.Latencies))), len(r.Latencies)-1)]
}

// BodyQueue hands out each body once. It is safe for concurrent use.
type BodyQueue struct {
	*corpus.Bodies
	next atomic.Int64
}

// Take takes the next n bodies, and returns the index of the first. ok is false if fewer than n are
// left.
func (d *BodyQueue) Take(n int) (first int, ok bool) {
	first = int(d.next.Add(int64(n))) - n
	return first, first+n <= d.Len()
}

// RunClients makes every client work in its own goroutine until ctx is done, the client has no more work,
// or any client fails. work adds to the client's own Result, and RunClients returns the overall total.
func RunClients[C any](ctx context.Context, clients []C, work func(client C, r *Result) (more bool, err error)) (*Result, error) {
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

// Target describes how records are posted to a server.
type Target struct {
	Head   []byte // head of a request, as returned by PostRequestHead
	Status int    // status of a successful response
	Lines  int    // number of records in a batch; 0 if the body is one record
}

// Client is a connection and the kind of request that it sends.
type Client struct {
	*Conn
	Target
}

// SendBodies makes every client send one request after another until ctx is done or the queue is
// empty. It checks the status of every response.
func SendBodies(ctx context.Context, clients []Client, queue *BodyQueue) (*Result, error) {
	return RunClients(ctx, clients, func(c Client, r *Result) (bool, error) {
		if c.Lines > 0 {
			return c.batch(c.Target, queue, r)
		}
		return c.single(c.Target, queue, r)
	})
}

// NewClients returns a client for each connection. All clients send the same kind of request.
func NewClients(connections []*Conn, target Target) []Client {
	clients := make([]Client, len(connections))
	for i, c := range connections {
		clients[i] = Client{c, target}
	}
	return clients
}

// single posts one record. It returns false if no record is left.
func (c *Conn) single(target Target, queue *BodyQueue, r *Result) (more bool, err error) {
	i, ok := queue.Take(1)
	if !ok {
		return false, nil
	}
	begin := time.Now()
	if err := c.Send(target.Head, queue.Body(i)); err != nil {
		return false, fmt.Errorf("sending record %d: %w", i, err)
	}
	status, answer, err := c.Receive(c.answer[:0])
	if err != nil {
		return false, fmt.Errorf("receiving the answer to record %d: %w", i, err)
	}
	c.answer = answer
	r.AddRequest(begin, 1)
	if status != target.Status {
		return false, fmt.Errorf("record %d: status %d, want %d: %.500s", i, status, target.Status, answer)
	}
	r.KeepSample(i, answer)
	return true, nil
}
