package monitor

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
)

// Options configures an audit. Server, Ledger, and Keys are required; the zero value of every other
// field is valid.
type Options struct {
	Server fetch.Server // the server to audit
	Ledger string       // name of the ledger
	// Keys holds the trusted verifier keys of the log. One key is enough. The audit finds the
	// successors of these keys in the log.
	Keys []*proofs.Verifier
	// StateFile is the path of the file in which the audit stores data for the next audit. More
	// data is stored in a folder whose path is StateFile with ".d" appended. The audit creates the
	// file and the folder if they do not exist. If StateFile is empty, nothing is stored.
	StateFile string
	// SeenCheckpoints holds checkpoints that other parties have seen. The log must extend them.
	SeenCheckpoints []NamedCheckpoint
	// LogIsCopy means that the server publishes only a copy of the log. If checks of content, answers,
	// or receipts are requested, the report lists them as not done.
	LogIsCopy bool
	// CheckContent makes the audit also fetch all content and rebuild every record from it.
	CheckContent bool
	// NumReceipts is the number of receipts to fetch and verify. The audit also verifies the same
	// number of consistency proofs.
	NumReceipts int
	// AnswerChecker, if not nil, compares the server's answers with the log. No other audit may use
	// the same AnswerChecker at the same time.
	AnswerChecker AnswerChecker
	// Seed determines which receipts the audit fetches and which questions it asks. If Seed is 0,
	// the audit chooses a random seed, which the server cannot know. The report contains the seed.
	Seed uint64

	Timeout     time.Duration // time limit for each attempt at a request; 0 means one minute
	Concurrency int           // number of concurrent requests; 0 means 8

	// Logger receives warnings that do not end the audit; nil discards them.
	Logger *slog.Logger
	// Progress, if not nil, is called with done == 0 at the beginning of each step, and again as
	// the step advances. Calls do not overlap.
	Progress func(step string, done, total uint64)
}

// NamedCheckpoint is a signed checkpoint with a name for messages.
type NamedCheckpoint struct {
	Name string // for example a file name
	Text []byte // the checkpoint as a signed note
}

// withDefaults replaces zero values with the defaults.
func (o Options) withDefaults() Options {
	for o.Seed == 0 {
		o.Seed = rand.Uint64() >> 11 // #nosec G404 -- a server cannot know it; 53 bits are exact in every JSON reader
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.Concurrency == 0 {
		o.Concurrency = 8
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string, uint64, uint64) {}
	}
	return o
}

// requested returns the names of the requested checks, excluding the log check.
func (o Options) requested() (checks []string) {
	for _, check := range [...]struct {
		name string
		is   bool
	}{{ContentCheckName, o.CheckContent}, {AnswersCheckName, o.AnswerChecker != nil}, {ReceiptsCheckName, o.NumReceipts > 0}} {
		if check.is {
			checks = append(checks, check.name)
		}
	}
	return checks
}

// Auditor is one running audit. It is passed to AnswerChecker.Begin.
type Auditor struct {
	options Options
	// impossible lists the requested checks that a copy cannot support. They are removed from the
	// options.
	impossible []string
	keys       []*proofs.Verifier // the trusted keys and all their successors
	// known contains the keys in the field keys and every key that they have replaced. If only a
	// replaced key has signed a checkpoint, the walked log must confirm the checkpoint.
	known     []*proofs.Verifier
	histories []*proofs.KeyHistory // the key histories from which the fields keys and known were computed
	client    *fetch.Client
	state     *state
	others    []audit.SeenCheckpoint // checkpoints that other parties have seen
	older     []olderNote            // checkpoints that the newest key has not signed
	report    *Report
	// contentSize is the number of entries whose content was checked, if Options.CheckContent was set.
	contentSize uint64
}

// Run audits a ledger once, at its current size. The report says what is wrong with the
// ledger. An error says why the audit could not finish:
//
//   - a *StateError or *CheckpointError: the options do not match the ledger;
//   - an audit.ErrUnavailable: the server does not respond; the same audit may succeed later;
//   - an *UncheckableError or fetch.ErrForbidden: the token lacks a right;
//   - an error from the context, the state file, or temporary files.
//
// When Run returns, even with an error, the state file durably holds the verified part of the log.
// If the log is damaged, the state file also holds its checkpoint, because its signature is
// evidence. Run is safe for concurrent use; a second audit with the same state fails with
// ErrStateInUse.
func Run(ctx context.Context, o Options) (*Report, error) {
	var report *Report
	err := with(ctx, o, func(a *Auditor) error {
		err := a.round(ctx)
		if err == nil {
			report = a.report
		}
		return err
	})
	return report, err
}

// Follow repeats the audit until the context is canceled or an audit finds a problem. It calls the
// function each with the first report, with a new report whenever the log has grown, and with the
// report of a problem. If the server stops responding, Follow logs a warning and tries again after
// the interval. It returns nil if the context is canceled or a report is not clean. Otherwise it
// returns an error from each, or one that Run would return.
func Follow(ctx context.Context, o Options, interval time.Duration, each func(*Report) error) error {
	return with(ctx, o, func(a *Auditor) error { return a.follow(ctx, interval, each) })
}

// with prepares an audit, calls do with it, and then releases its resources.
func with(ctx context.Context, o Options, do func(*Auditor) error) error {
	a := &Auditor{options: o.withDefaults()}
	if o.LogIsCopy {
		a.impossible = o.requested()
		a.options.CheckContent, a.options.AnswerChecker, a.options.NumReceipts = false, nil, 0
	}
	var err error
	if a.client, err = fetch.New(o.Server, o.Ledger, a.options.Timeout, 2*a.options.Concurrency); err != nil {
		return err
	}
	if err := a.followKeys(ctx); err != nil {
		return err
	}
	if a.state, err = openState(o.StateFile, a.known); err != nil {
		return err
	}
	if a.state.converted {
		a.options.Logger.Warn("the state was written by an earlier version, without checksums; keeping its checkpoints and verifying the log from the beginning", "state", o.StateFile)
	}
	if err = a.followKeys(ctx); err == nil {
		err = a.openAgainst()
	}
	if err == nil {
		err = do(a)
	}
	return errors.Join(err, a.state.Close())
}

func (a *Auditor) follow(ctx context.Context, interval time.Duration, each func(*Report) error) error {
	for first := true; ; first = false {
		err := a.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // the usual way to end Follow is to cancel ctx
		case errors.Is(err, audit.ErrUnavailable) && !first:
			a.options.Logger.Warn("the server does not respond; trying again", "error", err)
		case err != nil:
			return err
		case first || a.report.WalkedEntries > 0 || !a.report.Clean:
			if err := each(a.report); err != nil {
				return err
			}
		}
		if err == nil && !a.report.Clean {
			return nil
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// round audits the ledger at its current size. An error says why the audit could not finish.
func (a *Auditor) round(ctx context.Context) error {
	a.report = newReport(a)
	if a.options.AnswerChecker != nil || a.options.NumReceipts > 0 {
		a.report.Seed = a.options.Seed
	}
	err := a.checks(ctx)
	var damage *audit.Damage
	if errors.As(err, &damage) {
		a.report.AddFinding(findingOf(damage))
		err = nil
	}
	a.report.conclude()
	if err == nil && a.report.Clean {
		err = a.rememberDone()
	}
	return err
}

// checks runs the requested checks and stops at the first damage in the log.
func (a *Auditor) checks(ctx context.Context) (err error) {
	if answers := a.options.AnswerChecker; answers != nil {
		defer func() { err = errors.Join(err, answers.Close()) }()
		if err := answers.Begin(ctx, a); err != nil {
			return err
		}
	}
	if err := a.followKeys(ctx); err != nil {
		return err
	}
	log, err := fetch.OpenLog(ctx, a.client, a.keys, a.options.Concurrency)
	if err != nil {
		return err
	}
	all := a.options.CheckContent || a.options.AnswerChecker != nil
	if a.state.at.Size > 0 || !all {
		if err := a.walkOn(ctx, log); err != nil {
			return err
		}
	}
	if all {
		if err := a.walkAll(ctx, log); err != nil {
			return err
		}
	}
	return a.checkReceipts(ctx, log)
}
