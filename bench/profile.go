package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"text/tabwriter"

	"github.com/google/pprof/profile"

	"colophon/bench/contestant"
)

// parts lists the parts of a server's work, each with a pattern for the functions that belong to
// it. A sample belongs to the first part whose pattern matches a function on the sample's stack.
var parts = []struct {
	name     string
	function *regexp.Regexp
}{
	{"collecting garbage", regexp.MustCompile(`^runtime\.(gcBgMarkWorker|gcAssistAlloc|bgsweep|bgscavenge|gcStart)`)},
	{"engine: flushes and compactions", regexp.MustCompile(`pebble/v2\.\(\*DB\)\.(flush|compact)`)},
	{"engine: writing the write-ahead log", regexp.MustCompile(`pebble/v2/record\.\(\*LogWriter\)\.flushLoop`)},
	{"index: decoding events ahead", regexp.MustCompile(`^colophon/ledger/(index\.\(\*(aheadReader|Follower\)\.ahead)|event\.)`)},
	{"index: committing", regexp.MustCompile(`^colophon/ledger/index\.\(\*Follower\)\.commit`)},
	{"index: folding", regexp.MustCompile(`^colophon/ledger/index\.`)},
	{"sequencer: committing", regexp.MustCompile(`^colophon/storage/pebble\.\(\*ledger\)\.[Cc]ommit`)},
	{"sequencer: chain, tree, signature, keys", regexp.MustCompile(`^colophon/ledger\.\(\*Ledger\)\.sequence`)},
	{"record: parsing, hashing, checking", regexp.MustCompile(`^colophon/ledger/record\.(Limits|Parse)`)},
	{"record: event", regexp.MustCompile(`^colophon/(ledger\.\(\*Ledger\)\.Prepare|api/records\.Prepare$)`)},
	{"receipt", regexp.MustCompile(`^colophon/(api/receipts\.|api/records\.\(\*Outcome\)\.Receipt|proofs\.)`)},
	{"batch: lines and answers", regexp.MustCompile(`^colophon/api/batch\.`)},
	{"handler: routes, limits, metrics", regexp.MustCompile(`^colophon/api\.\(\*Server\)\.ServeHTTP`)},
	{"HTTP: reading and writing", regexp.MustCompile(`^net/http\.`)},
	{"scheduling", regexp.MustCompile(`^runtime\.(mcall|schedule|mstart|goexit0|sysmon|systemstack)`)},
}

// otherPart is the part for samples that match no other part.
const otherPart = "other"

// partOf returns the name of the part to which a sample belongs.
func partOf(s *profile.Sample) string {
	for _, p := range parts {
		for _, location := range s.Location {
			for _, line := range location.Line {
				if p.function.MatchString(line.Function.Name) {
					return p.name
				}
			}
		}
	}
	return otherPart
}

// partUse holds the resources that a part used per record.
type partUse struct {
	Part    string  `json:"part"`
	CPU     float64 `json:"cpu_us_per_record"`
	Bytes   float64 `json:"allocated_bytes_per_record"`
	Objects float64 `json:"allocated_objects_per_record"`
}

// The names of the sample types in pprof profiles.
const (
	cpuValue     = "cpu"
	bytesValue   = "alloc_space"
	objectsValue = "alloc_objects"
)

// profileOf reads the profiles of the last round of a measurement, and divides the processor time
// and the allocations per record among the parts. The most expensive part comes first.
func profileOf(files string, m contestant.Measurement) ([]partUse, error) {
	uses := make(map[string]*partUse)
	use := func(part string) *partUse {
		if uses[part] == nil {
			uses[part] = &partUse{Part: part}
		}
		return uses[part]
	}
	total, _, err := sumParts(files+cpuProfile, cpuValue, func(part string, value float64) { use(part).CPU += value })
	if err != nil {
		return nil, err
	}
	for _, u := range uses {
		u.CPU *= m.CPU / total // distribute the processor time reported by /proc over the parts
	}
	_, seconds, err := sumParts(files+allocsProfile, bytesValue, func(part string, value float64) { use(part).Bytes += value })
	if err != nil {
		return nil, err
	}
	if _, _, err = sumParts(files+allocsProfile, objectsValue, func(part string, value float64) { use(part).Objects += value }); err != nil {
		return nil, err
	}
	var list []partUse
	for _, u := range uses {
		u.Bytes, u.Objects = u.Bytes/(m.Rate*seconds), u.Objects/(m.Rate*seconds)
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b partUse) int {
		if a.CPU > b.CPU {
			return -1
		}
		return 1
	})
	return list, nil
}

// sumParts calls add for each sample, with the sample's part and its value of the given kind. It
// returns the sum of the values, and the duration of the profile in seconds.
func sumParts(file, kind string, add func(part string, value float64)) (total, seconds float64, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, fmt.Errorf("reading a profile: %w", err)
	}
	p, err := profile.ParseData(text)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the profile %s: %w", file, err)
	}
	place := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == kind })
	if place < 0 {
		return 0, 0, fmt.Errorf("the profile %s has no values of kind %s", file, kind)
	}
	for _, s := range p.Sample {
		add(partOf(s), float64(s.Value[place]))
		total += float64(s.Value[place])
	}
	return total, float64(p.DurationNanos) / 1e9, nil
}

func printProfiles(out io.Writer, rows []*summary) error {
	for _, s := range rows {
		if len(s.Profile) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s, a record:\n", s.Row.name())
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(table, "CPU µs\tallocated B\tobjects\t  part")
		var sum partUse
		for _, u := range append(s.Profile, partUse{Part: "all"}) {
			sum.CPU, sum.Bytes, sum.Objects = sum.CPU+u.CPU, sum.Bytes+u.Bytes, sum.Objects+u.Objects
			if u.Part == "all" {
				u = partUse{u.Part, sum.CPU, sum.Bytes, sum.Objects}
			}
			fmt.Fprintf(table, "%.1f\t%.0f\t%.1f\t  %s\n", u.CPU, u.Bytes, u.Objects, u.Part)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}
