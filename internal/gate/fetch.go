package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"colophon/client"
	"colophon/client/wire"
)

// Selection specifies which runs to compare.
type Selection struct {
	// Baseline and Candidate are the filters that select the runs of the two sets.
	Baseline, Candidate client.RecordFilter
	// MatchKey names the value that identifies the input of a run: input, input_hash, run_id, label:NAME, or
	// the JSON pointer of a payload member. If it is empty, the sets are compared as wholes.
	MatchKey string
	// MaxRuns is the maximum number of runs in a set.
	MaxRuns int
}

// MaxRunsPerInput is the maximum number of runs of the same input that are compared in each set. If
// there are more, only the latest are compared.
const MaxRunsPerInput = 10

// ErrIncomparable means that the two sets overlap, or that one of them has more than
// Selection.MaxRuns runs.
var ErrIncomparable = errors.New("the selected runs cannot be compared")

// FetchRuns reads the selected runs of a ledger. It also returns the tree size at which they were
// read.
func FetchRuns(ctx context.Context, l *client.Ledger, s Selection) (*ComparedRuns, uint64, error) {
	c := &collector{ledger: l, selection: s, seqs: make(map[uint64]bool)}
	if err := c.list(ctx, 0, s.Baseline); err != nil {
		return nil, 0, err
	}
	s.Candidate.AsOf = c.asOf
	if err := c.list(ctx, 1, s.Candidate); err != nil {
		return nil, 0, err
	}
	d := c.match()
	return d, c.asOf, c.measure(ctx, d)
}

// collector reads the runs of both sets.
type collector struct {
	ledger    *client.Ledger
	selection Selection
	asOf      uint64
	seqs      map[uint64]bool // seqs of the baseline's runs
	runs      [2][]found      // newest first
	// records and mismatches count all rows, including those that are not in runs.
	records, mismatches [2]int
}

// found is a run and the value that identifies its input.
type found struct {
	Run
	by     string
	stored bool // the ledger has the text of the output
}

var setNames = [...]string{"baseline", "candidate"}

// list reads the runs of one set, where set is 0 for the baseline and 1 for the candidate. It returns an
// error if a run is in both sets or if the set has more than MaxRuns runs.
func (c *collector) list(ctx context.Context, set int, filter client.RecordFilter) error {
	const page = 500
	filter.Kind, filter.IncludeEvents, filter.Limit = wire.KindIPCRecord, true, page
	for page, err := range c.ledger.Records.List(&filter).Pages(ctx) {
		if err != nil {
			return err
		}
		c.asOf = page.AsOf
		for i := range page.Rows {
			c.records[set]++
			if len(page.Rows[i].Mismatches) > 0 {
				c.mismatches[set]++
			}
			run, ok, err := c.read(&page.Rows[i])
			switch {
			case err != nil:
				return err
			case !ok:
				continue
			case set == 1 && c.seqs[run.Seq]:
				return fmt.Errorf("%w: event %d is in both sets; use mutually exclusive conditions for --baseline and --candidate", ErrIncomparable, run.Seq)
			case len(c.runs[set]) >= c.selection.MaxRuns:
				return fmt.Errorf("%w: the %s has more than %d runs; select fewer with --where or --since, or raise --max-runs", ErrIncomparable, setNames[set], c.selection.MaxRuns)
			case set == 0:
				c.seqs[run.Seq] = true
			}
			c.runs[set] = append(c.runs[set], run)
		}
	}
	return nil
}

// read returns the run that a row describes. ok is false if the record is not an IPC record, or if
// it has no output or no value to match it by.
func (c *collector) read(row *wire.ListedRecord) (run found, ok bool, err error) {
	event, err := wire.ParseEvent(row.Event)
	if err != nil {
		return run, false, err
	}
	decoded, err := event.Decode()
	if err != nil {
		return run, false, err
	}
	r, ok := decoded.(*wire.IPCRecordEvent)
	if !ok {
		return run, false, nil
	}
	run.Run = Run{Seq: row.Seq, OutputHash: r.Hashes.Get("output_hash"), HasMismatch: len(row.Mismatches) > 0, Conditions: conditions(r)}
	_, run.stored = r.Content["output"]
	run.stored = run.stored && row.RedactedBy == nil
	name, label := strings.CutPrefix(c.selection.MatchKey, "label:")
	switch by := c.selection.MatchKey; {
	case by == "":
		return run, run.OutputHash != "", nil
	case label:
		run.by = r.Labels[name]
	case strings.HasPrefix(by, "/"):
		if members := r.PayloadMembers.Value; members != nil {
			run.by = (*members)[by]
		}
	case by == "run_id":
		run.by = r.RunID
	case by == "input":
		run.by = cmp.Or(r.Hashes.Get("seedless_input_hash"), r.Hashes.Get("input_hash"))
	default:
		run.by = r.Hashes.Get(by)
	}
	return run, run.by != "" && run.OutputHash != "", nil
}

// conditions returns those variables of a run that may explain a difference between the sets, such
// as the model and the temperature, with their values.
func conditions(r *wire.IPCRecordEvent) map[string]string {
	values := map[string]string{"model": r.Model}
	if prompt := r.Hashes.Get("system_prompt_hash"); prompt != "" {
		const digits = 12
		values["system_prompt_hash"] = prompt[:min(digits, len(prompt))]
	}
	if r.Temperature != nil {
		values["temperature"] = strconv.FormatFloat(*r.Temperature, 'g', -1, 64)
	}
	if r.MaxTokens != "" {
		values["max_tokens"] = r.MaxTokens.String()
	}
	return values
}

// match groups the runs by input.
func (c *collector) match() *ComparedRuns {
	d := &ComparedRuns{ComparesWholeSets: c.selection.MatchKey == "", RecordCounts: c.records, MismatchCounts: c.mismatches}
	var by [2]map[string][]Run
	for set, runs := range c.runs {
		by[set] = make(map[string][]Run)
		for _, run := range runs {
			if !d.ComparesWholeSets && len(by[set][run.by]) == MaxRunsPerInput {
				d.SkippedRuns++
				continue
			}
			by[set][run.by] = append(by[set][run.by], run.Run)
		}
	}
	for _, value := range slices.Sorted(maps.Keys(by[0])) {
		if by[1][value] == nil {
			d.UnmatchedInputCounts[0]++
			continue
		}
		d.Cases = append(d.Cases, &Case{Baseline: by[0][value], Candidate: by[1][value]})
	}
	for value := range by[1] {
		if by[0][value] == nil {
			d.UnmatchedInputCounts[1]++
		}
	}
	return d
}

// readers is the maximum number of concurrent requests for texts.
const readers = 4

const noContentScope = "comparing texts requires a token with the scope content"

// measure reads and compares the texts of the outputs, input by input. If the token does not permit reading
// content, measure sets d.NoTextsReason instead.
func (c *collector) measure(ctx context.Context, d *ComparedRuns) error {
	stored := make(map[uint64]bool)
	for _, runs := range c.runs {
		for _, run := range runs {
			stored[run.Seq] = run.stored
		}
	}
	if d.ComparesWholeSets {
		d.dropWithout(stored)
		return c.measureWholeSets(ctx, d)
	}
	var mu sync.Mutex // guards d
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for _, one := range d.Cases {
		group.Go(func() error {
			texts, err := c.texts(ctx, one, stored)
			switch {
			case errors.Is(err, client.ErrForbidden):
				mu.Lock()
				defer mu.Unlock()
				d.NoTextsReason = noContentScope
				return nil
			case err != nil || texts == nil:
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			d.MeasureOutputs(one, texts)
			return nil
		})
	}
	return group.Wait()
}

// measureWholeSets is like measure, but for sets that are compared as wholes. A set can have many runs, and their
// texts are not compared with each other, so measureWholeSets measures each text on arrival and does not keep it.
func (c *collector) measureWholeSets(ctx context.Context, d *ComparedRuns) error {
	var mu sync.Mutex // guards d
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for _, one := range d.Cases {
		for _, run := range one.runs() {
			group.Go(func() error {
				text, err := c.ledger.Records.Content(ctx, run.Seq, "output")
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				d.measureRun(run, text)
				return nil
			})
		}
	}
	err := group.Wait()
	switch {
	case errors.Is(err, client.ErrForbidden):
		d.NoTextsReason = noContentScope
		return nil
	case errors.Is(err, client.ErrGone) || errors.Is(err, client.ErrNotFound): // a text was erased in the meantime
		return nil
	case err != nil:
		return err
	}
	for _, one := range d.Cases {
		one.measured = true
	}
	return nil
}

// dropWithout removes the runs whose texts are not stored, and then the cases that no longer have runs in
// both sets. It is called only if the sets are compared as wholes.
func (d *ComparedRuns) dropWithout(stored map[uint64]bool) {
	for _, c := range d.Cases {
		for _, runs := range []*[]Run{&c.Baseline, &c.Candidate} {
			n := len(*runs)
			*runs = slices.DeleteFunc(*runs, func(r Run) bool { return !stored[r.Seq] })
			d.SkippedRuns += n - len(*runs)
		}
	}
	d.Cases = slices.DeleteFunc(d.Cases, func(c *Case) bool { return len(c.Baseline) == 0 || len(c.Candidate) == 0 })
}

// texts returns the outputs of a case. It returns nil if the ledger does not have all of them.
func (c *collector) texts(ctx context.Context, one *Case, stored map[uint64]bool) ([][]byte, error) {
	runs := one.runs()
	for _, run := range runs {
		if !stored[run.Seq] {
			return nil, nil
		}
	}
	texts := make([][]byte, len(runs))
	for i, run := range runs {
		text, err := c.ledger.Records.Content(ctx, run.Seq, "output")
		switch {
		case errors.Is(err, client.ErrGone) || errors.Is(err, client.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}
