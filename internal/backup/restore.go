package backup

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

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/internal/safefile"
	"colophon/proofs"
	"colophon/storage"
)

// RestoreOptions holds the flags of the restore command.
type RestoreOptions struct {
	// BackupName is the name of a backup in BackupFolder; empty means the newest one. DataFolder is the folder
	// to restore it to.
	BackupFolder, BackupName, DataFolder string
	SeenCheckpointFiles                  []string // files that each contain the newest known checkpoint of a ledger
	AssumeNewestBackup                   bool     // asserts that nothing was signed after the backup was made
	TrustedKeys                          []string // trusted verifier keys, or names of files that contain them
	AllowUnauthenticated                 bool     // accept a backup without trusted signatures
	IncludeTokens                        bool     // also restore the tokens, even those revoked after the backup
}

// Restore restores a backup into a data folder that has no database. It authenticates the backup before
// it copies any files, and verifies all the files before it moves them into place.
func Restore(ctx context.Context, c *cli.Console, o RestoreOptions) (err error) {
	if o.BackupFolder == "" {
		return cli.ExitErrorf(cli.ExitUsage, "--from is missing: name the folder that contains the backups")
	}
	if o.IncludeTokens && o.AllowUnauthenticated {
		return cli.ExitErrorf(cli.ExitUsage, "--with-tokens: tokens of an unauthenticated backup cannot be restored; create new ones with colophon token create")
	}
	store := Store{o.BackupFolder}
	var given []*proofs.Verifier
	if !o.AllowUnauthenticated {
		if given, err = o.givenKeys(c); err != nil {
			return err
		}
	}
	m, err := o.choose(c, store, given)
	if err != nil {
		return err
	}
	if err := o.checkEmpty(m); err != nil {
		return err
	}
	if err := datadir.CheckPermissions(o.DataFolder); err != nil {
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
	if err := o.checkEmpty(m); err != nil { // checked again under the lock, because another restore may have just finished
		return err
	}
	if err := o.takeBackTokens(m); err != nil {
		return err
	}
	if err := o.restoreFiles(ctx, c, store, m); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return cli.ExitErrorf(cli.ExitFailed, "%w\nNothing was restored. Free space on the file system of %s, and run restore again", err, o.DataFolder)
		}
		return err
	}
	older, err := verifyRestored(ctx, c, o, m, seen)
	if err != nil {
		return err
	}
	if err := o.placeRestored(m); err != nil {
		return err
	}
	return o.report(c, m, older)
}

// lock locks the data folder so that no other restore uses it. Calling release unlocks it and
// removes incomplete files.
func (o RestoreOptions) lock() (release func() error, err error) {
	dir := datadir.RestoreFolder(o.DataFolder)
	_, missing := os.Stat(o.DataFolder)
	if err := safefile.MkdirAll(dir); err != nil {
		return nil, err
	}
	lock, err := folderlock.Take(dir)
	if errors.Is(err, storage.ErrInUse) {
		return nil, cli.ExitErrorf(cli.ExitInUse, "another restore into %s is running; run restore again when it has finished", o.DataFolder)
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		err := errors.Join(os.RemoveAll(dir), lock.Close())
		if missing != nil {
			_ = os.Remove(o.DataFolder) // fails if the folder is not empty
		}
		return err
	}, nil
}

// report prints what was restored and what the operator must still do. older contains messages
// about ledgers for which the backup is too old. If there are any, report prints them and returns
// an error.
func (o RestoreOptions) report(c *cli.Console, m *Manifest, older []string) error {
	fmt.Fprintf(c.Out, "restored the backup of %s\n", m.CreatedAt.Format("2006-01-02 15:04:05 MST"))
	for _, l := range m.Ledgers {
		fmt.Fprintf(c.Out, "  %s\n", l)
	}
	switch {
	case o.IncludeTokens && m.hasTokens():
		c.PrintErrf("the tokens in the backup are valid again; revoke again any token that was revoked after the backup was made")
	case o.needsNewToken(m):
		c.PrintErrf("no tokens were restored, but requests require a token; create one with colophon token create --data %s", o.DataFolder)
	}
	for _, l := range m.Ledgers {
		if l.archived.EndSeq > 0 {
			c.PrintErrf("ledger %s: the entries below %d are not in the backup, only in the published copy at %s; check them with colophon fsck, and start the server with --archive and --publish %s",
				l.Name, l.archived.EndSeq, l.archived.URL, l.archived.URL)
		}
	}
	for _, message := range older {
		c.PrintErrf("%s", message)
	}
	if len(older) > 0 {
		return cli.ExitErrorf(cli.ExitDamaged, "a server that uses this folder refuses writes to the ledgers listed above; restore a newer backup, or use a new ledger (see colophon restore --help)")
	}
	if missing := missingKeys(c, o.DataFolder, m); len(missing) > 0 {
		c.PrintErrf("copy the signing keys of %s to %s before you start the server", strings.Join(missing, ", "), datadir.KeyFiles(o.DataFolder).Dir)
	}
	return nil
}

// choose returns the manifest of the backup selected with --backup. Without that flag, it selects
// the newest backup that Store.ClassifyBackups does not ignore.
func (o RestoreOptions) choose(c *cli.Console, store Store, given []*proofs.Verifier) (*Manifest, error) {
	names, err := store.BackupNames()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, cli.ExitErrorf(cli.ExitUsage, "%s contains no backup; use --from to name the folder that contains the backups", o.BackupFolder)
	}
	if o.BackupName != "" {
		name := strings.TrimSuffix(o.BackupName, ".json")
		if !slices.Contains(names, name) {
			return nil, cli.ExitErrorf(cli.ExitUsage, "backup %q does not exist in %s; choose one of %s", o.BackupName, o.BackupFolder, strings.Join(names, ", "))
		}
		return store.ReadManifest(name)
	}
	counted, ignored, err := store.ClassifyBackups(time.Now(), func(m *Manifest) bool {
		kept, err := keptKeys(c, o.DataFolder, m)
		return err == nil && !o.AllowUnauthenticated && m.Authenticate(append(kept, given...)) == nil
	})
	if err != nil {
		return nil, err
	}
	store.warnIgnored(c, ignored)
	if len(counted) == 0 {
		return nil, cli.ExitErrorf(cli.ExitUsage, "cannot determine the newest backup in %s: the times of all backups are in the future or invalid; set this machine's clock, or name a backup with --backup", o.BackupFolder)
	}
	return store.ReadManifest(counted[len(counted)-1])
}

// checkEmpty returns an error if the data folder contains anything but high-water marks, keys,
// the folder that restore uses, and the tokens of an interrupted restore.
func (o RestoreOptions) checkEmpty(m *Manifest) error {
	data := o.DataFolder
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == "marks", name == "keys", name == filepath.Base(datadir.RestoreFolder(data)):
		case name == "access" && o.ownsTokens(m):
		default:
			return cli.FileStateErrorf("%s is not empty (it contains %q): restore into another folder, or move everything except the folders marks and keys elsewhere", data, entry.Name())
		}
	}
	return nil
}

// missingKeys returns the names of the ledgers whose signing keys are neither in the data folder
// nor in environment variables.
func missingKeys(c *cli.Console, data string, m *Manifest) (names []string) {
	keys := datadir.SigningKeys(c, data)
	for _, l := range m.Ledgers {
		_, err := keys.Load(l.Name)
		if errors.Is(err, storage.ErrNotFound) {
			_, err = keys.LoadStaged(l.Name)
		}
		if errors.Is(err, storage.ErrNotFound) {
			names = append(names, l.Name)
		}
	}
	return names
}
