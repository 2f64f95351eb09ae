package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/pebble"
)

// seenCheckpoint is a checkpoint from --seen. Only its first line, the origin, has been checked.
type seenCheckpoint struct {
	ledger, file string
	text         []byte
}

func (o RestoreOptions) readSeen(c *cli.Console, m *Manifest) (list []seenCheckpoint, err error) {
	for _, file := range o.SeenCheckpointFiles {
		text, err := c.ReadFile(file)
		if err != nil {
			return nil, err
		}
		origin, _, _ := strings.Cut(string(text), "\n")
		i := slices.IndexFunc(m.Ledgers, func(l Ledger) bool { return l.Origin == origin })
		if i < 0 {
			return nil, cli.ExitErrorf(cli.ExitUsage, "--seen: %s is not a checkpoint of a ledger in the backup", file)
		}
		list = append(list, seenCheckpoint{m.Ledgers[i].Name, file, text})
	}
	return list, nil
}

// checkKnown returns an error if restore cannot know how much a ledger has already signed. This is the
// case if --newest is not set and the ledger has neither a high-water mark nor a checkpoint in seen.
func (o RestoreOptions) checkKnown(m *Manifest, seen []seenCheckpoint) error {
	marks := datadir.HighWaterMarkFiles(o.DataFolder)
	for _, l := range m.Ledgers {
		_, err := marks.Mark(l.Name)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		known := err == nil || o.AssumeNewestBackup || slices.ContainsFunc(seen, func(s seenCheckpoint) bool { return s.ledger == l.Name })
		if !known {
			return cli.ExitErrorf(cli.ExitUsage, "ledger %q may have signed more than the %s in the backup; copy the marks of the old data folder to %s, "+
				"give the newest known checkpoint with --seen, or use --newest if you are sure that nothing was signed after the backup was made", l.Name, cli.FormatCount(l.TreeSize, "event"), marks.Dir)
		}
	}
	return nil
}

// verifyRestored verifies the restored files before they are moved into place, and raises the high-water marks
// to the checkpoints in seen. It replaces the ledgers in the manifest with those found in the restored
// database, which must match them. older contains a message for each ledger that has signed more than the
// backup contains.
func verifyRestored(ctx context.Context, c *cli.Console, o RestoreOptions, m *Manifest, seen []seenCheckpoint) (older []string, err error) {
	dir := datadir.DatabaseFolder(datadir.RestoreFolder(o.DataFolder))
	database, err := pebble.Open(ctx, pebble.Config{Dir: dir, Logger: c.WarningLogger()})
	if err != nil {
		return nil, fmt.Errorf("verifying the restored files: %w", err)
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	list, err := InspectLedgers(ctx, database)
	if err != nil {
		return nil, fmt.Errorf("verifying the restored files: %w", err)
	}
	if !slices.EqualFunc(list, m.Ledgers, Ledger.same) {
		return nil, cli.ExitErrorf(cli.ExitFailed, "the backup is damaged: its ledgers differ from its manifest; restore another backup")
	}
	m.Ledgers = list
	for _, l := range list {
		message, err := checkOlder(ctx, o.DataFolder, l.Name, database, seen)
		if err != nil {
			return nil, err
		}
		if message != "" {
			older = append(older, l.Name+": "+message)
		}
	}
	return older, nil
}

// checkOlder raises a ledger's high-water mark to the highest checkpoint of that ledger in seen. It returns a
// message if the database does not contain everything that the mark covers, and "" otherwise.
func checkOlder(ctx context.Context, data, name string, database *pebble.Database, seen []seenCheckpoint) (string, error) {
	store, err := database.Ledger(ctx, name)
	if err != nil {
		return "", err
	}
	history, err := ledger.ReadKeyHistory(ctx, store)
	if err != nil {
		return "", err
	}
	var keys []*proofs.Verifier
	if history != nil { // a ledger without events has no key history
		keys = history.Verifiers()
	}
	for _, s := range seen {
		if s.ledger != name {
			continue
		}
		if err := raiseMark(datadir.HighWaterMarkFiles(data), s, keys); err != nil {
			return "", err
		}
	}
	damage, err := datadir.CheckHighWaterMark(ctx, data, name, store, keys)
	if err != nil || damage == nil {
		return "", err
	}
	return damage.Message, nil
}

// raiseMark sets a ledger's high-water mark to a checkpoint that was signed with one of the keys. It keeps
// an existing mark that is at least as high. It also keeps a mark that cannot be verified with the keys,
// because such a mark could be higher. A ledger with an unverifiable mark accepts no writes.
func raiseMark(marks keystore.HighWaterMarkFiles, s seenCheckpoint, keys []*proofs.Verifier) error {
	seen, err := proofs.OpenCheckpoint(s.text, keys...)
	if errors.Is(err, proofs.ErrWrongKey) {
		return cli.ExitErrorf(cli.ExitUsage, "--seen: %s: %w\nThe ledger in the backup does not have the key that signed the checkpoint: the key is newer than the backup, or belongs to a different ledger. Restore a newer backup. "+
			"To restore this backup only for reading, copy the checkpoint to %s, and omit --seen", s.file, err, marks.Path(s.ledger))
	}
	if err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "--seen: %s: %w", s.file, err)
	}
	mark, err := marks.Mark(s.ledger)
	if errors.Is(err, storage.ErrNotFound) {
		return marks.SetMark(s.ledger, s.text)
	}
	if err != nil {
		return err
	}
	if known, err := proofs.OpenCheckpoint(mark, keys...); err != nil || known.Size >= seen.Size {
		return nil
	}
	return marks.SetMark(s.ledger, s.text)
}
