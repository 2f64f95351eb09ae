package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/safefile"
	"colophon/ledger"
)

// ManifestVersion is that of the format of backups.
const ManifestVersion = 1

// Manifest describes one backup: NAME.json in the folder of backups. Files are in the
// folder "files" there, each under its SHA-256, so that several backups share what they
// have in common. A backup is what its manifest names, and is there once that is.
type Manifest struct {
	Version int          `json:"version"`
	Made    time.Time    `json:"made"`
	Ledgers []Ledger     `json:"ledgers"`
	Files   []StoredFile `json:"files"`
	// Note is a signed note of proofs.SignBackup over all else; empty of a backup whose
	// ledgers' keys were not at hand.
	Note string `json:"note,omitempty"`
}

// BackupName is the name of a backup as a layout of its time.
const BackupName = "backup-20060102T150405.000000Z"

// Name is that of the backup.
func (m *Manifest) Name() string { return m.Made.Format(BackupName) }

// same reports whether two backups, or a backup and its manifest, have a ledger alike.
func (l Ledger) same(other Ledger) bool {
	return l.Name == other.Name && l.Origin == other.Origin && l.VerifierKey == other.VerifierKey &&
		l.Size == other.Size && l.Time.Equal(other.Time) && l.Checkpoint == other.Checkpoint
}

// String is the state for people.
func (l Ledger) String() string {
	return fmt.Sprintf("%s: %s, the last of %s", l.Name, cli.Counted(l.Size, "event"), l.Time.Format(time.RFC3339))
}

// StoredFile is a file of the data folder.
type StoredFile struct {
	Name     string `json:"name"` // with slashes, from the data folder
	SHA256   string `json:"sha256"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // nanoseconds since 1970 UTC
}

// Source is a file to back up.
type Source struct {
	Name, Path string
	Info       fs.FileInfo
}

// backupSources are the files that belong to a backup.
func backupSources(o Options, snapshot string) ([]Source, error) {
	var list []Source
	folders := map[string]string{"db": snapshot, "access": datadir.Access(o.Data)}
	if o.Keys {
		folders["keys"] = datadir.Keys(o.Data).Dir
	}
	for name, dir := range folders {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) && name != "db" {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				return nil, err
			}
			if info.Mode().IsRegular() && entry.Name() != access.ReserveFile {
				list = append(list, Source{name + "/" + entry.Name(), filepath.Join(dir, entry.Name()), info})
			}
		}
	}
	slices.SortFunc(list, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Store is a folder of backups. Another user may be able to write to it, so everything
// in it is opened by open, which leads out of it through no link.
type Store struct{ Dir string }

// open opens the folder and refuses anything but a folder in the place of "files".
func (b Store) open() (*os.Root, error) {
	root, err := os.OpenRoot(b.Dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Lstat("files")
	switch {
	case err == nil && !info.IsDir():
		err = fmt.Errorf("%s is no folder but a link or a file; move it away", b.Files())
	case errors.Is(err, fs.ErrNotExist): // as in a folder without backups
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func (b Store) Files() string { return filepath.Join(b.Dir, "files") }

func (b Store) File(digest string) string { return filepath.Join(b.Files(), digest) }

// FileIn is the name of a stored file in the folder that open returns.
func FileIn(digest string) string { return path.Join("files", digest) }

func (b Store) Make() error {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return err
	}
	root, err := b.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir("files", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Names are those of the backups, the oldest first. There are none if there is no folder.
func (b Store) Names() ([]string, error) {
	root, err := b.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	found, err := fs.Glob(root.FS(), "backup-*.json")
	for i := range found {
		found[i] = strings.TrimSuffix(found[i], ".json")
	}
	slices.Sort(found)
	return found, err
}

// mostAhead is how far ahead of the clock the time of a backup can be that nothing else
// shows to be one.
const mostAhead = 24 * time.Hour

// Counted returns the names of the backups without those that another user may have put
// there so that no later backup can be the newest: names of no backup, and times of more
// than mostAhead from now on. The latter count if their manifest is authentic.
func (b Store) Counted(now time.Time, authentic func(*Manifest) bool) (counted, ignored []string, err error) {
	names, err := b.Names()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		made, err := time.Parse(BackupName, name)
		counts := err == nil && made.Format(BackupName) == name
		if counts && made.After(now.Add(mostAhead)) {
			m, err := b.Read(name)
			counts = err == nil && authentic(m)
		}
		if counts {
			counted = append(counted, name)
		} else {
			ignored = append(ignored, name)
		}
	}
	return counted, ignored, nil
}

// sayIgnored names the backups that do not count.
func (b Store) sayIgnored(c *cli.Console, ignored []string) {
	if len(ignored) > 0 {
		c.Say("these backups in %s do not count: their times are more than 24 hours ahead of this machine's clock, or are no times, and no signing key "+
			"at hand has signed them: %q. If the clock is right, move them away", b.Dir, ignored)
	}
}

// nextTime is the time of a new backup: now, but later than that of every other that
// counts, so that the newest is the newest though the clock was set back. Times are kept
// in microseconds.
func nextTime(now time.Time, counted []string) (time.Time, error) {
	next := now.UTC().Truncate(time.Microsecond)
	if len(counted) == 0 {
		return next, nil
	}
	last, err := time.Parse(BackupName, counted[len(counted)-1])
	if err != nil {
		return next, err
	}
	if !next.After(last) {
		next = last.Add(time.Microsecond)
	}
	return next, nil
}

func (b Store) Read(name string) (*Manifest, error) {
	root, err := b.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := safefile.OpenIn(root, name+".json")
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	if m.Version != ManifestVersion {
		return nil, fmt.Errorf("%s has the format version %d, this build reads %d", name, m.Version, ManifestVersion)
	}
	if m.Name() != name { // another backup under its name, such as an older one
		return nil, fmt.Errorf("%s is damaged: it says that it is %s", name, m.Name())
	}
	for _, f := range m.Files {
		if !digestForm.MatchString(f.SHA256) || f.Size < 0 {
			return nil, fmt.Errorf("%s is damaged: file %q of %d bytes and SHA-256 %q", name, f.Name, f.Size, f.SHA256)
		}
	}
	return m, nil
}

// digestForm is that of a SHA-256, which is the name of a file too.
var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// OpenFile opens a stored file for reading. Another user may have put something else in
// its place.
func (b Store) OpenFile(f StoredFile) (*os.File, error) {
	root, err := b.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	in, err := safefile.OpenIn(root, FileIn(f.SHA256))
	if err != nil {
		return nil, fmt.Errorf("the backup is damaged: %w", err)
	}
	return in, nil
}

// Add puts a file into the store, unless a good copy is there. Copied are the bytes
// written. It reads both the source and the stored copy: others may write to the store, and
// the keys of the ledgers sign the digest.
func (b Store) Add(s Source) (f StoredFile, copied int64, err error) {
	f = StoredFile{Name: s.Name, Size: s.Info.Size(), Modified: s.Info.ModTime().UnixNano()}
	in, _, err := safefile.Open(s.Path)
	if err != nil {
		return f, 0, err
	}
	defer in.Close()
	if f.SHA256, f.Size, err = DigestOf(in); err != nil {
		return f, 0, err
	}
	root, err := b.open()
	if err != nil {
		return f, 0, err
	}
	defer root.Close()
	if verifyFile(root, FileIn(f.SHA256), f) == nil {
		return f, 0, nil
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return f, 0, err
	}
	out, err := safefile.CreateIn(root, Incomplete)
	if err != nil {
		return f, 0, err
	}
	if f.SHA256, f.Size, err = copyFile(out, in); err != nil {
		return f, 0, err
	}
	if err := verifyFile(root, Incomplete, f); err != nil {
		return f, 0, err
	}
	if err := root.Rename(Incomplete, FileIn(f.SHA256)); err != nil {
		return f, 0, err
	}
	return f, f.Size, nil
}

// Incomplete is the name of a file that is being written. All backups use one name, so the
// next one replaces what an interrupted one leaves.
const Incomplete = "incomplete"

// Finish makes the backup count, durably.
func (b Store) Finish(m *Manifest) (string, error) {
	root, err := b.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := ledger.SyncDirIn(root, "files"); err != nil {
		return "", err
	}
	name := m.Name()
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return "", fmt.Errorf("describing the backup: %w", err)
	}
	out, err := safefile.CreateIn(root, Incomplete)
	if err != nil {
		return "", err
	}
	if _, _, err := copyFile(out, strings.NewReader(string(text)+"\n")); err != nil {
		return "", err
	}
	if err := root.Rename(Incomplete, name+".json"); err != nil {
		return "", err
	}
	return name, ledger.SyncDirIn(root, ".")
}

// copyFile writes a new file, durably, and closes it.
func copyFile(out *os.File, in io.Reader) (digest string, size int64, err error) {
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(out, hash), in)
	return hex.EncodeToString(hash.Sum(nil)), size, errors.Join(err, out.Sync(), out.Close())
}

// DigestOf returns the SHA-256 and the length of what a reader has.
func DigestOf(in io.Reader) (digest string, size int64, err error) {
	hash := sha256.New()
	size, err = io.Copy(hash, in)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// verifyFile checks that a regular file holds what it should.
func verifyFile(root *os.Root, name string, want StoredFile) error {
	in, err := safefile.OpenIn(root, name)
	if err != nil {
		return err
	}
	defer in.Close()
	digest, size, err := DigestOf(io.LimitReader(in, want.Size+1))
	if err != nil {
		return err
	}
	if digest != want.SHA256 || size != want.Size {
		return fmt.Errorf("%s is damaged: %d bytes that hash to %s, it should have %d and %s", in.Name(), size, digest, want.Size, want.SHA256)
	}
	return nil
}

// Prune removes all but the newest of the backups that count, and every file that none
// needs; 0 keeps all. Those that do not count stay: one may be real.
func (b Store) Prune(keep int, counted, ignored []string) error {
	if keep == 0 || len(counted) <= keep {
		return nil
	}
	needed := make(map[string]bool)
	need := func(m *Manifest) {
		for _, f := range m.Files {
			needed[f.SHA256] = true
		}
	}
	names := counted
	for _, name := range names[len(names)-keep:] {
		m, err := b.Read(name)
		if err != nil {
			return fmt.Errorf("removing old backups: %w", err)
		}
		need(m)
	}
	for _, name := range ignored {
		if m, err := b.Read(name); err == nil {
			need(m)
		}
	}
	root, err := b.open()
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names[:len(names)-keep] { // before the files that they name
		if err := root.Remove(name + ".json"); err != nil {
			return err
		}
	}
	files, err := root.OpenRoot("files") // once: what replaces it is not touched
	if err != nil {
		return fmt.Errorf("removing old backups: %w", err)
	}
	defer files.Close()
	entries, err := fs.ReadDir(files.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() || !digestForm.MatchString(entry.Name()) || needed[entry.Name()] {
			continue
		}
		if err := files.Remove(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}
