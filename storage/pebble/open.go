package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/internal/folderlock"
	"colophon/internal/frames"
	"colophon/storage"
	"colophon/storage/pebble/internal/disk"
	"colophon/storage/pebble/internal/erase"
	"colophon/storage/pebble/internal/keys"
)

// engineFormat is the version of Pebble's file formats. It is fixed so that an upgrade of the
// library alone does not convert any files.
const engineFormat = engine.FormatValueSeparation

// Open opens the database in cfg.Dir. If the folder does not exist or is empty, Open creates an
// empty database. It fails if the folder contains other files but no database. It returns ErrInUse
// if this process or another one has the database open, and ErrUnknownFormat if the database has another
// format version. If files were changed after they were written, it returns ErrDamaged and changes
// nothing.
func Open(ctx context.Context, cfg Config) (*Database, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	db, err := open(cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the database in %s: %w", cfg.Dir, damaged(err))
	}
	return db, nil
}

func open(cfg Config) (*Database, error) {
	dir, format, err := locate(cfg)
	if err != nil {
		return nil, err
	}
	lock, err := folderlock.TakeFS(cfg.FS, dir)
	if err != nil {
		return nil, err
	}
	room := disk.Space{FS: cfg.FS, Dir: dir, MinFreeBytes: cfg.MinFreeBytes}
	full := room.CheckBeforeOpen()
	if cfg.ReadOnly || !errors.Is(full, storage.ErrNoSpace) {
		full = nil
	}
	if full != nil && !cfg.ReadOnlyWhenFull {
		return nil, errors.Join(full, lock.Close())
	}
	cfg.ReadOnly = cfg.ReadOnly || full != nil
	d := &Database{
		lock:       lock,
		space:      room,
		reserve:    &disk.ReserveFS{FS: cfg.FS, Space: room},
		durability: engine.Sync,
		readOnly:   cfg.ReadOnly,
		ledgers:    make(map[string]*ledger),
		full:       full,
	}
	d.walFS = &disk.WALFS{FS: d.reserve}
	d.eraser = erase.New(erase.Config{
		Space: room, ReserveFS: d.reserve, WALFS: d.walFS, MinSeparateValueBytes: minSeparateValue,
		WriteOptions: d.durability, Logger: cfg.Logger, RemoveUnusedCopies: cfg.RemoveUnusedCopies,
	})
	cache := cfg.newCache()
	defer cache.Unref() // the engine holds its own reference
	d.fillers = newFillers(d, cache, cfg)
	options := cfg.options()
	options.Cache = cache
	options.Lock = lock.EngineLock
	options.FormatMajorVersion = format
	options.ReadOnly = cfg.ReadOnly
	options.FS = frames.CheckedFS{FS: disk.MarkerSyncFS{FS: d.walFS}}
	options.Experimental.ValueSeparationPolicy = d.eraser.ValueSeparationPolicy
	d.eraser.RegisterListeners(options.EventListener)
	d.engine, err = engine.Open(dir, options)
	if full != nil && errors.Is(err, engine.ErrDBDoesNotExist) { // the folder contains no database that could be read
		err = full
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	err = d.checkFormat()
	if full != nil && errors.Is(err, storage.ErrNotFound) { // the database is still empty, so there is nothing to read
		err = full
	}
	if err != nil {
		return nil, errors.Join(err, d.engine.Close(), lock.Close())
	}
	if full != nil {
		cfg.Logger.Error("the disk is full; the database is read-only until there is free space", "reason", full)
	}
	d.reserve.WaitsForSpace.Store(true)
	if !cfg.ReadOnly {
		d.eraser.Start(d.engine)
	}
	return d, nil
}

// locate returns the database's folder and the Pebble file format version to open it with. It
// creates the folder unless cfg.ReadOnly is set.
func locate(cfg Config) (dir string, format engine.FormatMajorVersion, err error) {
	if cfg.ReadOnly {
		description, err := engine.Peek(cfg.Dir, cfg.FS)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !description.Exists {
			return "", 0, fmt.Errorf("%w: the folder contains no database", storage.ErrNotFound)
		}
		if err != nil {
			return "", 0, err
		}
	}
	if dir, err = disk.MakeDir(cfg.FS, cfg.Dir); err != nil {
		return "", 0, err
	}
	format, err = peek(cfg.FS, dir)
	return dir, format, err
}

// peek returns the Pebble file format version with which the folder must first be opened. An
// existing database keeps its own version, because it might belong to another program and must not
// be converted. A new database gets engineFormat. peek changes nothing. If there is no database,
// peek fails if the folder contains anything except the remains of an interrupted first start.
func peek(files vfs.FS, dir string) (engine.FormatMajorVersion, error) {
	description, err := engine.Peek(dir, files)
	if err != nil {
		return 0, err
	}
	if description.Exists {
		return max(description.FormatMajorVersion, engine.FormatMinSupported), nil
	}
	names, err := files.List(dir)
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	for _, name := range names {
		if !leftByFirstStart(name) {
			return 0, fmt.Errorf("the folder contains no database, but it contains other files, such as %q; use an empty folder or the folder of an existing database", name)
		}
	}
	return engineFormat, nil
}

// leftByFirstStart reports whether a file with the given name can be left over from an interrupted
// first start or from the creation of the file system.
func leftByFirstStart(name string) bool {
	for _, pattern := range []string{"LOCK", "MANIFEST-*", "OPTIONS-*", "marker.*", "*.log", "*.dbtmp", "lost+found"} {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// checkFormat returns an error unless the stored format version is this build's version. It also
// lets Pebble convert its files to engineFormat. A database without keys is new and gets this
// build's version. A database that has keys but no version belongs to another program.
func (d *Database) checkFormat() error {
	stored, err := d.get(keys.FormatVersionKey())
	if errors.Is(err, storage.ErrNotFound) {
		return d.initialise()
	}
	if err != nil {
		return err
	}
	version, err := keys.DecodeNumber(stored)
	if err != nil {
		return fmt.Errorf("reading the format version: %w", err)
	}
	if version != keys.FormatVersion {
		return fmt.Errorf("%w: the database has format version %d, but this build reads only version %d; use the build that wrote it",
			storage.ErrUnknownFormat, version, keys.FormatVersion)
	}
	return d.convert()
}

func (d *Database) initialise() error {
	all, err := d.engine.NewIter(nil)
	if err != nil {
		return err
	}
	empty := !all.First()
	if err := errors.Join(all.Error(), all.Close()); err != nil {
		return err
	}
	if !empty {
		return errors.New("the folder contains the database of another program")
	}
	if d.readOnly {
		return fmt.Errorf("%w: the database is empty", storage.ErrNotFound)
	}
	if err := d.convert(); err != nil {
		return err
	}
	return d.engine.Set(keys.FormatVersionKey(), keys.EncodeNumber(keys.FormatVersion), d.durability)
}

// convert converts a database with older file formats to engineFormat, unless it is open for
// reading only. This cannot be undone.
func (d *Database) convert() error {
	if d.engine.FormatMajorVersion() >= engineFormat || d.readOnly {
		return nil
	}
	return d.engine.RatchetFormatMajorVersion(engineFormat)
}
