// Package monitor audits a ledger from afar. It downloads the log, checks signatures, chain,
// tree, events, content, and answers, remembers what it has seen, and reports what is wrong.
package monitor

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"time"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// Options say what an audit checks.
type Options struct {
	Ledger string // its name
	Key    string // a trusted verifier key, or a file with keys
	// State is the file that remembers the audit; empty for none. Against are files with
	// checkpoints that others have seen.
	State   string
	Against []string
	// Content: fetch all content too, and recompute every record from it.
	Content bool
	// ReplayIndex: derive answers from the log, and compare the server's with them. Sample
	// is the number of values of each kind to ask about; 0 is the default, -1 all.
	ReplayIndex bool
	Sample      int
	Seed        uint64 // chooses samples and the order of questions; 0 chooses one
	Receipts    int    // receipts, and proofs, to fetch and verify
	MetricsURL  string // of /metrics, if it has its own address
	// Follow: watch the log until something is wrong, with a look every Interval.
	Follow   bool
	Interval time.Duration
	Timeout  time.Duration // for one answer
	Parallel int           // requests at once
	JSON     bool          // print the report as JSON
}

// Auditor is one audit.
type Auditor struct {
	*cli.Console
	Options
	Given []*proofs.Verifier // keys that are trusted
	Keys  []*proofs.Verifier // those, and all that follow from them
	// Known are keys, and those that they replaced. What only the latter have signed counts
	// as far as the log that is walked confirms it.
	Known []*proofs.Verifier
	// histories are those of the log's keys that keys and known are from.
	histories []*proofs.KeyHistory
	Fetch     *Fetcher
	Memory    *State
	others    []audit.Seen // checkpoints that others have seen
	older     []olderNote  // those of them that the newest key has not signed
	metrics   *scrape      // nil where they are not compared
	// published is the size of the log before the metrics were fetched; what they are
	// as of is not less.
	published uint64
	Report    *Report
}

// Run audits a ledger of a server, and prints the report.
func Run(ctx context.Context, c *cli.Console, server *remote.Server, o Options) error {
	a := &Auditor{Console: c, Options: o}
	for a.Seed == 0 {
		a.Seed = rand.Uint64() >> 11 // #nosec G404 -- a server cannot know it; every reader of JSON has it exactly
	}
	var err error
	if a.Given, err = c.ReadKeys(o.Key); err != nil {
		return err
	}
	notes, err := readAgainst(o.Against)
	if err != nil {
		return err
	}
	if a.Fetch, err = NewFetcher(RemoteOf(server), remote.LedgerPath(o.Ledger), o.Timeout, 2*o.Parallel); err != nil {
		return err
	}
	defer boundMemory()()
	if err := a.followKeys(ctx); err != nil {
		return a.Explain(ctx, err)
	}
	if a.Memory, err = OpenAuditMemory(o.State, a.Known); err != nil {
		return err
	}
	if a.Memory.converted {
		a.Say("%s is of an earlier version, without checksums: the checkpoints in it count, and the log is walked from its beginning", o.State)
	}
	if err = a.followKeys(ctx); err == nil {
		err = a.openAgainst(notes)
	}
	if err == nil {
		err = a.audit(ctx)
	}
	return errors.Join(a.Explain(ctx, err), a.Memory.Close())
}

// RemoteOf is what the auditor has of a server.
func RemoteOf(s *remote.Server) RemoteServer {
	u, err := url.Parse(s.URL)
	return RemoteServer{Url: s.URL, token: s.Token, Transport: s.Transport, compress: err == nil && !cli.Loopback(u.Hostname()), explain: s.Explain}
}

// memoryLimit is what the auditor's memory grows to before the collector does all it can,
// in bytes, unless GOMEMLIMIT says: what is in use is bounded by less.
const memoryLimit = 352 << 20

// boundMemory sets that limit until end.
func boundMemory() (end func()) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(memoryLimit)
	return func() { debug.SetMemoryLimit(math.MaxInt64) }
}

// audit audits the ledger once, or goes on watching it.
func (a *Auditor) audit(ctx context.Context) error {
	if a.Follow {
		return a.watch(ctx)
	}
	return a.once(ctx)
}

// once audits the ledger and reports.
func (a *Auditor) once(ctx context.Context) error {
	if err := a.round(ctx); err != nil {
		return err
	}
	if err := a.Report.print(a.Console, a.JSON, false); err != nil {
		return err
	}
	if !a.Report.Clean {
		return &cli.ExitError{Code: a.Report.Code}
	}
	return nil
}

// round audits the ledger as it is now. What it finds is in the report; an error says
// why it could not be finished.
func (a *Auditor) round(ctx context.Context) error {
	a.Report = newAuditReport(a)
	if a.ReplayIndex || a.Receipts > 0 {
		a.Report.Seed = a.Seed
	}
	err := a.checks(ctx)
	if d := auditDamage(err); d != nil {
		a.Report.Found(findingOf(d))
		err = nil
	}
	a.Report.Conclude()
	if err == nil && a.Report.Clean {
		err = a.rememberDone()
	}
	return err
}

// checks does what was asked for, up to the first damage of the log.
func (a *Auditor) checks(ctx context.Context) error {
	if a.ReplayIndex {
		if err := a.scrapeFirst(ctx); err != nil {
			return err
		}
	}
	if err := a.followKeys(ctx); err != nil {
		return err
	}
	log, err := OpenPublishedLog(ctx, a.Fetch, a.Keys, a.Parallel)
	if err != nil {
		return err
	}
	whole := a.Content || a.ReplayIndex
	if a.Memory.At.Size > 0 || !whole {
		if err := a.walkOn(ctx, log); err != nil {
			return err
		}
	}
	if whole {
		if err := a.walkAll(ctx, log); err != nil {
			return err
		}
	}
	return a.checkReceipts(ctx, log)
}

// walkOn walks the log on from where the last audit ended, and remembers.
func (a *Auditor) walkOn(ctx context.Context, log *PublishedLog) error {
	x := audit.Extension{From: a.Memory.At, Past: a.Memory.Past, Seen: a.Seen(), Reached: func(at audit.Position) error { return a.Reach(ctx, log, at) }}
	at, err := a.walk(ctx, log, x)
	if err != nil {
		return errors.Join(err, a.Memory.Rewind())
	}
	return a.Remember(log, at)
}

// walk walks the log and notes in the report what it came to. The error is a
// *audit.Damage where there is some; that the checkpoint was seen is remembered all the same.
func (a *Auditor) walk(ctx context.Context, log *PublishedLog, x audit.Extension) (audit.Position, error) {
	bar := cli.NewProgress(a.Console, int64(min(log.Published.Size, math.MaxInt64)), "auditing "+a.Ledger)
	defer bar.Finish()
	options := audit.Options{Verifiers: a.bounded(), Successors: a.Keys, Ledger: a.Ledger, Now: time.Now(), Progress: func(done, _ uint64) { bar.Set(done) }}
	report, at, err := audit.Extend(ctx, log, options, x)
	if err != nil {
		return at, err
	}
	a.Report.Walked += report.Size - x.From.Size
	a.Report.KeyUses += report.Keys
	a.Report.signed(report.Checkpoint)
	if report.Damage != nil {
		if err := a.rememberDamaged(ctx, log, report.Damage); err != nil {
			a.Say("the checkpoint of the damaged log is not remembered: %v", err) // the damage comes first
		}
		return at, report.Damage
	}
	a.takeKeys(at.Keys, nil)
	a.Report.walked(at)
	return at, a.checkOlder(at, x.Past)
}

// followKeys finds the keys that follow from those given: each was handed over by the one
// before. What the log's events say of them is remembered from earlier walks; what the
// server says counts only as far as the handovers show it: not for bounds, which the walk
// takes from the events, nor for the keys before those given, which may have been stolen
// since they were retired.
func (a *Auditor) followKeys(ctx context.Context) error {
	answer, err := a.Fetch.Get(ctx, "/log/key", MaxNote)
	if err != nil && !errors.Is(err, ErrTooMuch) {
		return err
	}
	var served *proofs.KeyHistory // nil: the keys that are given may do
	if err == nil && answer.Status == http.StatusOK {
		if served, err = proofs.ParseLogKey(answer.Body); err != nil {
			served = nil
		}
	}
	var walked *proofs.KeyHistory
	if a.Memory != nil {
		walked = a.Memory.history()
	}
	a.takeKeys(walked, served)
	return nil
}

// takeKeys takes over the keys that follow from those given, in the log as it was walked
// and as its server shows it. Either may be nil.
func (a *Auditor) takeKeys(walked, served *proofs.KeyHistory) {
	a.Keys, a.Known, a.histories = nil, nil, nil
	if walked != nil {
		a.Keys = addKeys(a.Keys, walked.Following(a.Given...)...)
	}
	a.Keys = addKeys(a.Keys, a.Given...)
	if served != nil {
		for _, key := range served.Following(a.Keys...) {
			a.Keys = addKeys(a.Keys, key.Unbounded())
		}
	}
	a.Known = addKeys(a.Known, a.Keys...)
	if walked != nil && slices.ContainsFunc(a.Keys, walked.Trusts) {
		a.histories = append(a.histories, walked)
		a.Known = addKeys(a.Known, walked.Verifiers()...)
	}
	if served != nil && slices.ContainsFunc(a.Keys, served.Trusts) {
		a.histories = append(a.histories, served)
		for _, key := range served.Verifiers() {
			a.Known = addKeys(a.Known, key.Unbounded())
		}
	}
	if a.Memory != nil {
		a.Memory.keys = a.Keys
	}
}

// bounded are the given keys, with the bounds of those that are known to be retired.
func (a *Auditor) bounded() []*proofs.Verifier {
	var list []*proofs.Verifier
	if walked := a.Memory.history(); walked != nil {
		for _, key := range walked.Verifiers() {
			if slices.ContainsFunc(a.Given, func(v *proofs.Verifier) bool { return v.String() == key.String() }) {
				list = append(list, key)
			}
		}
	}
	return addKeys(list, a.Given...)
}

// addKeys appends those keys that are not in the list.
func addKeys(list []*proofs.Verifier, keys ...*proofs.Verifier) []*proofs.Verifier {
	for _, key := range keys {
		if !slices.ContainsFunc(list, func(v *proofs.Verifier) bool { return v.String() == key.String() }) {
			list = append(list, key)
		}
	}
	return list
}
