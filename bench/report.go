package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func printMachine(out io.Writer, r *report) {
	m := r.Machine
	fmt.Fprintf(out, "%s: %d × %s, %d GiB of memory, Linux %s, %s, %s\n", r.Began.Format(time.DateOnly), m.Cores, m.Processor,
		(m.Memory+1<<29)>>30, m.Kernel, m.Filesystem, m.Go)
	if m.Filesystem == "tmpfs" {
		fmt.Fprintln(out, "This file system is in memory, where syncs cost nothing: choose a folder on a disk with --dir.")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Builds)) {
		fmt.Fprintf(out, "%s: %s\n", name, r.Builds[name])
	}
	for _, module := range versioned {
		fmt.Fprintf(out, "%s %s\n", module, m.Modules[module])
	}
	fmt.Fprintf(out, "write and sync of 4 KiB: p50 %s, p99 %s before\n\n", short(r.Before.P50), short(r.Before.P99))
}

func printReport(out io.Writer, r *report) error {
	fmt.Fprintf(out, "write and sync of 4 KiB: p50 %s, p99 %s after\n\n", short(r.After.P50), short(r.After.P99))
	if err := printRows(out, r.Rows); err != nil {
		return err
	}
	if err := printProfiles(out, r.Rows); err != nil {
		return err
	}
	if len(r.Proofs) > 0 {
		fmt.Fprintln(out)
		if err := printProofs(out, r.Proofs); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	for _, t := range r.Targets {
		fmt.Fprintln(out, t)
	}
	return nil
}

// printRows prints the medians of each row as a table, and n/a for figures that were not measured.
func printRows(out io.Writer, rows []*summary) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "contestant\taccess\tcall\tclients\trecords/s\tlowest–highest\tp50 ms\tp99 ms\tCPU µs\tclient µs\tfsyncs/1000\tdisk B\twritten B\tpeak MiB\tcatch-up ms\tverified\t")
	for _, s := range rows {
		m := s.Median
		client := "n/a"
		if s.Row.Way == "http" {
			client = fmt.Sprintf("%.1f", m.ClientCPU)
		}
		fsyncs := "n/a"
		if m.Fsyncs >= 0 {
			fsyncs = fmt.Sprintf("%.1f", m.Fsyncs)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%.0f\t%.0f–%.0f\t%.2f\t%.2f\t%.1f\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t\n",
			s.Row.Contestant, s.Row.Way, s.Row.Call, s.Row.Clients, m.Rate, s.Lowest, s.Highest, m.P50, m.P99, m.CPU, client, fsyncs,
			m.Disk, m.Written, m.Peak/(1<<20), m.CatchUp, m.Verified)
	}
	return table.Flush()
}

// short formats a duration in milliseconds, with two decimals.
func short(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// writeBenchstat writes every round of every row in the format of go test -bench, which benchstat
// reads.
func writeBenchstat(file string, rows []*summary) error {
	var text strings.Builder
	for _, s := range rows {
		for _, m := range s.Rounds {
			fmt.Fprintf(&text, "Benchmark%s %d %.0f records/s %.3f p50-ms %.3f p99-ms %.2f cpu-us/record %.1f disk-B/record\n",
				s.Row.name(), m.Records, m.Rate, m.P50, m.P99, m.CPU, m.Disk)
		}
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}
