package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// Sampling where the command line does not say.
const (
	sizeOfSmallLog  = 2000 // entries up to which all values are asked about
	usualSample     = 200  // values of each kind of a larger log
	pairsOfSmallLog = 500  // pairs of values of each variable of a small log
	mostPairs       = 5000 // of those where all values are asked about: they grow with their square
)

// scrapeFirst fetches the metrics before the log: whatever size they are as of, the log
// will have reached. Until then the index has reached what the log was before.
func (a *auditor) scrapeFirst(ctx context.Context) error {
	before, err := openPublishedLog(ctx, a.fetch, a.keys, a.parallel)
	if err != nil {
		return err
	}
	if a.published = before.head.Size; a.published > 0 {
		// Answered once the index has come so far. What else it says is asked again.
		if _, err := a.fetch.get(ctx, "/records?limit=1&as_of="+decimal(a.published), maxAuditJSON); err != nil && !errors.Is(err, errTooMuch) {
			return fmt.Errorf("waiting for the index: %w", err)
		}
	}
	url := a.metricsURL
	if url == "" {
		url = a.fetch.client.base + "/metrics"
	}
	var unseen string
	a.metrics, unseen, err = fetchMetrics(ctx, a.fetch, url, a.ledger)
	if errors.Is(err, errAnswer) || errors.Is(err, errTooMuch) {
		a.report.found(auditFinding{Kind: kindMetrics, Query: "/metrics", Message: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	if unseen != "" {
		a.report.Unchecked = append(a.report.Unchecked, "metrics: "+unseen)
	}
	return nil
}

// replay compares what the server answers with what the copy of the log does.
func (a *auditor) replay(ctx context.Context, r *replica, past *pastFiles, dir string) (err error) {
	size := r.written
	if a.metrics != nil {
		f := auditFinding{Kind: kindMetrics, Query: "/metrics", Row: sizeOfIndex, Got: decimal(a.metrics.size)}
		switch {
		case a.metrics.size > size:
			f.Message, f.Expected = "the index is ahead of the log", "at most "+decimal(size)
		case a.metrics.size < a.published:
			f.Message, f.Expected = "the index is behind the log: answers leave out what came since", "at least "+decimal(a.published)
		}
		if f.Message != "" {
			a.report.found(f)
			return nil
		}
		size = a.metrics.size
	}
	if err := r.seal(size, past); err != nil || size < 2 {
		return err // of its own first event nothing is asked
	}
	o, err := newOracle(ctx, a.console, r, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	c := &comparer{server: a.fetch, copied: newFetcher(o.client, a.fetch.path, a.timeout, a.parallel), size: size}
	if c.page, err = a.pageSize(ctx); err != nil {
		return err
	}
	a.report.AsOf = size
	if err := a.compareMetrics(ctx, c); err != nil {
		return err
	}
	values, pairs, err := a.valuesOf(r)
	if err != nil {
		return err
	}
	return a.compareAnswers(ctx, c, questionsOf(values, pairs))
}

// pageSize is how many rows may be asked for at once; 0 if the server wants it less
// than usual.
func (a *auditor) pageSize(ctx context.Context) (int, error) {
	const most = 1000
	answer, err := a.fetch.get(ctx, fmt.Sprintf("/records?limit=%d&kind=%s", most, record.ContentRedacted), maxAuditJSON)
	if errors.Is(err, errTooMuch) {
		return 0, nil // what the server lists is asked and compared later
	}
	if err != nil || answer.status == http.StatusOK {
		return most, err
	}
	return 0, nil
}

// valuesOf are the values of the log that is asked about, and how many pairs of them.
func (a *auditor) valuesOf(r *replica) (values *logValues, pairs int, err error) {
	sample := a.sample
	switch pairs = sample; {
	case sample < 0:
		pairs = mostPairs
	case sample == 0 && r.size <= sizeOfSmallLog:
		sample, pairs = -1, pairsOfSmallLog
	case sample == 0:
		sample, pairs = usualSample, usualSample
	}
	values = newLogValues(sample, a.seed)
	var document pyjson.Document
	for seq := range r.size {
		entry, err := r.read(seq)
		if err != nil {
			return nil, 0, err
		}
		if err := document.Parse(entry[proofs.HashSize:]); err != nil {
			return nil, 0, fmt.Errorf("event %d: %w", seq, err)
		}
		values.read(seq, document.Root())
	}
	return values, pairs, nil
}

// compareMetrics compares the metrics that were fetched first.
func (a *auditor) compareMetrics(ctx context.Context, c *comparer) error {
	if a.metrics == nil {
		return nil
	}
	expected, unseen, err := fetchMetrics(ctx, c.copied, c.copied.client.base+"/metrics", a.ledger)
	if err == nil && unseen != "" {
		err = errors.New(unseen)
	}
	if err != nil {
		return fmt.Errorf("asking the copy of the log: /metrics: %w", err)
	}
	all := maps.Clone(expected.series)
	maps.Copy(all, a.metrics.series)
	for _, series := range slices.Sorted(maps.Keys(all)) {
		want, wanted := expected.series[series]
		got, given := a.metrics.series[series]
		if wanted == given && want == got {
			continue
		}
		f := auditFinding{Kind: kindMetrics, Query: fmt.Sprintf("/metrics as of %d", c.size), Row: series, Message: "it differs", Expected: "nothing", Got: "nothing"}
		if wanted {
			f.Expected = fmt.Sprint(want)
		}
		if given {
			f.Got = fmt.Sprint(got)
		}
		if !a.report.found(f) {
			break
		}
	}
	return nil
}

// compareAnswers asks all questions and notes what differs.
func (a *auditor) compareAnswers(ctx context.Context, c *comparer, questions []question) error {
	bar := newProgress(a.console, int64(len(questions)), "asking about "+a.ledger)
	defer bar.finish()
	var failed error
	c.askAll(ctx, questions, a.parallel, func(done int, answer comparedAnswer) bool {
		bar.set(uint64(done))
		a.report.Queries++
		a.report.Rows += answer.rows
		if failed = answer.err; failed != nil {
			return false
		}
		return answer.finding == nil || a.report.found(*answer.finding)
	})
	return failed
}
