package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
	"colophon/proofs/replay/reference"
)

// Options configures the check of a server's answers. The zero value is valid.
type Options struct {
	// SampleSize is the number of values of each kind from the log that the audit asks questions
	// about. 0 means all values if the log has at most 2,000 entries, and 200 values of each kind
	// if it has more. -1 means all values.
	SampleSize int
	// MetricsURL is the URL of the metrics if they are not at /metrics on the audited server. The
	// token is not sent to any other host.
	MetricsURL string
}

// New returns an AnswerChecker that asks a server questions and compares the answers with the log.
// Only one audit at a time can use it. It needs a token with the read scope, and temporary disk
// space of about twice the size of the log.
func New(o Options) monitor.AnswerChecker { return &check{Options: o} }

// Constants that determine how many questions the audit asks.
const (
	smallLog        = 2000 // maximum size, in entries, of a log that the audit does not sample
	largeLogSample  = 200  // number of values of each kind that are sampled from a larger log
	smallLogPairs   = 500  // maximum number of pairs of values of each variable in a small log
	maxPairs        = 5000 // maximum number of pairs if the audit asks about all values, because the number of all pairs grows quadratically
	fewQuestions    = 25   // number of additional questions of each kind
	maxFewQuestions = 1000 // number of additional questions if the audit asks about all values
)

// Names of the steps that are passed to monitor.Options.Progress.
const (
	stepAsk   = "asking about"
	stepIndex = "indexing"
)

// check implements monitor.AnswerChecker.
type check struct {
	Options
	dir  string
	copy *reference.Log
}

// Begin creates an empty copy of the log.
func (k *check) Begin(_ context.Context, a *monitor.Auditor) (err error) {
	*k = check{Options: k.Options}
	if k.dir, err = os.MkdirTemp("", "colophon-audit-"); err != nil {
		return fmt.Errorf("creating a temporary folder (set TMPDIR to use a different location): %w", err)
	}
	k.copy, err = reference.NewLog(k.dir, a.Options().Ledger)
	return err
}

// fetchMetrics waits until the index has reached the end of the walk. It then fetches the metrics,
// and extends the walk if they are as of a later size. got is nil if the audit cannot compare the
// metrics.
func (k *check) fetchMetrics(ctx context.Context, w *monitor.Walk) (got *scrape, err error) {
	// The server responds once it has indexed the last entry of the walk. The response itself is not
	// used.
	_, err = w.Client().Get(ctx, "/records?after="+decimal(w.Size()-1), maxAnswer)
	if err != nil && !errors.Is(err, fetch.ErrTooLong) && !errors.Is(err, fetch.ErrMalformed) {
		return nil, fmt.Errorf("waiting for the index: %w", err)
	}
	answer, err := w.Client().GetURL(ctx, cmp.Or(k.MetricsURL, w.Client().URL()+"/metrics"), maxMetrics)
	if err == nil && answer.Status != http.StatusOK {
		w.Report().AddWithheldData("metrics: " + answer.Problem)
		return nil, nil
	}
	if err == nil {
		got, err = readMetrics(answer.Body, w.Options().Ledger)
	}
	if errors.Is(err, fetch.ErrMalformed) || errors.Is(err, fetch.ErrTooLong) {
		w.Report().AddFinding(monitor.Finding{Kind: monitor.DamageKindMetrics, Query: "/metrics", Message: err.Error()})
		return nil, nil
	}
	if err == nil && max(got.size, got.tree) > w.Size() {
		err = w.CatchUp(ctx)
	}
	return got, err
}

// AddEntry adds an entry to the copy of the log.
func (k *check) AddEntry(e audit.WalkedEntry) error { return k.copy.Add(e) }

// Close removes the copy of the log.
func (k *check) Close() error {
	var err error
	if k.copy != nil {
		err = k.copy.Close()
	}
	return errors.Join(err, os.RemoveAll(k.dir))
}

// Finish compares the server's answers with those from the copy of the log. It first extends the walk to
// the current size of the log. No answer may be as of a smaller size, so a server cannot answer from an
// index that lacks walked entries.
func (k *check) Finish(ctx context.Context, w *monitor.Walk) (err error) {
	if err := w.CatchUp(ctx); err != nil {
		return err
	}
	size := w.Size()
	metrics, err := k.fetchMetrics(ctx, w)
	if err != nil {
		return err
	}
	if metrics != nil {
		if f := metrics.checkSizes(size, w.Size()); f != nil {
			w.Report().AddFinding(*f)
			return nil
		}
		size = metrics.size
	}
	c, err := k.open(ctx, w, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.reference.Close()) }()
	w.Report().AnswersAsOfSize = size
	if metrics != nil {
		if err := compareMetrics(w, c, metrics); err != nil {
			return err
		}
	}
	questions, err := k.questions(ctx, w.Options())
	if err != nil {
		return err
	}
	if err := k.compareAnswers(ctx, w, c, asClientsAsk(questions.all(), size, w.Options().Seed)); err != nil {
		return err
	}
	if c.unsigned > 0 {
		w.Report().AddWithheldData(fmt.Sprintf("%d responses with checkpoints for older tree sizes: %s", c.unsigned, c.refusal))
	}
	if len(c.redactions) > 0 || c.largest > k.copy.AddedCount() {
		if err := w.CatchUp(ctx); err != nil {
			return err
		}
	}
	if f := c.checkClaims(); f != nil {
		w.Report().AddFinding(*f)
	}
	return nil
}

// open returns a comparer whose reference answers as of the given size of the log.
func (k *check) open(ctx context.Context, w *monitor.Walk, size uint64) (*comparer, error) {
	checkpoint, err := proofs.OpenCheckpoint(w.Checkpoint(), w.Keys()...)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint: %w", err)
	}
	r, err := reference.Open(k.copy, reference.Config{
		Dir: filepath.Join(k.dir, "index"), Origin: checkpoint.Origin, ReadTile: w.Tile, Logger: w.Options().Logger,
		Progress: func(indexed, size uint64) { w.Options().Progress(stepIndex, indexed, size) },
	})
	if err != nil {
		return nil, err
	}
	c := newComparer(w.Client(), referenceServer{r, k.copy}, size)
	c.walk, c.copy, c.origin, c.keys = w, k.copy, checkpoint.Origin, w.Keys()
	if err := r.AdvanceTo(ctx, size); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return c, nil
}

// questions returns a questionBuilder with the values found in the copy of the log.
func (k *check) questions(ctx context.Context, o monitor.Options) (*questionBuilder, error) {
	sample, pairs, few := k.SampleSize, k.SampleSize, fewQuestions
	switch {
	case sample < 0:
		pairs, few = maxPairs, maxFewQuestions
	case sample == 0 && k.copy.Size() <= smallLog:
		sample, pairs = -1, smallLogPairs
	case sample == 0:
		sample, pairs = largeLogSample, largeLogSample
	default:
		few = min(few, sample)
	}
	b := &questionBuilder{values: newLogValues(sample, o.Seed), pairs: pairs, maxExtra: few, size: k.copy.Size(), content: o.CheckContent}
	var document pyjson.Document
	for seq := range k.copy.Size() {
		entry, err := k.copy.Entry(ctx, seq)
		if err != nil {
			return nil, err
		}
		prev, body, err := proofs.SplitEntry(entry)
		if err == nil {
			err = document.Parse(body)
		}
		if err != nil {
			return nil, fmt.Errorf("parsing event %d of the local copy of the log: %w", seq, err)
		}
		b.values.read(seq, document.Root())
		b.values.add(eventHashes, fmt.Sprintf("%x", proofs.EventHash(prev, body)))
	}
	return b, b.combine(ctx, k.copy)
}

// combine fills b.combinations. For some of the records, it chooses a few query parameters that
// match the record.
func (b *questionBuilder) combine(ctx context.Context, log *reference.Log) error {
	var document pyjson.Document
	for _, kind := range record.RecordKinds {
		for i, text := range b.some(seqsOf + string(kind)) {
			seq, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return err
			}
			entry, err := log.Entry(ctx, seq)
			if err == nil {
				err = document.Parse(entry[proofs.HashSize:])
			}
			if err != nil {
				return fmt.Errorf("parsing event %d of the local copy of the log: %w", seq, err)
			}
			of := newLogValues(-1, b.values.seed)
			of.read(seq, document.Root())
			names := of.names(findable(""))
			parameters := []string{"kind", string(kind)}
			for j := 0; j < 2+i%2 && j < len(names); j++ {
				name := names[(i*7+j*5)%len(names)]
				if !slices.Contains(parameters, name) {
					parameters = append(parameters, name, of.of(findable(name))[0])
				}
			}
			if i%3 == 0 {
				parameters = append(parameters, "state", string(record.StateLive))
			}
			b.combinations = append(b.combinations, parameters)
		}
	}
	return nil
}

// compareMetrics compares the server's metrics with those of the reference.
func compareMetrics(w *monitor.Walk, c *comparer, got *scrape) error {
	expected, err := c.reference.metrics()
	if err != nil {
		return fmt.Errorf("computing the metrics of the local copy of the log: %w", err)
	}
	for _, f := range expected.differences(got) {
		f.Query = fmt.Sprintf("/metrics as of %d", c.size)
		if !w.Report().AddFinding(f) {
			break
		}
	}
	return nil
}

// roundSize is the number of questions in a round. If answers in a round are for larger tree sizes
// than the reference, the reference grows at the end of the round so that they can be compared.
const roundSize = 64

// maxTooLong is the number of overlong answers after which the comparison ends. Each of them takes
// as much time as a thousand other answers.
const maxTooLong = 5

// compareAnswers asks all questions and reports the differences.
func (k *check) compareAnswers(ctx context.Context, w *monitor.Walk, c *comparer, questions []question) error {
	total, done := uint64(len(questions)), 0
	w.Options().Progress(stepAsk, 0, total)
	for round := range slices.Chunk(questions, roundSize) {
		more, err := compareRound(ctx, w, c, round)
		if err != nil || !more {
			return err
		}
		done += len(round)
		w.Options().Progress(stepAsk, uint64(done), total)
	}
	return nil
}

// compareRound is like compareAnswers, but for the questions of one round. more is false if the
// audit should stop.
func compareRound(ctx context.Context, w *monitor.Walk, c *comparer, questions []question) (more bool, err error) {
	more = true
	report := w.Report()
	take := func(r comparison) bool {
		if r.unsigned != "" {
			c.unsigned++
			c.refusal = r.unsigned
			return true
		}
		report.Queries++
		report.Rows += r.rows
		if err = r.err; err == nil && r.finding != nil {
			more = report.AddFinding(*r.finding)
			if r.tooLong {
				c.tooLong++
				more = more && c.tooLong < maxTooLong
			}
		}
		return err == nil && more
	}
	type laterAnswer struct {
		q    question
		page *answerPage
	}
	var later []laterAnswer
	largest := uint64(0)
	c.askAll(ctx, questions, w.Options().Concurrency, func(done int, r comparison) bool {
		if !r.needsGrowth {
			return take(r)
		}
		later = append(later, laterAnswer{questions[done-1], r.page})
		if r.page != nil {
			largest = max(largest, r.page.size)
		}
		return true
	})
	for _, l := range later {
		if err != nil || !more {
			break
		}
		if l.page == nil || l.page.size < l.page.atLeast || c.grow(ctx, largest) != nil {
			take(c.askAgain(ctx, l.q))
			continue
		}
		take(c.compare(ctx, l.q, l.page, true))
	}
	return more, err
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
