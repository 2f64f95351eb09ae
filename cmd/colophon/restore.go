package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/proofs"
	"colophon/storage"
)

// restoreOptions is the command line of restore.
type restoreOptions struct {
	from, backup, data string
	seen               []string
	newest             bool
	keys               []string // verifier keys that are trusted, or files with them
	unauthenticated    bool
	tokens             bool
}

func newRestore(c *cli.Console) *cobra.Command {
	var o restoreOptions
	command := &cobra.Command{
		Use:   "restore --from FOLDER",
		Short: "Make a data folder from a backup",
		Long: `Make a data folder from the newest backup in a folder, or the one that is named. Every
file is verified, and head, tree and signature of every ledger. The data folder must be
empty, but for its marks and keys.

A ledger must not go on from a copy that is older than what it has signed: receipts would
contradict each other, and whoever has one of each can prove it. So restore wants to know
what was signed last:
  the marks of the old data folder: leave the folder "marks" where it is, or copy it there
  --seen FILE      the newest checkpoint that anybody has: an auditor, a witness, a copy
                   of GET …/log/checkpoint. Give it once for each ledger
  --newest         you are sure that nothing was signed after the backup was made

If more was signed than the backup holds, it is restored all the same, and what is in it
can be read and verified; the server then takes no writes to that ledger. Go on with a
newer copy, or with a new ledger:
  colophon ledger create NAME
  colophon ledger freeze OLD

A backup is signed by its ledgers' keys. Restore accepts it by keys that you have from
elsewhere: verifier keys (--key), or the signing keys, which you copy to the folder
"keys" of the data folder first or give in variables. Whoever can change a backup can
put tokens and texts of their own into it, so one that is not authenticated is refused,
unless --unauthenticated says that nobody else could change it.

Tokens are not restored: those that were revoked after the backup would be valid again.
Until you make a new one (colophon token create) no token is accepted. --with-tokens
restores them as they were; revoke again what was revoked since.

Keys that are not in the backup have to be copied to the folder "keys".

Exit codes: 0 it is restored, 1 it is not, or the backup is damaged or not authentic, 2 bad
arguments, no trusted key, or a folder that is not empty, 4 another restore into it is
under way, 5 it is restored, and an older copy of a ledger than the newest.`,
		Example: `  colophon restore --from /backup/colophon --data ./data --key verifier.key --seen checkpoint.txt`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return restore(command.Context(), c, o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.from, "from", "", "`folder` of the backups")
	flags.StringVar(&o.backup, "backup", "", "`name` of the backup; default the newest")
	flags.StringVar(&o.data, "data", c.Environment("COLOPHON_DATA", "data"), "`folder` to make, or COLOPHON_DATA")
	flags.StringArrayVar(&o.seen, "seen", nil, "`file` with the newest checkpoint of a ledger that anybody has seen")
	flags.BoolVar(&o.newest, "newest", false, "nothing was signed after the backup was made")
	flags.StringArrayVar(&o.keys, "key", nil, "verifier `key` that you trust, or a file with keys; give keys for every ledger")
	flags.BoolVar(&o.unauthenticated, "unauthenticated", false, "take the backup as it is: nobody else could change it")
	flags.BoolVar(&o.tokens, "with-tokens", false, "restore the tokens too, those that were revoked since included")
	return command
}

func restore(ctx context.Context, c *cli.Console, o restoreOptions) (err error) {
	if o.from == "" {
		return cli.Exitf(cli.ExitUsage, "--from is missing: name the folder of the backups")
	}
	if o.tokens && o.unauthenticated {
		return cli.Exitf(cli.ExitUsage, "--with-tokens: tokens of a backup that is not authenticated are never restored; make new ones")
	}
	store := backupStore{o.from}
	var given []*proofs.Verifier
	if !o.unauthenticated {
		if given, err = o.givenKeys(c); err != nil {
			return err
		}
	}
	m, err := o.choose(c, store, given)
	if err != nil {
		return err
	}
	if err := checkEmpty(o.data); err != nil {
		return err
	}
	if err := datadir.Check(o.data); err != nil {
		return err
	}
	if err := o.checkAuthentic(c, m, given); err != nil {
		return err
	}
	seen, err := o.readSeen(c, m)
	if err != nil {
		return err
	}
	if err := o.checkKnown(m, seen); err != nil {
		return err
	}
	release, err := o.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := checkEmpty(o.data); err != nil { // again: another restore may just have ended
		return err
	}
	if err := o.restoreFiles(ctx, c, store, m); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return cli.Exitf(cli.ExitFailed, "%w\nNothing is restored. Make room on the file system of %s, and run restore again", err, o.data)
		}
		return err
	}
	older, err := verifyRestored(ctx, c, o, m, seen)
	if err != nil {
		return err
	}
	if err := placeRestored(o.data); err != nil {
		return err
	}
	return o.report(c, m, older)
}

// lock keeps other restores out of the data folder until release is called, which removes
// what is not in its place.
func (o restoreOptions) lock() (release func() error, err error) {
	dir := datadir.Restoring(o.data)
	_, missing := os.Stat(o.data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := folderlock.Take(dir)
	if errors.Is(err, storage.ErrInUse) {
		return nil, cli.Exitf(cli.ExitInUse, "another restore into %s is under way", o.data)
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		err := errors.Join(os.RemoveAll(dir), lock.Close())
		if missing != nil {
			_ = os.Remove(o.data) // unless there is something in it
		}
		return err
	}, nil
}

// report says what was restored, and what of it is older than what was signed.
func (o restoreOptions) report(c *cli.Console, m *manifest, older []string) error {
	fmt.Fprintf(c.Out, "restored the backup of %s\n", m.Made.Format("2006-01-02 15:04:05 MST"))
	for _, l := range m.Ledgers {
		fmt.Fprintf(c.Out, "  %s\n", l)
	}
	switch {
	case o.tokens && m.hasTokens():
		c.Say("the tokens are those of the backup: revoke again what was revoked since")
	case o.closes(m):
		c.Say("no token was restored, and requests need one: make one with colophon token create --data %s", o.data)
	}
	for _, message := range older {
		c.Say("%s", message)
	}
	if len(older) > 0 {
		return cli.Exitf(cli.ExitDamaged, "a server on this folder takes no writes to that ledger: restore a newer copy, or go on with a new ledger (colophon restore --help)")
	}
	if missing := missingKeys(c, o.data, m); len(missing) > 0 {
		c.Say("copy the signing keys of %s to %s before you start the server", strings.Join(missing, ", "), datadir.Keys(o.data).Dir)
	}
	return nil
}

// choose reads the manifest of the backup to restore.
func (o restoreOptions) choose(c *cli.Console, store backupStore, given []*proofs.Verifier) (*manifest, error) {
	names, err := store.names()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, cli.Exitf(cli.ExitUsage, "there is no backup in %s", o.from)
	}
	if o.backup != "" {
		name := strings.TrimSuffix(o.backup, ".json")
		if !slices.Contains(names, name) {
			return nil, cli.Exitf(cli.ExitUsage, "there is no backup %q in %s; there are %s", o.backup, o.from, strings.Join(names, ", "))
		}
		return store.read(name)
	}
	counted, ignored, err := store.counted(time.Now(), func(m *manifest) bool {
		kept, err := keptKeys(c, o.data, m)
		return err == nil && !o.unauthenticated && m.authenticate(append(kept, given...)) == nil
	})
	if err != nil {
		return nil, err
	}
	store.sayIgnored(c, ignored)
	if len(counted) == 0 {
		return nil, cli.Exitf(cli.ExitUsage, "no backup in %s counts as the newest: set this machine's clock, or name one with --backup", o.from)
	}
	return store.read(counted[len(counted)-1])
}

// checkEmpty refuses a data folder with anything in it but what outlives a restore.
func checkEmpty(data string) error {
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch entry.Name() {
		case "marks", "keys", filepath.Base(datadir.Restoring(data)):
		default:
			return cli.Refused("%s is not empty (there is %q): restore into another folder, or move away what is there, all but marks and keys", data, entry.Name())
		}
	}
	return nil
}

// missingKeys are the ledgers whose keys are neither in the data folder nor in variables.
func missingKeys(c *cli.Console, data string, m *manifest) (names []string) {
	keys := datadir.SigningKeys(c, data)
	for _, l := range m.Ledgers {
		_, err := keys.Load(l.Name)
		if errors.Is(err, storage.ErrNotFound) {
			_, err = keys.Staged(l.Name)
		}
		if errors.Is(err, storage.ErrNotFound) {
			names = append(names, l.Name)
		}
	}
	return names
}
