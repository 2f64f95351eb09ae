// Package migrate moves all ledgers of a server between its data folder and a PostgreSQL
// database: entries, tree, checkpoints, content, redactions, idempotency keys, and settings.
//
// The order of its steps decides what an interruption leaves behind. No server can use the target
// until the source is marked as moved, and none can use the source while it is being copied.
// Therefore, a record is never acknowledged by both sides, and none is lost.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"colophon/internal/archive"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/ledger/storeaudit"
	"colophon/proofs/audit"
	"colophon/storage"
)

// Options holds the flags of the migrate command.
type Options struct {
	Source, Target string // a data folder, or the URL of a database
	Undo           bool   // undo an earlier move from Source to Target
}

// errMovedElsewhere means that the source's ledgers were moved to a place other than the target.
var errMovedElsewhere = errors.New("the ledgers were moved elsewhere")

// Run moves the ledgers, or continues an interrupted move.
func Run(ctx context.Context, c *cli.Console, o Options) (err error) {
	from, to, err := parsePlaces(c, o.Source, o.Target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close(), from.close()) }()
	m := &move{console: c, from: from, to: to}
	if o.Undo {
		err = m.undo(ctx)
	} else {
		err = m.run(ctx)
	}
	return explain(ctx, err)
}

// explain adds advice and an exit code to an error from a move.
func explain(ctx context.Context, err error) error {
	var explained *cli.ExitError
	switch {
	case err != nil && ctx.Err() != nil:
		return cli.ExitErrorf(cli.ExitFailed, "interrupted; run the command again with the same arguments to continue")
	case errors.As(err, &explained):
	case errors.Is(err, storage.ErrNoSpace):
		return cli.ExitErrorf(cli.ExitFailed, "%w\nFree space, and run the command again with the same arguments to continue", err)
	case errors.Is(err, ledger.ErrDamaged), errors.Is(err, storage.ErrDamaged):
		return cli.ExitErrorf(cli.ExitDamaged, "%w\nThe move does not change the source. Run colophon fsck on both databases", err)
	case errors.Is(err, errDiverged):
		return cli.ExitErrorf(cli.ExitFailed, "%w\nNothing was changed. Name an empty target with --to", err)
	}
	return err
}

type move struct {
	console  *cli.Console
	from, to place
	source   storage.Database
	target   storage.Database
}

// open opens both places. moved and complete are the results of place.moved and place.openTarget.
func (m *move) open(ctx context.Context) (moved, complete bool, err error) {
	if m.source, err = m.from.openSource(ctx); err != nil {
		return false, false, err
	}
	m.source = archive.Wrap(m.source, archive.Options{})
	if moved, err = m.from.moved(ctx); err != nil {
		return false, false, err
	}
	m.target, complete, err = m.to.openTarget(ctx, m.from, moved)
	if errors.Is(err, errMovedElsewhere) {
		return false, false, cli.FileStateErrorf("%s: %w; to copy the ledgers again, undo that move, or move the ledgers from their current location", m.from, err)
	}
	return moved, complete, err
}

func (m *move) run(ctx context.Context) error {
	moved, complete, err := m.open(ctx)
	switch {
	case err != nil:
		return err
	case complete && !moved:
		return cli.FileStateErrorf("%s already has ledgers; name an empty target with --to", m.to)
	case complete:
		if err := m.to.arrive(ctx); err != nil {
			return err
		}
		m.console.PrintErrf("the ledgers have already been moved: nothing to do")
		return nil
	case moved:
		if err := sameLedgers(ctx, m.source, m.target); err != nil {
			return cli.FileStateErrorf("%s: %w: %w", m.from, errMovedElsewhere, err)
		}
	default:
		if err := m.from.hold(ctx, m.to); err != nil {
			return err
		}
		if err := m.copy(ctx); err != nil {
			if _, is := m.from.(*postgresPlace); is {
				m.console.PrintErrf("no server can start on %s until the move is complete; to cancel the move instead, run the command with --undo", m.from)
			}
			return err
		}
		if err := m.from.leave(ctx, m.to); err != nil {
			return err
		}
	}
	names, err := ledgerNames(ctx, m.source)
	if err != nil {
		return err
	}
	if err := moveTokens(m.from, m.to); err != nil {
		return err
	}
	if err := m.to.arrive(ctx); err != nil {
		return err
	}
	fmt.Fprintf(m.console.Out, "moved %s from %s to %s\n", strings.Join(names, ", "), m.from, m.to)
	m.from.advise(names)
	m.to.advise(names)
	return nil
}

// moveTokens replaces the tokens in to with the tokens in from, unless from has none. The caller
// must make sure that no server is using either place.
func moveTokens(from, to place) error {
	text, err := from.tokens().ExportTokens()
	if err == nil && text != nil {
		err = to.tokens().ReplaceTokens(text)
	}
	if err != nil {
		return fmt.Errorf("copying the tokens: %w", err)
	}
	return nil
}

func ledgerNames(ctx context.Context, database storage.Database) (names []string, err error) {
	infos, err := database.Ledgers(ctx)
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names, err
}

// copy copies all ledgers and verifies that the target is equal to the source.
func (m *move) copy(ctx context.Context) error {
	infos, err := m.source.Ledgers(ctx)
	if err != nil {
		return err
	}
	if err := m.checkNames(ctx, infos); err != nil {
		return err
	}
	if _, err := m.from.tokens().ExportTokens(); err != nil { // checked here so that a failure occurs before anything is copied
		return err
	}
	walked := make(map[string]*audit.Report)
	for _, info := range infos {
		report, err := m.copyLedger(ctx, info)
		if err != nil {
			return fmt.Errorf("copying ledger %q: %w", info.Name, err)
		}
		walked[info.Name] = report
	}
	if err := m.checkKeys(ctx, walked); err != nil {
		return err
	}
	if held, is := m.source.(interface{ CheckOwnership(context.Context) error }); is {
		if err := held.CheckOwnership(ctx); err != nil {
			return fmt.Errorf("a server has written to %s: stop that server and run the command again: %w", m.from, err)
		}
	}
	return sameLedgers(ctx, m.source, m.target)
}

// checkNames returns an error if the target has ledgers that the source does not have.
func (m *move) checkNames(ctx context.Context, infos []storage.LedgerInfo) error {
	stored, err := m.target.Ledgers(ctx)
	if err != nil {
		return err
	}
	for _, info := range stored {
		if !slices.ContainsFunc(infos, func(i storage.LedgerInfo) bool { return i.Name == info.Name && i.Origin == info.Origin }) {
			return fmt.Errorf("%w: %s has a ledger %q with the origin %q that the source does not have", errDiverged, m.to, info.Name, info.Origin)
		}
	}
	return nil
}

// copyLedger copies one ledger, and audits the copy.
func (m *move) copyLedger(ctx context.Context, info storage.LedgerInfo) (*audit.Report, error) {
	from, err := m.source.Ledger(ctx, info.Name)
	if err != nil {
		return nil, err
	}
	to, err := m.target.Ledger(ctx, info.Name)
	if errors.Is(err, storage.ErrNotFound) {
		unfrozen := info
		unfrozen.Frozen = false
		to, err = m.target.CreateLedger(ctx, unfrozen)
	}
	if err != nil {
		return nil, err
	}
	if err := copySettings(ctx, from, to); err != nil {
		return nil, err
	}
	head, err := from.Head(ctx)
	if err != nil {
		return nil, err
	}
	bar := cli.NewProgress(m.console, int64(head.Size), "copying "+info.Name)
	_, err = copyLedger(ctx, from, to, bar.Set)
	bar.Finish()
	if err != nil {
		return nil, err
	}
	if info.Frozen {
		if err := to.Freeze(ctx); err != nil && !errors.Is(err, storage.ErrFrozen) {
			return nil, err
		}
	}
	return m.audit(ctx, info, from, to, head)
}

// copySettings copies every setting that is set in the source.
func copySettings(ctx context.Context, from storage.Reader, to storage.Store) error {
	for _, name := range ledger.SettingNames() {
		value, err := from.Setting(ctx, name)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := to.SetSetting(ctx, name, value); err != nil {
			return err
		}
	}
	return nil
}

// audit verifies the whole copy with the keys from the source's log. It returns an error if the
// copy is damaged.
func (m *move) audit(ctx context.Context, info storage.LedgerInfo, from, to storage.Reader, head storage.Head) (*audit.Report, error) {
	keys, err := ledger.ReadKeyHistory(ctx, from)
	if err != nil || keys == nil {
		return &audit.Report{}, err
	}
	bar := cli.NewProgress(m.console, int64(head.Size), "checking the copy of "+info.Name)
	defer bar.Finish()
	report, err := audit.WalkLog(ctx, storeaudit.NewSource(to), audit.Options{
		Verifiers: keys.Verifiers(), Ledger: info.Name, Progress: func(done, _ uint64) { bar.Set(done) },
	})
	if err == nil && report.Damage != nil {
		err = fmt.Errorf("%w: auditing the copy: %w", storage.ErrDamaged, report.Damage)
	}
	return report, err
}

// checkKeys returns an error if the target contains a stored key that does not follow from the log
// of any ledger.
func (m *move) checkKeys(ctx context.Context, walked map[string]*audit.Report) error {
	bar := cli.NewProgress(m.console, -1, "checking the keys of the copy")
	defer bar.Finish()
	strays, err := storeaudit.FindStrayKeys(ctx, m.target, walked, bar.Set)
	if err == nil && len(strays) > 0 {
		err = fmt.Errorf("%w: checking the keys of the copy of ledger %q: %w", storage.ErrDamaged, strays[0].Ledger, strays[0])
	}
	return err
}

// sameLedgers returns an error unless both databases have the same ledgers with equal heads. If a
// database is open for writing, sameLedgers takes over its ledgers, so that no server can write to
// them.
func sameLedgers(ctx context.Context, a, b storage.Database) error {
	ofA, err := a.Ledgers(ctx)
	if err != nil {
		return err
	}
	ofB, err := b.Ledgers(ctx)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(ofA, ofB, func(a, b storage.LedgerInfo) bool {
		return a.Name == b.Name && a.Origin == b.Origin && a.Frozen == b.Frozen && a.RejectMismatch == b.RejectMismatch &&
			a.Created.Truncate(time.Microsecond).Equal(b.Created.Truncate(time.Microsecond))
	}) {
		return fmt.Errorf("%w: the source and the target do not have the same ledgers", errDiverged)
	}
	for _, info := range ofA {
		heads := [2]storage.Head{}
		for i, database := range []storage.Database{a, b} {
			store, err := database.Ledger(ctx, info.Name)
			if err == nil {
				heads[i], err = store.Head(ctx)
			}
			if err != nil {
				return fmt.Errorf("reading the head of ledger %q: %w", info.Name, err)
			}
		}
		if !sameHead(heads[0], heads[1]) {
			return fmt.Errorf("%w: ledger %q has different heads: %d entries in the source, %d in the target", errDiverged, info.Name, heads[0].Size, heads[1].Size)
		}
	}
	return nil
}

// undo makes the source usable again if nothing has been written to the target.
func (m *move) undo(ctx context.Context) (err error) {
	if m.source, err = m.from.openSource(ctx); err != nil {
		return err
	}
	m.source = archive.Wrap(m.source, archive.Options{})
	moved, err := m.from.moved(ctx)
	if err != nil {
		return err
	}
	if moved {
		if err := m.takeBack(ctx); err != nil {
			return err
		}
		if err := moveTokens(m.to, m.from); err != nil {
			return err
		}
	}
	if err := m.from.unleave(ctx); err != nil {
		return err
	}
	m.console.PrintErrf("the move was undone; servers can use %s again", m.from)
	return nil
}

// takeBack locks the target so that no server can use it. It returns an error if the target's
// ledgers differ from the source's.
func (m *move) takeBack(ctx context.Context) error {
	target, complete, err := m.to.openTarget(ctx, m.from, true)
	if errors.Is(err, errMovedElsewhere) {
		return cli.FileStateErrorf("%s: %w, not to %s", m.from, err, m.to)
	}
	if err != nil {
		return err
	}
	refused := func(err error) error {
		return cli.ExitErrorf(cli.ExitFailed, "the move cannot be undone: %w\nIf a server has written to %s since the move, move the ledgers back instead: run colophon migrate with --from and --to swapped", err, m.to)
	}
	if err := sameLedgers(ctx, m.source, target); err != nil {
		return refused(err)
	}
	if !complete {
		return nil
	}
	if target, err = m.to.unarrive(ctx, m.from); err != nil {
		return err
	}
	if err := sameLedgers(ctx, m.source, target); err != nil { // a server has written in the meantime
		return errors.Join(refused(err), m.to.arrive(ctx))
	}
	return nil
}

// advise tells the user about the old copy in the folder or, if there is none, about missing
// signing keys.
func (f *folder) advise(names []string) {
	if exists(datadir.MovedDatabaseFolder(f.data)) {
		f.console.PrintErrf("%s contains the old copy. Content that is erased from now on remains in that folder; remove the folder once you have a backup of the database", datadir.MovedDatabaseFolder(f.data))
		f.console.PrintErrf("keys, marks, and the index stay in the folder, and the tokens are in the database; start the server with --data %s and --store", f.data)
		return
	}
	keys := datadir.SigningKeys(f.console, f.data)
	for _, name := range names {
		if _, err := keys.Load(name); errors.Is(err, storage.ErrNotFound) {
			f.console.PrintErrf("%s has no signing key for ledger %q: copy the keys and marks from the data folder of the server that used the database", f.data, name)
		}
	}
}

// advise tells the user which old copy remains in the database.
func (p *postgresPlace) advise([]string) {
	if m, err := p.database.MigrationLock(context.Background()); err == nil && m.State != "" {
		p.console.PrintErrf("the colophon_… tables of %s contain the old copy. Content that is erased from now on remains in these tables; drop them once you have a backup of the folder", p)
	}
}
