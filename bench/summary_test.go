package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/bench/contestant"
	"colophon/bench/system"
)

func TestMedian(t *testing.T) {
	require.Equal(t, 3.0, median([]float64{9, 1, 3}))
	require.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
}

func TestSummary(t *testing.T) {
	s := &summary{Row: &row{}}
	for _, rate := range []float64{300, 100, 200} {
		s.add(contestant.Measurement{Records: 10, Rate: rate, P50: rate / 100, Verified: 2})
	}
	require.Equal(t, contestant.Measurement{Records: 30, Rate: 200, P50: 2, Verified: 6}, s.Median)
	require.Equal(t, []float64{100, 300}, []float64{s.Lowest, s.Highest})
}

func TestTargets(t *testing.T) {
	probe := system.DiskLatency{P50: time.Millisecond}
	r := &report{Before: probe, After: probe}
	for _, s := range []summary{
		{Row: &row{Contestant: "colophon", Way: "http", Call: "single", Clients: 64}, Rounds: []contestant.Measurement{{Rate: 12, P50: 4}}},
		{Row: &row{Contestant: "tessera", Way: "http", Call: "single", Clients: 64}, Rounds: []contestant.Measurement{{Rate: 10, P50: 5}}},
		{Row: &row{Contestant: "colophon", Way: "http", Call: "single", Clients: 1}, Rounds: []contestant.Measurement{{P50: 5}}},
		{Row: &row{Contestant: "colophon", Way: "http", Call: "batch", Clients: 64}, Rounds: []contestant.Measurement{{Rate: 30}}},
		{Row: &row{Contestant: "colophon", Way: "http", Call: "batch", Clients: 512}, Rounds: []contestant.Measurement{{Rate: 20}}},
		{Row: &row{Contestant: "tessera", Way: "process", Call: "single", Clients: 8192}, Rounds: []contestant.Measurement{{Rate: 50}}},
	} {
		s.Median = s.Rounds[0]
		r.Rows = append(r.Rows, &s)
	}
	met := make(map[string]bool)
	for _, target := range targets(r) {
		met[target.String()] = target.met()
	}
	require.Equal(t, map[string]bool{
		"colophon, single posts, 64 connections, over Tessera behind net/http: 1.20 × (1.20–1.20; at least 1: met)":                               true,
		"colophon, the same: p50: 0.80 × (0.80–0.80; at most 1: met)":                                                                             true,
		"colophon, single posts, 1 connection: p50 over that of a sync: 5.00 × (5.00–5.00; at most 4: missed)":                                    false,
		"colophon, batches with full receipts (64 connections), over Tessera's raw appends in process: 0.60 × (0.60–0.60; at least 0.75: missed)": false,
	}, met)
}

// The ratio of a target is the median of the rounds' ratios, not the ratio of the medians.
func TestRatioOfRounds(t *testing.T) {
	of := func(rates ...float64) *summary {
		s := new(summary)
		for _, rate := range rates {
			s.add(contestant.Measurement{Rate: rate})
		}
		return s
	}
	got := target{AtLeast: 1}.of(ratios(of(20, 4, 9), of(10, 1, 3), rate)...)
	require.Equal(t, target{Ratio: 3, Lowest: 2, Highest: 4, AtLeast: 1}, got)
}
