package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colophon/internal/archive"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/ledger/storeaudit"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
	"colophon/storage/pebble"
	"colophon/storage/postgres"
)

// fsckOptions holds the flags of the fsck command.
type fsckOptions struct {
	data   string
	store  string // URL of the PostgreSQL database that holds the log; "" means the data folder
	ledger string // name of the ledger to check; "" means all ledgers
	key    string // value of --key; "" means the key file of each ledger
	json   bool
}

func newFsck(c *cli.Console) *cobra.Command {
	var o fsckOptions
	var url storeFlag
	command := &cobra.Command{
		Use:   "fsck",
		Short: "Check all data in a data folder",
		Long: `Check every ledger of a data folder from its first event to its last. fsck checks the
entries and their chain, the hash tiles, the signed root, content and its reference
counts, the absence of erased content, and the idempotency keys. It also compares each
ledger with its high-water mark: the ledger must hold everything that it has signed. Then
fsck reads every key of the database, and each must follow from the log of a ledger. This
finds erased bytes that were put back, content that no record needs, entries beyond the
head, and idempotency keys without an event. The report names the first damage of each
ledger and its position.

fsck writes nothing. If an erasure is pending, the next start of the server finishes it.
The log does not say whether a ledger is frozen, how it treats mismatches, when it was
created, and whether its log is public, so fsck cannot check this. The memory that fsck
needs does not grow with the ledger.

Stop the server before you run fsck. With --store, fsck checks the log in a PostgreSQL
database, with the keys and marks from the data folder; stop all servers on the database,
except those with --read-only on another folder.

Exit codes: 0 no damage was found, 1 something is damaged, cannot be read, or is older
than the folder's keys or marks, 2 bad arguments or no such folder, 4 another process
uses the folder, or a server the database.`,
		Example: `  colophon fsck --data ./data
  colophon fsck --data ./backup --ledger generations --key verifier.key --json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.store = url.value(c, command)
			return fsck(command.Context(), c, o)
		},
	}
	command.Flags().StringVar(&o.data, "data", c.EnvOr("COLOPHON_DATA", "data"), "`folder` with the database and keys, or COLOPHON_DATA")
	url.bind(command.Flags(), "log")
	command.Flags().StringVar(&o.ledger, "ledger", "", "`name` of the ledger to check; the default is all ledgers")
	command.Flags().StringVar(&o.key, "key", "", "verifier `key`, or a file with verifier keys; default from the folder's keys")
	command.Flags().BoolVar(&o.json, "json", false, "print the findings as JSON")
	return command
}

func fsck(ctx context.Context, c *cli.Console, o fsckOptions) error {
	findings, err := checkData(ctx, c, o)
	if errors.Is(err, storage.ErrDamaged) {
		return reportFindings(c, o, findings, unreadable(err))
	}
	if err != nil {
		return err
	}
	return reportFindings(c, o, findings, nil)
}

// checkData checks the ledgers in a data folder. It returns an error that wraps storage.ErrDamaged
// if the damage affects the folder as a whole.
func checkData(ctx context.Context, c *cli.Console, o fsckOptions) ([]finding, error) {
	if o.store != "" {
		return checkStore(ctx, c, o)
	}
	database, err := datadir.OpenWithConfig(ctx, c, o.data, pebble.Config{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	findings, err := checkLedgers(ctx, c, o, archive.Wrap(database, archive.Options{}))
	if err == nil {
		err = notePending(ctx, c, database)
	}
	return findings, errors.Join(err, database.Close())
}

// checkStore checks the ledgers of a PostgreSQL database, with the keys from the data folder.
func checkStore(ctx context.Context, c *cli.Console, o fsckOptions) ([]finding, error) {
	database, err := openDatabase(ctx, c, o.data, o.store, true)
	if err != nil {
		return nil, err
	}
	var findings []finding
	if err = refuseRunningServers(ctx, c, o.store); err == nil {
		findings, err = checkLedgers(ctx, c, o, database)
	}
	return findings, errors.Join(err, database.Close())
}

// refuseRunningServers returns an error if servers that can write use a PostgreSQL database. fsck
// would mistake what they write during its walk for damage.
func refuseRunningServers(ctx context.Context, c *cli.Console, url string) error {
	// Only a server's database has leases. It plans its queries for a server, so fsck does not walk
	// the ledgers with it.
	database, err := postgres.Open(ctx, postgres.Config{URL: url, Logger: c.WarningLogger(), ReadOnly: true, LedgerServer: &postgres.LedgerServer{}})
	if err != nil {
		return err
	}
	servers, err := database.Leases().Servers(ctx)
	if err = errors.Join(err, database.Close()); err != nil || len(servers) == 0 {
		return err
	}
	var names []string
	for _, s := range servers {
		names = append(names, cmp.Or(s.Address, "ID "+s.ID))
	}
	return cli.ExitErrorf(cli.ExitInUse, "servers use the database: %s; stop them. A server that was killed counts as running for %s",
		strings.Join(names, ", "), postgres.LeaseDuration)
}

// notePending warns if files of the database might still contain erased content.
func notePending(ctx context.Context, c *cli.Console, database *pebble.Database) error {
	pending, err := database.PendingErasures(ctx)
	if err == nil && pending.Count > 0 {
		c.PrintErrf("the database files may still contain %s of erased content, which the server removes at its next start",
			cli.FormatCount(uint64(pending.Count), "piece"))
	}
	return err
}

// finding is what fsck found in one ledger.
type finding struct {
	Ledger   string  `json:"ledger"`
	Events   uint64  `json:"events"`
	Contents uint64  `json:"contents"`
	Redacted uint64  `json:"redacted"`
	Keys     uint64  `json:"keys"`
	Damage   *damage `json:"damage"`
}

// kindStorage is the kind of damage that prevents fsck from reading a ledger or the list of
// ledgers. For damage that audit.WalkLog finds, the kind is one of those in package audit.
const kindStorage = "storage"

// damage describes the first damage found in a ledger or in the folder as a whole.
type damage struct {
	Kind    string `json:"kind"`
	Seq     uint64 `json:"seq"`
	Tile    string `json:"tile,omitempty"`
	Content string `json:"content,omitempty"`
	Message string `json:"message"`
	text    string // the kind, position, and message in one string
}

// unreadable describes an error from the storage as damage.
func unreadable(err error) *damage {
	if stray := (*storage.StrayKeyError)(nil); errors.As(err, &stray) {
		return strayDamage(stray)
	}
	message := err.Error() + "; restore the folder from a backup"
	return &damage{Kind: kindStorage, Message: message, text: kindStorage + ": " + message}
}

func checkLedgers(ctx context.Context, c *cli.Console, o fsckOptions, database storage.Database) ([]finding, error) {
	infos, err := database.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	if err := keysWithoutLedger(o.data, infos); err != nil {
		return nil, err
	}
	var findings []finding
	walked := make(map[string]*audit.Report)
	for _, info := range infos {
		if o.ledger != "" && info.Name != o.ledger {
			continue
		}
		found, report, err := checkLedger(ctx, c, o, database, infos, info)
		if ctx.Err() != nil {
			return nil, cli.ExitErrorf(cli.ExitFailed, "interrupted while checking ledger %q", info.Name)
		}
		if errors.Is(err, storage.ErrDamaged) {
			found, err = finding{Ledger: info.Name, Damage: unreadable(err)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("checking ledger %q: %w", info.Name, err)
		}
		findings = append(findings, found)
		if report != nil {
			walked[info.Name] = report
		}
	}
	switch {
	case findings != nil:
	case o.ledger != "":
		return nil, cli.ExitErrorf(cli.ExitUsage, "ledger %q does not exist in %s; specify an existing ledger with --ledger", o.ledger, o.data)
	default:
		return nil, cli.ExitErrorf(cli.ExitUsage, "%s has no ledgers; specify the data folder with --data", o.data)
	}
	return checkEveryKey(ctx, c, database, findings, walked)
}

// checkEveryKey reads every key of the database. If the log of a ledger does not account for one of
// the ledger's keys, checkEveryKey records the damage in the ledger's finding, unless the finding
// already contains damage. If a key belongs to no ledger, the error wraps storage.ErrDamaged.
// walked maps the name of each ledger to the report on its log.
func checkEveryKey(ctx context.Context, c *cli.Console, database storage.Database, findings []finding, walked map[string]*audit.Report) ([]finding, error) {
	var expected uint64
	for _, report := range walked {
		expected += report.Size + 2*report.UnredactedContentCount + report.KeyClaims
	}
	bar := cli.NewProgress(c, int64(expected), "checking keys")
	strays, err := storeaudit.FindStrayKeys(ctx, database, walked, func(n uint64) { bar.Set(min(n, expected)) })
	bar.Finish()
	if ctx.Err() != nil {
		return nil, cli.ExitErrorf(cli.ExitFailed, "interrupted while checking the keys of the database")
	}
	if err != nil {
		return findings, err
	}
	for _, s := range strays {
		if s.Ledger == "" {
			err = fmt.Errorf("%w: %w", storage.ErrDamaged, s)
			continue
		}
		i := slices.IndexFunc(findings, func(f finding) bool { return f.Ledger == s.Ledger })
		if findings[i].Damage == nil {
			findings[i].Damage = strayDamage(s)
		}
	}
	return findings, err
}

// strayDamage describes a stray key as damage.
func strayDamage(s *storage.StrayKeyError) *damage {
	message := s.Message + "; copy the folder as it is, and restore it from a backup"
	position := fmt.Sprintf("at entry %d: ", s.Seq)
	switch {
	case s.Ledger == "":
		position = ""
	case s.Kind == storage.StrayOther || s.Kind == storage.StrayTile: // for these kinds, Seq is the ledger's size
		position = fmt.Sprintf("at size %d: ", s.Seq)
	}
	return &damage{Kind: string(s.Kind), Seq: s.Seq, Message: message, text: string(s.Kind) + ": " + position + message}
}

// keysWithoutLedger returns an error if there is a signing key for a ledger that does not exist.
func keysWithoutLedger(data string, infos []storage.LedgerInfo) error {
	const suffix = ".key"
	files, err := filepath.Glob(filepath.Join(datadir.KeyFiles(data).Dir, "*"+suffix))
	if err != nil {
		return err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), suffix)
		if !slices.ContainsFunc(infos, func(info storage.LedgerInfo) bool { return info.Name == name }) {
			return cli.ExitErrorf(cli.ExitFailed, "ledger %q is missing, but its signing key %s exists; restore the folder from a backup", name, file)
		}
	}
	return nil
}

// checkLedger checks one ledger. The report is nil if the log is damaged.
func checkLedger(
	ctx context.Context, c *cli.Console, o fsckOptions, database storage.Database, infos []storage.LedgerInfo, info storage.LedgerInfo,
) (finding, *audit.Report, error) {
	trusted, err := ledgerKeys(c, o, infos, info)
	if err != nil {
		return finding{}, nil, err
	}
	store, err := database.Ledger(ctx, info.Name)
	if err != nil {
		return finding{}, nil, err
	}
	trusted, successors, older, err := keysOf(ctx, o, store, info, trusted)
	if err != nil {
		return finding{}, nil, err
	}
	head, err := store.Head(ctx)
	if err != nil {
		return finding{}, nil, err
	}
	bar := cli.NewProgress(c, int64(head.Size), "checking "+info.Name)
	defer bar.Finish()
	report, err := audit.WalkLog(ctx, storeaudit.NewSource(store), audit.Options{
		Verifiers: trusted, Successors: successors,
		Ledger:   info.Name,
		Progress: func(done, _ uint64) { bar.Set(done) },
	})
	if err != nil {
		return finding{}, nil, err
	}
	if origin := report.Checkpoint.Origin; report.Damage == nil && origin != info.Origin && head.Size > 0 {
		report.Damage = &audit.Damage{Kind: audit.DamageKindHead, Seq: head.Size,
			Message: fmt.Sprintf("the ledger's description has the origin %q, but its checkpoint has %q", info.Origin, origin)}
	}
	if report.Damage == nil && head.Size > 0 {
		if report.Damage, err = checkSignatureCount(ctx, store, head); err != nil {
			return finding{}, nil, err
		}
	}
	found := finding{Ledger: info.Name, Events: report.Size, Contents: report.ContentCount, Redacted: report.RedactedContentCount, Keys: report.KeyUses}
	d := report.Damage
	if d != nil {
		report = nil
	} else if d = older; d == nil {
		if d, err = datadir.CheckHighWaterMark(ctx, o.data, info.Name, store, slices.Concat(trusted, successors)); err != nil {
			return finding{}, nil, err
		}
	}
	if d != nil {
		found.Damage = &damage{string(d.Kind), d.Seq, d.TilePath, d.Name, d.Message, d.Error()}
	}
	return found, report, nil
}

// keysOf returns the keys that verify a stored ledger: the trusted keys and their successors. If
// the key in the data folder is newer than the database, keysOf reports the damage in older, and
// trusted holds the keys in the log instead of the given ones. Otherwise, older is nil.
func keysOf(
	ctx context.Context, o fsckOptions, store storage.Reader, info storage.LedgerInfo, given []*proofs.Verifier,
) (trusted, successors []*proofs.Verifier, older *audit.Damage, err error) {
	history, err := ledger.ReadKeyHistory(ctx, store)
	if err != nil && !errors.Is(err, ledger.ErrDamaged) {
		return nil, nil, nil, err
	}
	switch {
	case err != nil || history == nil:
		return given, nil, nil, nil // audit.WalkLog reports the damage
	case slices.ContainsFunc(given, history.Contains):
		return given, history.Verifiers(), nil, nil
	case o.key != "" || history.CurrentKey().Name() != given[0].Name():
		return given, nil, nil, nil // audit.WalkLog reports the wrong key
	}
	head, err := store.Head(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	signed := ""
	if mark, err := datadir.HighWaterMarkFiles(o.data).Mark(info.Name); err == nil {
		if seen, err := proofs.OpenCheckpoint(mark, given...); err == nil {
			signed = fmt.Sprintf(" According to the high-water mark, the signing key signed a checkpoint of %d events.", seen.Size)
		}
	}
	return history.Verifiers(), nil, &audit.Damage{Kind: audit.DamageKindRollback, Seq: head.Size, Message: fmt.Sprintf(
		"the log does not contain the signing key in %s. The database is older than the ledger's last key change, or belongs to a different ledger.%s "+
			"The log verifies with its own current key, %s. Restore a newer backup, or check this log with --key and a key that you trust",
		datadir.KeyFiles(o.data).Path(info.Name), signed, history.CurrentKey())}, nil
}

// ledgerKeys returns the trusted keys of a ledger: the keys in --key that are named after the
// ledger's origin or, without --key, the key in the data folder. If no key in --key is named after
// the origin of any ledger, all the keys apply to every ledger.
func ledgerKeys(c *cli.Console, o fsckOptions, infos []storage.LedgerInfo, info storage.LedgerInfo) ([]*proofs.Verifier, error) {
	if o.key != "" {
		given, err := c.ReadCurrentKeys(o.key)
		if err != nil {
			return nil, err
		}
		own := slices.DeleteFunc(slices.Clone(given), func(v *proofs.Verifier) bool { return v.Name() != info.Origin })
		others := slices.ContainsFunc(given, func(v *proofs.Verifier) bool {
			return slices.ContainsFunc(infos, func(i storage.LedgerInfo) bool { return i.Origin == v.Name() })
		})
		switch {
		case len(own) > 0:
			return own, nil
		case !others:
			return given, nil
		}
	}
	signer, err := datadir.SigningKeys(c, o.data).Load(info.Name)
	if err != nil {
		return nil, cli.ExitErrorf(cli.ExitUsage, "reading the signing key of ledger %q: %w\nSpecify its verifier key with --key", info.Name, err)
	}
	return []*proofs.Verifier{signer.Verifier()}, nil
}

// reportFindings prints the finding for each ledger and the damage to the folder as a whole. folder
// is nil if the folder can be read. reportFindings returns an error with the exit code, or nil if
// nothing is damaged.
func reportFindings(c *cli.Console, o fsckOptions, findings []finding, folder *damage) error {
	clean := folder == nil && !slices.ContainsFunc(findings, func(f finding) bool { return f.Damage != nil })
	if o.json {
		report := struct {
			Clean   bool      `json:"clean"`
			Ledgers []finding `json:"ledgers"`
			Damage  *damage   `json:"damage,omitempty"` // damage to the folder as a whole
		}{clean, append([]finding{}, findings...), folder}
		if err := cli.PrintAsJSON(c, report); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			if _, err := fmt.Fprintln(c.Out, f); err != nil {
				return err
			}
		}
		if folder != nil {
			if _, err := fmt.Fprintf(c.Out, "%s: DAMAGED: %s\n  what now  %s\n", o.data, folder.text, fsckWhatNow(folder.Kind)); err != nil {
				return err
			}
		}
	}
	if !clean {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

func (f finding) String() string {
	if f.Damage != nil {
		return fmt.Sprintf("%s: DAMAGED: %s\n  what now  %s", f.Ledger, f.Damage.text, fsckWhatNow(f.Damage.Kind))
	}
	return fmt.Sprintf("%s: clean: %s, %d pieces of content, %d idempotency keys, %d redacted pieces", f.Ledger,
		cli.FormatCount(f.Events, "event"), f.Contents, f.Keys, f.Redacted)
}

// checkSignatureCount returns damage if the checkpoint of a stored head does not have exactly one
// signature for each key that must sign at its tree size. The caller must already have verified the
// signatures of these keys.
func checkSignatureCount(ctx context.Context, store storage.Reader, head storage.Head) (*audit.Damage, error) {
	history, err := ledger.ReadKeyHistory(ctx, store)
	if err != nil {
		return nil, err
	}
	_, signatures, _ := bytes.Cut(head.Checkpoint, []byte("\n\n"))
	if got, want := bytes.Count(signatures, []byte("\n")), len(history.SigningKeysAt(head.Size)); got != want {
		return &audit.Damage{Kind: audit.DamageKindSignature, Seq: head.Size, Message: fmt.Sprintf("the stored checkpoint has %d signatures, but it must have %d at this size", got, want)}, nil
	}
	return nil, nil
}
