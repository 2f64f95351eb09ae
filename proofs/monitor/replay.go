package monitor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"colophon/internal/cli"
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
	usualFew        = 25   // questions of each kind that are beside those of all values
	mostFew         = 1000 // of those where all values are asked about
)

// scrapeFirst fetches the metrics before the log: whatever size they are as of, the log
// will have reached. Until then the index has reached what the log was before.
func (a *Auditor) scrapeFirst(ctx context.Context) error {
	before, err := OpenPublishedLog(ctx, a.Fetch, a.Keys, a.Parallel)
	if err != nil {
		return err
	}
	a.show(before)
	if a.published = before.Published.Size; a.published > 0 {
		// Answered once the index has come so far. What else it says is asked again.
		_, err := a.Fetch.Get(ctx, "/records?after="+cli.Decimal(a.published-1), MaxAuditJSON)
		if err != nil && !errors.Is(err, ErrTooMuch) && !errors.Is(err, errAnswer) {
			return fmt.Errorf("waiting for the index: %w", err)
		}
	}
	url := a.MetricsURL
	if url == "" {
		url = a.Fetch.Url + "/metrics"
	}
	var unseen string
	a.metrics, unseen, err = fetchMetrics(ctx, a.Fetch, url, a.Ledger)
	if errors.Is(err, errAnswer) || errors.Is(err, ErrTooMuch) {
		a.Report.Found(Finding{Kind: KindMetrics, Query: "/metrics", Message: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	if unseen != "" {
		a.Report.withheld("metrics: " + unseen + " (--metrics-url names them where they have an address of their own)")
	}
	return nil
}

// replay compares what the server answers with what the copy of the log does.
func (a *Auditor) replay(ctx context.Context, w *WholeWalk, dir string) (err error) {
	size := a.published
	if a.metrics != nil {
		if f := a.metrics.SizesHold(a.published, w.Replica.Written); f != nil {
			a.Report.Found(*f)
			return nil
		}
		size = a.metrics.Size
	}
	if size < 2 {
		return nil // of its own first event nothing is asked
	}
	r, err := OpenReference(ctx, w, dir, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	c, err := r.Comparer()
	if err != nil {
		return err
	}
	a.Report.AsOf = size
	if err := a.compareMetrics(ctx, c); err != nil {
		return err
	}
	asked, err := a.AskerOf(w.Replica)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(a.Seed, 1)) // #nosec G404 -- an order that can be had again; the seed is not known to the server
	if err := a.compareAnswers(ctx, c, AsClientsDo(asked.All(), size, random)); err != nil {
		return err
	}
	if len(c.Redacted) > 0 || c.Largest > w.Replica.Written {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
	}
	if f := c.HeldToLog(w.Replica.Written, w.Redacts); f != nil {
		a.Report.Found(*f)
	}
	return nil
}

// AskerOf makes the questions that the copy of the log gives rise to.
func (a *Auditor) AskerOf(r *replica) (*Asker, error) {
	sample, pairs, few := a.Sample, a.Sample, usualFew
	switch {
	case sample < 0:
		pairs, few = mostPairs, mostFew
	case sample == 0 && r.size <= sizeOfSmallLog:
		sample, pairs = -1, pairsOfSmallLog
	case sample == 0:
		sample, pairs = usualSample, usualSample
	default:
		few = min(few, sample)
	}
	asked := &Asker{values: newLogValues(sample, a.Seed), pairs: pairs, few: few, size: r.size, content: a.Content}
	var document pyjson.Document
	for seq := range r.size {
		entry, err := r.read(seq)
		if err != nil {
			return nil, err
		}
		prev, body, err := proofs.SplitEntry(entry)
		if err == nil {
			err = document.Parse(body)
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", seq, err)
		}
		asked.values.read(seq, document.Root())
		if seq > 0 { // the copy has a first event of its own
			asked.values.add(eventHashes, fmt.Sprintf("%x", proofs.EventHash(prev, body)))
		}
	}
	return asked, asked.mix(r)
}

// mix takes some values of records, together, for what they are asked for.
func (a *Asker) mix(r *replica) error {
	var document pyjson.Document
	for _, kind := range record.Kinds {
		for i, text := range a.some(seqsOf + string(kind)) {
			seq, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return err
			}
			entry, err := r.read(seq)
			if err == nil {
				err = document.Parse(entry[proofs.HashSize:])
			}
			if err != nil {
				return fmt.Errorf("event %d: %w", seq, err)
			}
			of := newLogValues(-1, a.values.seed)
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
				parameters = append(parameters, "state", string(record.Live))
			}
			a.mixtures = append(a.mixtures, parameters)
		}
	}
	return nil
}

// compareMetrics compares the metrics that were fetched first.
func (a *Auditor) compareMetrics(ctx context.Context, c *Comparer) error {
	if a.metrics == nil {
		return nil
	}
	expected, unseen, err := fetchMetrics(ctx, c.copied, c.copied.Url+"/metrics", a.Ledger)
	if err == nil && unseen != "" {
		err = errors.New(unseen)
	}
	if err != nil {
		return fmt.Errorf("asking the copy of the log: /metrics: %w", err)
	}
	for _, f := range expected.Differs(a.metrics) {
		f.Query = fmt.Sprintf("/metrics as of %d", c.Size)
		if !a.Report.Found(f) {
			break
		}
	}
	return nil
}

// roundOfQuestions is how many questions are asked before the copy grows to what was
// answered of a later size.
const roundOfQuestions = 64

// mostTooMuch is after how many answers that are too long no more are asked for: each
// takes the time of a thousand others.
const mostTooMuch = 5

// compareAnswers asks all questions and notes what differs.
func (a *Auditor) compareAnswers(ctx context.Context, c *Comparer, questions []Question) error {
	bar := cli.NewProgress(a.Console, int64(len(questions)), "asking about "+a.Ledger)
	defer bar.Finish()
	asked := 0
	for round := range slices.Chunk(questions, roundOfQuestions) {
		more, err := a.compareRound(ctx, c, round)
		if err != nil || !more {
			return err
		}
		asked += len(round)
		bar.Set(uint64(asked))
	}
	return nil
}

// compareRound is compareAnswers of some questions; false if that is enough.
func (a *Auditor) compareRound(ctx context.Context, c *Comparer, questions []Question) (more bool, err error) {
	more = true
	take := func(answer ComparedAnswer) bool {
		a.Report.Queries++
		a.Report.Rows += answer.rows
		if err = answer.Err; err == nil && answer.Finding != nil {
			more = a.Report.Found(*answer.Finding)
			if answer.tooMuch {
				c.tooMuch++
				more = more && c.tooMuch < mostTooMuch
			}
		}
		return err == nil && more
	}
	type laterAnswer struct {
		q    Question
		page *AnswerPage
	}
	var later []laterAnswer
	largest := uint64(0)
	c.AskAll(ctx, questions, a.Parallel, func(done int, answer ComparedAnswer) bool {
		if !answer.Later {
			return take(answer)
		}
		later = append(later, laterAnswer{questions[done-1], answer.page})
		if answer.page != nil {
			largest = max(largest, answer.page.size)
		}
		return true
	})
	for _, l := range later {
		if err != nil || !more {
			break
		}
		if l.page == nil || l.page.size < l.page.known || c.grow(ctx, largest) != nil {
			take(c.Settle(ctx, l.q))
			continue
		}
		take(c.compare(ctx, l.q, l.page, true))
	}
	return more, err
}
