package main

import (
	"slices"

	"colophon/bench/contestant"
)

// summary holds the results of a row over all rounds.
type summary struct {
	Row    *row                     `json:"row"`
	Rounds []contestant.Measurement `json:"rounds"`
	// Median holds the median of each figure over all rounds, except that counts are summed.
	Median contestant.Measurement `json:"median"`
	// Lowest and Highest are the rates of the slowest and the fastest round, in records per second.
	Lowest  float64 `json:"lowest_records_per_second"`
	Highest float64 `json:"highest_records_per_second"`
	// Profile shows where the processor time of the last round was spent, if profiles were taken.
	Profile []partUse `json:"profile,omitempty"`
}

// figures lists the fields of a measurement for which medians are computed.
var figures = [...]func(*contestant.Measurement) *float64{
	func(m *contestant.Measurement) *float64 { return &m.Seconds },
	func(m *contestant.Measurement) *float64 { return &m.Rate },
	func(m *contestant.Measurement) *float64 { return &m.P50 },
	func(m *contestant.Measurement) *float64 { return &m.P99 },
	func(m *contestant.Measurement) *float64 { return &m.CPU },
	func(m *contestant.Measurement) *float64 { return &m.ClientCPU },
	func(m *contestant.Measurement) *float64 { return &m.Fsyncs },
	func(m *contestant.Measurement) *float64 { return &m.Written },
	func(m *contestant.Measurement) *float64 { return &m.Disk },
	func(m *contestant.Measurement) *float64 { return &m.Peak },
	func(m *contestant.Measurement) *float64 { return &m.CatchUp },
}

// add adds the measurement of a round and updates the medians.
func (s *summary) add(m contestant.Measurement) {
	s.Rounds = append(s.Rounds, m)
	s.Median.Records += m.Records
	s.Median.Verified += m.Verified
	values := make([]float64, len(s.Rounds))
	for _, figure := range figures {
		for i := range s.Rounds {
			values[i] = *figure(&s.Rounds[i])
		}
		*figure(&s.Median) = median(values)
	}
	rates := make([]float64, len(s.Rounds))
	for i := range s.Rounds {
		rates[i] = s.Rounds[i].Rate
	}
	s.Lowest, s.Highest = slices.Min(rates), slices.Max(rates)
}

// median returns the median of values. For an even number of values, this is the mean of the two
// middle ones.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
