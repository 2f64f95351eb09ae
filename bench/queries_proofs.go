package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"colophon/bench/load"
)

// readRate is the rate at which an endpoint answers.
type readRate struct {
	Name string `json:"name"`
	// Rounds holds the number of answers per second in each round.
	Rounds []float64 `json:"answers_per_second"`
	// OverHealth is the ratio of the endpoint's rate to the rate of /healthz. It is the median of
	// all rounds.
	OverHealth float64 `json:"over_healthz"`
}

// reads lists the endpoints that are measured. The first, /healthz, is the baseline for the rates
// of the others, which are queried about random records.
var reads = []struct {
	name string
	path func(records int) string
}{
	{"healthz", func(int) string { return "/healthz" }},
	{"inclusion", func(n int) string { return fmt.Sprintf("%s/proofs/inclusion?seq=%d", ledgerPath, rand.IntN(n)) }},
	{"consistency", func(n int) string {
		return fmt.Sprintf("%s/proofs/consistency?first=%d&second=%d", ledgerPath, 1+rand.IntN(n), n)
	}},
	{"receipt", func(n int) string { return fmt.Sprintf("%s/records/%d/receipt", ledgerPath, 1+rand.IntN(n)) }},
}

// The number of connections and the number of rounds used to measure proofs.
const (
	readConnections = 64
	readRounds      = 5
)

// proofs measures the endpoints that return proofs, over many connections. In each round, it also
// measures /healthz.
func (q *queries) proofs(ctx context.Context, a *filledLedger, out io.Writer) (rates []readRate, err error) {
	connections, err := load.DialAll(a.server.listens["server"], readConnections)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, load.CloseAll(connections)) }()
	rates = make([]readRate, len(reads))
	for round := range readRounds + 1 { // the first round only fills caches
		for i, read := range reads {
			rate, err := q.rate(ctx, connections, func() string { return read.path(a.records) })
			if err != nil {
				return nil, err
			}
			if rates[i].Name = read.name; round > 0 {
				rates[i].Rounds = append(rates[i].Rounds, rate)
			}
		}
	}
	fmt.Fprintf(out, "\n%-20s %12s %14s   %d connections, %d records\n", "proofs", "answers/s", "over healthz", readConnections, a.records)
	for i := range rates {
		over := make([]float64, readRounds)
		for n := range over {
			over[n] = rates[i].Rounds[n] / rates[0].Rounds[n]
		}
		rates[i].OverHealth = median(over)
		fmt.Fprintf(out, "%-20s %12.0f %14.2f\n", rates[i].Name, median(rates[i].Rounds), rates[i].OverHealth)
	}
	return rates, nil
}

// rate returns the number of answers per second over all connections. Each connection sends one
// request after another.
func (q *queries) rate(ctx context.Context, connections []*load.Conn, path func() string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, q.time)
	defer cancel()
	begin := time.Now()
	result, err := load.RunClients(ctx, connections, func(c *load.Conn, r *load.Result) (bool, error) {
		asked := time.Now()
		if _, err := get(c, path()); err != nil {
			return false, err
		}
		r.AddRequest(asked, 1)
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	return float64(result.Requests) / time.Since(begin).Seconds(), nil
}
