package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"colophon/bench/contestant"
)

// stacks returns a profile with one sample for each stack. A stack lists functions, innermost
// first. kinds lists the types of the values in each sample.
func stacks(kinds []string, samples map[*[]string][]int64) *profile.Profile {
	p := &profile.Profile{DurationNanos: 2e9}
	for _, kind := range kinds {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: kind, Unit: "count"})
	}
	functions := make(map[string]*profile.Location)
	for stack, values := range samples {
		s := &profile.Sample{Value: values}
		for _, name := range *stack {
			if functions[name] == nil {
				f := &profile.Function{ID: uint64(len(functions) + 1), Name: name}
				functions[name] = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, functions[name])
			}
			s.Location = append(s.Location, functions[name])
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// profileOf assigns each sample to the first part of the server's work that matches its stack. Each
// part gets a proportional share of the measured figures.
func TestProfileOf(t *testing.T) {
	parsing := &[]string{"crypto/sha256.Sum256", "colophon/ledger/record.Limits.Parse", "colophon/api.(*Server).ServeHTTP", "net/http.(*conn).serve"}
	handling := &[]string{"runtime.memmove", "colophon/api.(*Server).ServeHTTP", "net/http.(*conn).serve"}
	unknown := &[]string{"main.main"}
	files := filepath.Join(t.TempDir(), "row")
	for end, p := range map[string]*profile.Profile{
		cpuProfile:    stacks([]string{"samples", cpuValue}, map[*[]string][]int64{parsing: {1, 60}, handling: {1, 30}, unknown: {1, 10}}),
		allocsProfile: stacks([]string{objectsValue, bytesValue}, map[*[]string][]int64{parsing: {400, 80_000}, handling: {200, 20_000}}),
	} {
		file, err := os.Create(files + end)
		require.NoError(t, err)
		require.NoError(t, p.Write(file))
		require.NoError(t, file.Close())
	}
	got, err := profileOf(files, contestant.Measurement{Rate: 100, CPU: 50})
	require.NoError(t, err)
	require.Equal(t, []partUse{
		{"record: parsing, hashing, checking", 30, 400, 2},
		{"handler: routes, limits, metrics", 15, 100, 1},
		{otherPart, 5, 0, 0},
	}, got)
}
