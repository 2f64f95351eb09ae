package drift

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
)

// maxExplained is the maximum number of records that the effects command reads to explain why runs have
// no partner.
const maxExplained = 5000

// conditionNames lists the variables whose values must be the same in both runs of a pair, apart from
// the variable under comparison.
var conditionNames = [...]string{"input", "seed", "system_prompt", "model", "temperature", "max_tokens"}

// conditionValues holds a run's values of the variables in conditionNames, in the same order. An
// absent value is "".
type conditionValues [len(conditionNames)]string

// differsFrom returns the names of the variables in which two runs differ.
func (v *conditionValues) differsFrom(other *conditionValues) (names []string) {
	for i, name := range conditionNames {
		if v[i] != other[i] {
			names = append(names, name)
		}
	}
	return names
}

// comparedSides counts the runs on the two sides of a comparison: index 0 is the side with value A,
// and index 1 the side with value B.
type comparedSides struct {
	runs       [2]uint64
	incomplete [2]uint64 // number of IPC records on each side that lack an input or an output
	partners   [2]map[conditionValues]uint64
	order      [2][]conditionValues // the keys of partners, in the server's order
}

// readSides reads the runs of both sides at one tree size. pairs is the known number of pairs.
// readSides returns nil if there are too many records, or if a record cannot be read.
func readSides(d *commands, command *cobra.Command, asked url.Values, asOf, pairs uint64) *comparedSides {
	if pairs > maxExplained/2 { // a pair has two records
		return nil
	}
	s := &comparedSides{partners: [2]map[conditionValues]uint64{{}, {}}}
	variable := asked.Get("variable")
	query := url.Values{"kind": {string(wire.KindIPCRecord)}, "events": {"true"}, "limit": {"500"}, "as_of": {cli.FormatUint(asOf)}}
	if asked.Get("state") != "any" {
		query.Set("state", string(wire.StateLive))
	}
	read, failed := 0, false
	list := func(query url.Values, sideOf func(*wire.IPCRecordEvent) int) {
		err := forEachRow(d, command, "/records", query, func(row wire.ListedRecord) bool {
			r, err := ipcRecord(&row)
			failed = failed || err != nil || read == maxExplained
			if read++; failed {
				return false
			}
			if side := sideOf(r); side >= 0 {
				s.add(side, variable, r)
			}
			return true
		})
		failed = failed || err != nil
	}
	switch {
	case variable == "model", variable == "input", variable == "input_hash", variable == "system_prompt_hash", variable == "ollama_build_hash", strings.HasPrefix(variable, "label:"):
		for side, name := range []string{"a", "b"} {
			query.Set(variable, asked.Get(name))
			query.Set("as_of", cli.FormatUint(asOf)) // forEachRow deletes as_of if there are several pages
			query.Del("cursor")
			list(query, func(*wire.IPCRecordEvent) int { return side })
		}
	default: // GET /records cannot filter by these variables
		list(query, func(r *wire.IPCRecordEvent) int {
			return slices.Index([]string{canonicalNumber(asked.Get("a")), canonicalNumber(asked.Get("b"))}, valueIn(r, variable))
		})
	}
	if failed {
		return nil
	}
	return s
}

func ipcRecord(row *wire.ListedRecord) (*wire.IPCRecordEvent, error) {
	event, err := wire.ParseEvent(row.Event)
	if err != nil {
		return nil, err
	}
	decoded, err := event.Decode()
	r, is := decoded.(*wire.IPCRecordEvent)
	if err == nil && !is {
		err = fmt.Errorf("event %d is not an IPC record", row.Seq)
	}
	return r, err
}

// valueIn returns a record's temperature, max_tokens, or seed as text, or the digest of one of its
// payload members. It returns "-" if the record has no such value.
func valueIn(r *wire.IPCRecordEvent, variable string) string {
	value := ""
	switch variable {
	case "temperature":
		if r.Temperature != nil {
			value = strconv.FormatFloat(*r.Temperature, 'g', -1, 64)
		}
	case "max_tokens":
		value = r.MaxTokens.String()
	case "seed":
		value = r.Seed.String()
	default:
		if members := r.PayloadMembers.Value; members != nil {
			value = (*members)[variable]
		}
	}
	if value == "" {
		return "-"
	}
	return value
}

// canonicalNumber formats the number in text as valueIn does. It returns any other text unchanged.
func canonicalNumber(text string) string {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil || len(text) > 20 { // a float might not represent an integer exactly; longer texts are digests
		return text
	}
	if value, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
	return text
}

// add counts a record on one side of the comparison (spec: Effects of a variable).
func (s *comparedSides) add(side int, variable string, r *wire.IPCRecordEvent) {
	input := r.Hashes.Get("input_hash")
	if input == "" || r.Hashes.Get("output_hash") == "" {
		s.incomplete[side]++
		return
	}
	s.runs[side]++
	values := conditionValues{input, r.Seed.String(), r.Hashes.Get("system_prompt_hash"), r.Model, "", r.MaxTokens.String()}
	if seedless := r.Hashes.Get("seedless_input_hash"); seedless != "" {
		values[0] = seedless
		values[1] += " in " + input // input covers the seed, which is in the payload
	}
	if r.Temperature != nil {
		values[4] = strconv.FormatFloat(*r.Temperature, 'g', -1, 64)
	}
	switch variable {
	case "input", "input_hash":
		values[0], values[1] = "", r.Seed.String()
	case "seed":
		values[1] = ""
	case "system_prompt_hash":
		values[2] = ""
	case "model":
		values[3] = ""
	case "temperature":
		values[4] = ""
	case "max_tokens":
		values[5] = ""
	}
	if strings.HasPrefix(variable, "/") {
		values[0], values[1] = otherMembers(r, variable), r.Seed.String()
	}
	if s.partners[side][values] == 0 {
		s.order[side] = append(s.order[side], values)
	}
	s.partners[side][values]++
}

// otherMembers returns the digests of all payload members except the one at pointer, as a single
// string.
func otherMembers(r *wire.IPCRecordEvent, pointer string) string {
	var list []string
	for name, digest := range *r.PayloadMembers.Value {
		if name != pointer {
			list = append(list, name+" "+digest)
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// pairs returns the number of pairs. Among the runs with the same conditions, the k-th run on one side
// is paired with the k-th run on the other side.
func (s *comparedSides) pairs() (n uint64) {
	for values, runs := range s.partners[0] {
		n += min(runs, s.partners[1][values])
	}
	return n
}

// unpairedReason is a reason why runs have no partner, and the number of such runs on each side.
type unpairedReason struct {
	text string
	runs [2]uint64
}

// reasons returns the reasons why runs have no partner, the most frequent one first. Each run is
// counted under one reason only.
func (s *comparedSides) reasons() (list []unpairedReason) {
	add := func(side int, runs uint64, text string) {
		at := slices.IndexFunc(list, func(r unpairedReason) bool { return r.text == text })
		if at < 0 {
			at, list = len(list), append(list, unpairedReason{text: text})
		}
		list[at].runs[side] += runs
	}
	for side := range s.runs {
		ofInput := make(map[string][]*conditionValues)
		for i := range s.order[1-side] {
			other := &s.order[1-side][i]
			ofInput[other[0]] = append(ofInput[other[0]], other)
		}
		for i := range s.order[side] {
			values := &s.order[side][i]
			runs, partners := s.partners[side][*values], s.partners[1-side][*values]
			switch {
			case runs <= partners:
			case partners > 0:
				add(side, runs-partners, "the other side has fewer runs under the same conditions")
			case ofInput[values[0]] == nil:
				add(side, runs, "the other side has no run with the same input (payload)")
			default:
				add(side, runs, differing(nearest(values, ofInput[values[0]])))
			}
		}
	}
	slices.SortStableFunc(list, func(a, b unpairedReason) int { return int(b.runs[0]+b.runs[1]) - int(a.runs[0]+a.runs[1]) })
	return list
}

// differing returns the reason for runs without a partner if all runs with the same input on the
// other side also differ in the named variables.
func differing(names []string) string {
	list := strings.Join(names, " and ")
	if last := len(names) - 1; last > 1 {
		list = strings.Join(names[:last], ", ") + ", and " + names[last]
	}
	return "the other side's runs with the same input also differ in " + list
}

// nearest returns the names of the variables in which a run differs from the most similar of the
// other runs.
func nearest(values *conditionValues, others []*conditionValues) (names []string) {
	for i, other := range others {
		if differ := values.differsFrom(other); i == 0 || len(differ) < len(names) {
			names = differ
		}
	}
	return names
}

// onSides formats the number of runs on each side.
func onSides(runs [2]uint64) string {
	switch {
	case runs[1] == 0:
		return cli.FormatUint(runs[0]) + " with A"
	case runs[0] == 0:
		return cli.FormatUint(runs[1]) + " with B"
	}
	return fmt.Sprintf("%d with A and %d with B", runs[0], runs[1])
}

// maxReasons is the maximum number of reasons that effects lists.
const maxReasons = 5

// unpairedLines returns sentences, without final periods, that say why runs have no partner. It returns
// nil if every run has a partner, or if the runs that were read form a different number of pairs than
// pairs. s may be nil.
func (s *comparedSides) unpairedLines(pairs uint64) (lines []string) {
	if s == nil || s.pairs() != pairs || s.runs == [2]uint64{pairs, pairs} {
		return nil
	}
	if s.runs[0] > 0 && s.runs[1] > 0 {
		reasons := s.reasons()
		if len(reasons) > maxReasons {
			rest := unpairedReason{text: "other reasons"}
			for _, r := range reasons[maxReasons-1:] {
				rest.runs[0] += r.runs[0]
				rest.runs[1] += r.runs[1]
			}
			reasons = append(reasons[:maxReasons-1:maxReasons-1], rest)
		}
		for _, r := range reasons {
			lines = append(lines, onSides(r.runs)+": "+r.text)
		}
	}
	if s.incomplete != [2]uint64{} {
		lines = append(lines, "some records do not count as runs, because they have no input or no output: "+onSides(s.incomplete))
	}
	return lines
}
