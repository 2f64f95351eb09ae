package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/pebble"
)

// restoreOptions is the command line of restore.
type restoreOptions struct {
	from, backup, data string
	seen               []string
	newest             bool
}

func newRestore(c *console) *cobra.Command {
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

Keys that are not in the backup have to be copied to the folder "keys".

Exit codes: 0 it is restored, 1 it is not, or the backup is damaged, 2 bad arguments, or
a folder that is not empty, 5 it is restored, and an older copy of a ledger than the newest.`,
		Example: `  colophon restore --from /backup/colophon --data ./data --seen checkpoint.txt`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return restore(command.Context(), c, o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.from, "from", "", "`folder` of the backups")
	flags.StringVar(&o.backup, "backup", "", "`name` of the backup; default the newest")
	flags.StringVar(&o.data, "data", c.environment("COLOPHON_DATA", "data"), "`folder` to make, or COLOPHON_DATA")
	flags.StringSliceVar(&o.seen, "seen", nil, "`file` with the newest checkpoint of a ledger that anybody has seen")
	flags.BoolVar(&o.newest, "newest", false, "nothing was signed after the backup was made")
	return command
}

// restoring is where a restore puts the database until all of it is there.
func restoring(data string) string { return filepath.Join(data, "db.restoring") }

func restore(ctx context.Context, c *console, o restoreOptions) error {
	if o.from == "" {
		return exitf(exitUsage, "--from is missing: name the folder of the backups")
	}
	store := backupStore{o.from}
	m, err := o.choose(store)
	if err != nil {
		return err
	}
	if err := checkEmpty(o.data); err != nil {
		return err
	}
	if err := o.checkSeen(c, m); err != nil {
		return err
	}
	if err := restoreFiles(ctx, c, store, m, o.data); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "restored the backup of %s\n", m.Made.Format("2006-01-02 15:04:05 MST"))
	if err := reportRestored(ctx, c, o, m); err != nil {
		return err
	}
	if missing := missingKeys(c, o.data, m); len(missing) > 0 {
		c.say("copy the signing keys of %s to %s before you start the server", strings.Join(missing, ", "), keyFiles(o.data).Dir)
	}
	return nil
}

// choose reads the manifest of the backup to restore.
func (o restoreOptions) choose(store backupStore) (*manifest, error) {
	names, err := store.names()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, exitf(exitUsage, "there is no backup in %s", o.from)
	}
	name := names[len(names)-1]
	if o.backup != "" {
		if name = strings.TrimSuffix(o.backup, ".json"); !slices.Contains(names, name) {
			return nil, exitf(exitUsage, "there is no backup %q in %s; there are %s", o.backup, o.from, strings.Join(names, ", "))
		}
	}
	return store.read(name)
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
		case "marks", "keys", filepath.Base(restoring(data)):
		default:
			return refused("%s is not empty (there is %q): restore into another folder, or move away what is there, all but marks and keys", data, entry.Name())
		}
	}
	return nil
}

// checkSeen keeps the newest checkpoints that are given as marks, and refuses to restore
// where nothing says what was signed last.
func (o restoreOptions) checkSeen(c *console, m *manifest) error {
	marks := markFiles(o.data)
	for _, file := range o.seen {
		text, err := c.readFile(file)
		if err != nil {
			return err
		}
		origin, _, _ := strings.Cut(string(text), "\n")
		i := slices.IndexFunc(m.Ledgers, func(l ledgerState) bool { return l.Origin == origin })
		if i < 0 {
			return exitf(exitUsage, "--seen: %s is no checkpoint of a ledger in the backup", file)
		}
		if err := raiseMark(marks, m.Ledgers[i], text, file); err != nil {
			return err
		}
	}
	for _, l := range m.Ledgers {
		if _, err := marks.Mark(l.Name); errors.Is(err, storage.ErrNotFound) && !o.newest {
			return exitf(exitUsage, "nothing says whether ledger %q has signed more than the %s of the backup: copy the old folder's marks to %s, "+
				"give the newest checkpoint that anybody has with --seen, or say --newest if you are sure", l.Name, counted(l.Size, "event"), marks.Dir)
		} else if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}

// raiseMark makes a checkpoint the mark of a ledger, unless the mark is higher.
func raiseMark(marks ledger.MarkFiles, l ledgerState, text []byte, file string) error {
	key, err := proofs.ParseVerifier(l.VerifierKey)
	if err != nil {
		return fmt.Errorf("key of ledger %q in the backup: %w", l.Name, err)
	}
	seen, err := proofs.OpenCheckpoint(text, key)
	if err != nil && !errors.Is(err, proofs.ErrWrongKey) { // of a key before or after: the server will say
		return exitf(exitUsage, "--seen: %s: %w", file, err)
	}
	mark, markErr := marks.Mark(l.Name)
	if markErr == nil && err == nil {
		if known, openErr := proofs.OpenCheckpoint(mark, key); openErr == nil && known.Size >= seen.Size {
			return nil
		}
	}
	return marks.SetMark(l.Name, text)
}

// restoreFiles copies what the manifest names to a data folder; the database comes to
// its name when all of it is there.
func restoreFiles(ctx context.Context, c *console, store backupStore, m *manifest, data string) error {
	if err := os.RemoveAll(restoring(data)); err != nil {
		return err
	}
	var total int64
	for _, f := range m.Files {
		total += f.Size
	}
	bar := newProgress(c, total, "restoring", progressbar.OptionShowBytes(true))
	defer bar.finish()
	for _, f := range m.Files {
		if ctx.Err() != nil {
			return exitf(exitFailed, "interrupted; nothing is restored")
		}
		if err := restoreFile(store, f, data); err != nil {
			return fmt.Errorf("restoring %s: %w", f.Name, err)
		}
		bar.add(int(f.Size))
	}
	if err := ledger.SyncDir(restoring(data)); err != nil {
		return err
	}
	if err := os.Rename(restoring(data), databaseDir(data)); err != nil {
		return err
	}
	return ledger.SyncDir(data)
}

func restoreFile(store backupStore, f storedFile, data string) error {
	folder, base := path.Split(f.Name)
	to := filepath.Join(data, filepath.FromSlash(folder))
	switch folder {
	case "db/":
		to = restoring(data)
	case "access/", "keys/":
	default:
		return errors.New("no part of a data folder")
	}
	if base == "" || !filepath.IsLocal(base) || filepath.Base(base) != base {
		return errors.New("no name of a file")
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	to = filepath.Join(to, base)
	if folder == "keys/" {
		if _, err := os.Stat(to); err == nil {
			return nil // the folder's own stays
		}
	}
	in, err := os.Open(store.file(f.SHA256))
	if err != nil {
		return err
	}
	defer in.Close()
	digest, size, err := copyFile(to, in)
	if err == nil && (digest != f.SHA256 || size != f.Size) {
		err = fmt.Errorf("the backup is damaged: %s holds %d bytes that hash to %s", store.file(f.SHA256), size, digest)
	}
	return err
}

// reportRestored verifies what was restored, and says what it is.
func reportRestored(ctx context.Context, c *console, o restoreOptions, m *manifest) error {
	list, err := inspect(ctx, c, databaseDir(o.data))
	if err != nil {
		return fmt.Errorf("verifying what was restored: %w", err)
	}
	if !slices.Equal(list, m.Ledgers) {
		return exitf(exitFailed, "what was restored is not what the backup says it holds: remove %s", o.data)
	}
	database, err := pebble.Open(ctx, pebble.Config{Dir: databaseDir(o.data), Logger: c.warnings()})
	if err != nil {
		return err
	}
	older, err := reportOlder(ctx, c, o.data, list, database)
	if err := errors.Join(err, database.Close()); err != nil {
		return err
	}
	if older {
		return exitf(exitDamaged, "a server on this folder takes no writes to that ledger: restore a newer copy, or go on with a new ledger (colophon restore --help)")
	}
	return nil
}

// reportOlder reports whether a ledger has signed more than was restored.
func reportOlder(ctx context.Context, c *console, data string, list []ledgerState, database *pebble.Database) (older bool, err error) {
	for _, l := range list {
		fmt.Fprintf(c.out, "  %s\n", l)
		store, err := database.Ledger(ctx, l.Name)
		if err != nil {
			return older, err
		}
		keys, err := ledger.StoredKeys(ctx, store)
		if err != nil || keys == nil {
			return older, err
		}
		damage, err := checkMark(ctx, data, l.Name, store, keys.Verifiers())
		if err != nil {
			return older, err
		}
		if damage != nil {
			older = true
			c.say("%s: %s", l.Name, damage.Message)
		}
	}
	return older, nil
}

// missingKeys are the ledgers whose keys are neither in the data folder nor in variables.
func missingKeys(c *console, data string, m *manifest) (names []string) {
	keys := signingKeys(c, data)
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
