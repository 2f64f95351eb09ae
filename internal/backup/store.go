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
)

// ManifestVersion is the version of the backup format.
const ManifestVersion = 1

// Manifest describes one backup. It is stored as NAME.json in the backup folder. The subfolder
// "files" contains each file under its SHA-256, so that backups share identical files. A backup
// exists as soon as its manifest does.
type Manifest struct {
	Version   int          `json:"version"` // version of the manifest's format
	CreatedAt time.Time    `json:"made"`    // time of the backup, which determines its name
	Ledgers   []Ledger     `json:"ledgers"`
	Files     []StoredFile `json:"files"` // files of the data folder, sorted by name
	// SignedNote is a signed note, made by proofs.SignBackup, that covers all the other fields. It is
	// empty if the ledgers' signing keys were not available.
	SignedNote string `json:"note,omitempty"`
}

// NameLayout is the time.Format layout for the name of a backup.
const NameLayout = "backup-20060102T150405.000000Z"

// Name returns the name of the backup. It is the time of the backup, formatted with
// NameLayout.
func (m *Manifest) Name() string { return m.CreatedAt.Format(NameLayout) }

// same reports whether two descriptions of a ledger are equal, apart from the fields that a
// manifest does not store.
func (l Ledger) same(other Ledger) bool {
	return l.Name == other.Name && l.Origin == other.Origin && l.VerifierKey == other.VerifierKey &&
		l.TreeSize == other.TreeSize && l.LastEventTime.Equal(other.LastEventTime) && l.Checkpoint == other.Checkpoint
}

// String describes the ledger in one line for the output of the backup and restore commands.
func (l Ledger) String() string {
	return fmt.Sprintf("%s: %s, the last at %s", l.Name, cli.FormatCount(l.TreeSize, "event"), l.LastEventTime.Format(time.RFC3339))
}

// StoredFile is the entry in a manifest for one file of the data folder.
type StoredFile struct {
	Name            string `json:"name"`     // slash-separated path relative to the data folder
	SHA256          string `json:"sha256"`   // hash of the content, in hexadecimal
	Size            int64  `json:"size"`     // length of the content in bytes
	ModTimeUnixNano int64  `json:"modified"` // modification time in nanoseconds since the Unix epoch
}

// SourceFile is a file to back up. Name is the name that it has in the manifest, and Path is its
// current location.
type SourceFile struct {
	Name, Path string
	Info       fs.FileInfo
}

// backupSources returns the files to back up, sorted by name. They are the files of the database
// snapshot, the tokens, and, if o.IncludeKeys is set, the signing keys.
func backupSources(o Options, snapshot, tokens string) ([]SourceFile, error) {
	var list []SourceFile
	folders := map[string]string{"db": snapshot, "access": tokens}
	if o.IncludeKeys {
		folders["keys"] = datadir.KeyFiles(o.DataFolder).Dir
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
			if errors.Is(err, fs.ErrNotExist) && name == "keys" {
				return nil, errKeysChanged
			}
			if err != nil {
				return nil, err
			}
			if info.Mode().IsRegular() && entry.Name() != access.DiskReserveFileName {
				list = append(list, SourceFile{name + "/" + entry.Name(), filepath.Join(dir, entry.Name()), info})
			}
		}
	}
	slices.SortFunc(list, func(a, b SourceFile) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Store is a folder that contains backups. Other users may be able to write to it, so its files are
// opened only through the os.Root that open returns, which does not follow links out of the folder.
type Store struct{ Dir string }

// open opens the backup folder. It returns an error if its entry "files" exists but is not a
// folder.
func (s Store) open() (*os.Root, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Lstat("files")
	switch {
	case err == nil && !info.IsDir():
		err = fmt.Errorf("%s is a link or a file, not a folder; remove it or move it elsewhere", s.FilesFolder())
	case errors.Is(err, fs.ErrNotExist): // a folder without backups has no "files"
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// FilesFolder returns the path of the subfolder "files", which contains the stored files.
func (s Store) FilesFolder() string { return filepath.Join(s.Dir, "files") }

// FilePath returns the path of the stored file with the given SHA-256 in hexadecimal.
func (s Store) FilePath(digest string) string { return filepath.Join(s.FilesFolder(), digest) }

// RelativeFilePath returns the path, relative to Store.Dir, of the stored file with the given
// SHA-256.
func RelativeFilePath(digest string) string { return path.Join("files", digest) }

// CreateFolders creates the backup folder and its subfolder "files" if they do not exist.
func (s Store) CreateFolders() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	root, err := s.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir("files", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// BackupNames returns the names of the backups, oldest first. If the folder does not exist, it
// returns no names and no error.
func (s Store) BackupNames() ([]string, error) {
	root, err := s.open()
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

// maxAhead is how far ahead of the clock the time of a backup can be. Backups with later times are
// ignored unless their manifests are authentic.
const maxAhead = 24 * time.Hour

// ClassifyBackups divides the names of the backups into those to count and those to ignore, each
// sorted oldest first. It ignores files whose names are not valid backup names. It also ignores
// backups whose times are more than maxAhead in the future, unless their manifests are authentic.
// Without this check, a file with a future time, added by another user, would remain the newest
// backup forever.
func (s Store) ClassifyBackups(now time.Time, authentic func(*Manifest) bool) (counted, ignored []string, err error) {
	names, err := s.BackupNames()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		made, err := time.Parse(NameLayout, name)
		counts := err == nil && made.Format(NameLayout) == name
		if counts && made.After(now.Add(maxAhead)) {
			m, err := s.ReadManifest(name)
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

// warnIgnored prints a warning about the backups that ClassifyBackups ignores.
func (s Store) warnIgnored(c *cli.Console, ignored []string) {
	if len(ignored) > 0 {
		c.PrintErrf("ignoring backups in %s whose times are invalid, or more than 24 hours ahead of this machine's clock without a signature "+
			"by an available signing key: %q. If the clock is right, move them to another folder", s.Dir, ignored)
	}
}

// nextTime returns the time for a new backup, which is usually now. If the newest counted backup is
// not older than now, nextTime returns one microsecond after that backup's time. The new backup is
// therefore the newest even if the clock was set back.
func nextTime(now time.Time, counted []string) (time.Time, error) {
	next := now.UTC().Truncate(time.Microsecond)
	if len(counted) == 0 {
		return next, nil
	}
	last, err := time.Parse(NameLayout, counted[len(counted)-1])
	if err != nil {
		return next, err
	}
	if !next.After(last) {
		next = last.Add(time.Microsecond)
	}
	return next, nil
}

// ReadManifest reads the manifest of the backup with the given name and checks that it is well-formed. It does
// not authenticate the manifest.
func (s Store) ReadManifest(name string) (*Manifest, error) {
	root, err := s.open()
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
		return nil, fmt.Errorf("%s has the format version %d, but this program reads only version %d; use the version of colophon that wrote the backup", name, m.Version, ManifestVersion)
	}
	if m.Name() != name { // the file is a copy of another manifest, for example of an older one
		return nil, fmt.Errorf("%s is damaged: it contains the manifest of %s", name, m.Name())
	}
	for _, f := range m.Files {
		if !digestForm.MatchString(f.SHA256) || f.Size < 0 {
			return nil, fmt.Errorf("%s is damaged: it lists an invalid file %q with %d bytes and SHA-256 %q", name, f.Name, f.Size, f.SHA256)
		}
	}
	return m, nil
}

// digestForm matches a SHA-256 in hexadecimal, which is also the name of a stored file.
var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// OpenFile opens a stored file for reading. It returns an error for a link or anything else that is
// not a regular file, because another user could have put it there.
func (s Store) OpenFile(f StoredFile) (*os.File, error) {
	root, err := s.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	in, err := safefile.OpenIn(root, RelativeFilePath(f.SHA256))
	if err != nil {
		return nil, fmt.Errorf("the backup is damaged: %w", err)
	}
	return in, nil
}

// Add stores a file unless the store already has an intact copy of it. copied is the number of
// bytes written. Add reads and verifies an existing copy, because other users may be able to write
// to the store, and the ledgers' keys sign a manifest that contains the copy's digest.
func (s Store) Add(source SourceFile) (f StoredFile, copied int64, err error) {
	f = StoredFile{Name: source.Name, Size: source.Info.Size(), ModTimeUnixNano: source.Info.ModTime().UnixNano()}
	in, _, err := safefile.Open(source.Path)
	if err != nil {
		return f, 0, err
	}
	defer in.Close()
	if f.SHA256, f.Size, err = DigestOf(in); err != nil {
		return f, 0, err
	}
	root, err := s.open()
	if err != nil {
		return f, 0, err
	}
	defer root.Close()
	if verifyFile(root, RelativeFilePath(f.SHA256), f) == nil {
		return f, 0, nil
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return f, 0, err
	}
	out, err := safefile.CreateIn(root, IncompleteFileName)
	if err != nil {
		return f, 0, err
	}
	if f.SHA256, f.Size, err = copyFile(out, in); err != nil {
		return f, 0, err
	}
	if err := verifyFile(root, IncompleteFileName, f); err != nil {
		return f, 0, err
	}
	if err := root.Rename(IncompleteFileName, RelativeFilePath(f.SHA256)); err != nil {
		return f, 0, err
	}
	return f, f.Size, nil
}

// IncompleteFileName is the name that a stored file has while it is being written. All backups use
// the same name, so the next backup replaces whatever an interrupted one left behind.
const IncompleteFileName = "incomplete"

// WriteManifest durably writes the manifest, which completes the backup. It returns the name of the
// backup.
func (s Store) WriteManifest(m *Manifest) (string, error) {
	root, err := s.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := safefile.SyncDirIn(root, "files"); err != nil {
		return "", err
	}
	name := m.Name()
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return "", fmt.Errorf("encoding the manifest: %w", err)
	}
	out, err := safefile.CreateIn(root, IncompleteFileName)
	if err != nil {
		return "", err
	}
	if _, _, err := copyFile(out, strings.NewReader(string(text)+"\n")); err != nil {
		return "", err
	}
	if err := root.Rename(IncompleteFileName, name+".json"); err != nil {
		return "", err
	}
	return name, safefile.SyncDirIn(root, ".")
}

// copyFile copies in to out, then syncs and closes out. It returns the SHA-256 and the length of
// the data.
func copyFile(out *os.File, in io.Reader) (digest string, size int64, err error) {
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(out, hash), in)
	return hex.EncodeToString(hash.Sum(nil)), size, errors.Join(err, out.Sync(), out.Close())
}

// DigestOf reads all of in and returns the SHA-256, in hexadecimal, and the length of the data.
func DigestOf(in io.Reader) (digest string, size int64, err error) {
	hash := sha256.New()
	size, err = io.Copy(hash, in)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// verifyFile returns an error unless the named file is a regular file with the given size and
// SHA-256.
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
		return fmt.Errorf("%s is damaged: it has %d bytes with SHA-256 %s, but must have %d bytes with SHA-256 %s", in.Name(), size, digest, want.Size, want.SHA256)
	}
	return nil
}

// Prune removes the oldest counted backups until only keep of them remain. It then removes every
// stored file that no remaining backup needs. If keep is 0, Prune removes nothing. It does not
// remove ignored backups, because they may be genuine.
func (s Store) Prune(keep int, counted, ignored []string) error {
	if keep == 0 || len(counted) <= keep {
		return nil
	}
	needed := make(map[string]bool)
	need := func(m *Manifest) {
		for _, f := range m.Files {
			needed[f.SHA256] = true
		}
	}
	removed, kept := counted[:len(counted)-keep], counted[len(counted)-keep:]
	for _, name := range kept {
		m, err := s.ReadManifest(name)
		if err != nil {
			return fmt.Errorf("removing old backups: %w", err)
		}
		need(m)
	}
	for _, name := range ignored {
		if m, err := s.ReadManifest(name); err == nil {
			need(m)
		}
	}
	root, err := s.open()
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range removed { // remove the manifests before the files that they name
		if err := root.Remove(name + ".json"); err != nil {
			return err
		}
	}
	files, err := root.OpenRoot("files") // kept open, in case another user replaces the folder
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
