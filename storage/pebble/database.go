package pebble

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/internal/folderlock"
	"colophon/storage"
	"colophon/storage/pebble/internal/disk"
	"colophon/storage/pebble/internal/erase"
	"colophon/storage/pebble/internal/keys"
)

// Database contains the ledgers of one folder. It implements storage.Database. Its methods are safe
// for concurrent use, but Close does not wait for running calls of other methods.
type Database struct {
	engine  *engine.DB
	lock    *folderlock.Lock
	space   disk.Space
	reserve *disk.ReserveFS
	walFS   *disk.WALFS
	eraser  *erase.Eraser
	// durability is the option for every write. It is engine.Sync, except in a crash test that checks
	// that a missing sync would be detected.
	durability *engine.WriteOptions
	readOnly   bool  // true if Config.ReadOnly is set or full is not nil; the eraser then does not run
	full       error // not nil if lack of space forced the database to be opened read-only; never changes

	closed atomic.Bool

	fillers *fillers

	mu      sync.Mutex
	ledgers map[string]*ledger // ledgers opened so far, keyed by name; guarded by mu
}

var errClosed = errors.New("the database is closed")

// usable returns an error if the database is closed or ctx is done.
func (d *Database) usable(ctx context.Context) error {
	if d.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// writable is like usable, but for operations that write. It returns storage.ErrNoSpace if lack of
// space forced the database to be opened read-only.
func (d *Database) writable(ctx context.Context) error {
	if d.full != nil {
		return fmt.Errorf("%w: the database was opened read-only", storage.ErrNoSpace)
	}
	return d.usable(ctx)
}

// ForcedReadOnly reports whether lack of space forced the database to be opened read-only
// (Config.ReadOnlyWhenFull). If so, every write returns storage.ErrNoSpace until the database is
// reopened.
func (d *Database) ForcedReadOnly() bool { return d.full != nil }

// CheckSpace returns nil if free space is not below the threshold, and storage.ErrNoSpace
// otherwise. It can also be called after Close.
func (d *Database) CheckSpace() error { return d.space.Check() }

// get returns a copy of the value of a key, or storage.ErrNotFound.
func (d *Database) get(key []byte) ([]byte, error) {
	value, closer, err := d.engine.Get(key)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, storage.ErrNotFound
	}
	if err != nil {
		return nil, damaged(err)
	}
	kept := append([]byte{}, value...)
	// Close returns an error if the engine could not read the value.
	if err := closer.Close(); err != nil {
		return nil, damaged(err)
	}
	return kept, nil
}

// Ledgers implements storage.Database.
func (d *Database) Ledgers(ctx context.Context) ([]storage.LedgerInfo, error) {
	if err := d.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing ledgers: %w", err)
	}
	d.mu.Lock() // prevents the creation of ledgers while the names are read
	defer d.mu.Unlock()
	infos, numbers, err := d.infos()
	if err == nil {
		err = d.checkNumbers(numbers)
	}
	if err != nil {
		return nil, fmt.Errorf("listing ledgers: %w", damaged(err))
	}
	return infos, nil
}

// infos returns the descriptions of the ledgers, sorted by name, and a map from ledger number to
// name.
func (d *Database) infos() (infos []storage.LedgerInfo, numbers map[keys.LedgerNumber]string, err error) {
	numbers = make(map[keys.LedgerNumber]string)
	start, end := keys.NameRange()
	names, err := d.engine.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, names.Error(), names.Close()) }()
	for ok := names.First(); ok; ok = names.Next() {
		name := string(names.Key()[len(start):])
		var number uint32
		value, err := names.ValueAndErr()
		if err == nil {
			number, err = keys.DecodeNumber(value)
		}
		if err == nil {
			err = unusedNumber(numbers, keys.LedgerNumber(number))
		}
		if err == nil {
			var info storage.LedgerInfo
			info, err = d.describe(name, keys.LedgerNumber(number))
			infos = append(infos, info)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading the description of ledger %q: %w", name, err)
		}
		numbers[keys.LedgerNumber(number)] = name
	}
	return infos, numbers, nil
}

// unusedNumber returns an error that wraps storage.ErrDamaged if the number is 0 or belongs to
// another ledger.
func unusedNumber(numbers map[keys.LedgerNumber]string, number keys.LedgerNumber) error {
	if number == 0 {
		return fmt.Errorf("%w: the ledger has number 0, which is never assigned", storage.ErrDamaged)
	}
	if other, used := numbers[number]; used {
		return fmt.Errorf("%w: ledger number %d also belongs to ledger %q", storage.ErrDamaged, number, other)
	}
	return nil
}

// checkNumbers returns an error unless the ledgers have exactly the numbers from 1 to the last
// assigned number. A gap could hide a ledger. A number above the last assigned one could be
// assigned again, and the new ledger would overwrite the existing one.
func (d *Database) checkNumbers(numbers map[keys.LedgerNumber]string) error {
	last, err := d.lastNumber()
	if err != nil {
		return err
	}
	for number := keys.LedgerNumber(1); number <= last; number++ {
		if _, named := numbers[number]; !named {
			return fmt.Errorf("%w: ledger number %d was assigned, but no ledger name refers to it", storage.ErrDamaged, number)
		}
	}
	for number, name := range numbers {
		if number > last {
			return fmt.Errorf("%w: ledger %q has the number %d, but the last assigned number is %d", storage.ErrDamaged, name, number, last)
		}
	}
	start, end := keys.InfoRange()
	infos, err := d.engine.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	for ok := infos.First(); ok && err == nil; ok = infos.Next() {
		key := keys.Parse(infos.Key())
		if _, named := numbers[key.Ledger]; key.Family != keys.FamilyInfo || !named {
			err = fmt.Errorf("%w: the ledger with the number %d has a description, but no ledger name refers to it", storage.ErrDamaged, key.Ledger)
		}
	}
	return errors.Join(err, infos.Error(), infos.Close())
}

// describe reads the description of the ledger that has the given name and number. A description
// that names another ledger is reported as damage.
func (d *Database) describe(name string, number keys.LedgerNumber) (storage.LedgerInfo, error) {
	info, err := d.info(number)
	if err == nil && info.Name != name {
		err = fmt.Errorf("%w: the description stored under the ledger's number belongs to ledger %q", storage.ErrDamaged, info.Name)
	}
	return info, err
}

// info reads the description of the ledger with the given number. A missing description is reported
// as damage.
func (d *Database) info(number keys.LedgerNumber) (storage.LedgerInfo, error) {
	stored, err := d.get(keys.InfoKey(number))
	if errors.Is(err, storage.ErrNotFound) {
		return storage.LedgerInfo{}, fmt.Errorf("%w: the ledger's description is missing", storage.ErrDamaged)
	}
	if err != nil {
		return storage.LedgerInfo{}, err
	}
	return keys.DecodeInfo(stored)
}

// head reads the head of the ledger with the given number. A missing head is reported as damage.
func (d *Database) head(number keys.LedgerNumber) (storage.Head, error) {
	stored, err := d.get(keys.HeadKey(number))
	if errors.Is(err, storage.ErrNotFound) {
		return storage.Head{}, fmt.Errorf("%w: the ledger's head is missing", storage.ErrDamaged)
	}
	if err != nil {
		return storage.Head{}, err
	}
	return keys.DecodeHead(stored)
}

// Ledger implements storage.Database.
func (d *Database) Ledger(ctx context.Context, name string) (storage.Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.ledger(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("opening ledger %q: %w", name, err)
	}
	return l, nil
}

// ledger returns the handle of the ledger with the given name, opening the ledger if necessary. The
// caller must hold d.mu.
func (d *Database) ledger(ctx context.Context, name string) (*ledger, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	if l, opened := d.ledgers[name]; opened {
		return l, nil
	}
	stored, err := d.get(keys.NameKey(name))
	if err != nil {
		return nil, err
	}
	number, err := keys.DecodeNumber(stored)
	if err != nil {
		return nil, err
	}
	info, err := d.describe(name, keys.LedgerNumber(number))
	if err != nil {
		return nil, err
	}
	head, err := d.head(keys.LedgerNumber(number))
	if err != nil {
		return nil, err
	}
	redacted, err := d.redacted(keys.LedgerNumber(number))
	if err != nil {
		return nil, err
	}
	l := d.remember(keys.LedgerNumber(number), info, head)
	l.redacted.Store(redacted)
	return l, nil
}

// redacted reports whether any record of the ledger has been redacted.
func (d *Database) redacted(number keys.LedgerNumber) (bool, error) {
	start, end := keys.RedactionRange(number, 0)
	rows, err := d.engine.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return false, fmt.Errorf("looking for redactions: %w", damaged(err))
	}
	found := rows.First()
	return found, damaged(errors.Join(rows.Error(), rows.Close()))
}

// remember creates the handle of a ledger and adds it to d.ledgers. The caller must hold d.mu.
func (d *Database) remember(number keys.LedgerNumber, info storage.LedgerInfo, head storage.Head) *ledger {
	l := &ledger{db: d, number: number, recent: newRecent(recentDigests), digests: d.fillers.newDigestFilter(info.Name, number)}
	l.info.Store(&info)
	l.head.Store(&head)
	d.ledgers[info.Name] = l
	return l
}

// CreateLedger implements storage.Database. When it returns, the new ledger is durable.
func (d *Database) CreateLedger(ctx context.Context, info storage.LedgerInfo) (storage.Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.create(ctx, info)
	if err != nil {
		return nil, fmt.Errorf("creating ledger %q: %w", info.Name, err)
	}
	return l, nil
}

func (d *Database) create(ctx context.Context, info storage.LedgerInfo) (*ledger, error) {
	if err := d.writable(ctx); err != nil {
		return nil, err
	}
	_, err := d.get(keys.NameKey(info.Name))
	if err == nil {
		return nil, fmt.Errorf("%w: a ledger with this name already exists", storage.ErrConflict)
	}
	if !errors.Is(err, storage.ErrNotFound) {
		return nil, err
	}
	number, err := d.nextNumber()
	if err != nil {
		return nil, err
	}
	if _, err := d.get(keys.InfoKey(number)); !errors.Is(err, storage.ErrNotFound) {
		if err == nil {
			err = fmt.Errorf("%w: the next ledger number is %d, but that number is already in use", storage.ErrDamaged, number)
		}
		return nil, err
	}
	description, err := keys.EncodeInfo(info)
	if err != nil {
		return nil, err
	}
	c := newChange(d.engine, 0)
	c.set(keys.LastLedgerKey(), keys.EncodeNumber(uint32(number)))
	c.set(keys.NameKey(info.Name), keys.EncodeNumber(uint32(number)))
	c.set(keys.InfoKey(number), description)
	c.set(keys.HeadKey(number), keys.AppendHeadValue(nil, storage.Head{}))
	if err := c.commit(d.durability); err != nil {
		return nil, err
	}
	stored, err := keys.DecodeInfo(description)
	if err != nil {
		return nil, err
	}
	return d.remember(number, stored, storage.Head{}), nil
}

// nextNumber returns a ledger number that has never been assigned. The caller must hold d.mu, and
// must store the number under keys.LastLedgerKey in the change that creates the ledger.
func (d *Database) nextNumber() (keys.LedgerNumber, error) {
	last, err := d.lastNumber()
	if err != nil {
		return 0, err
	}
	if last+1 == 0 {
		return 0, errors.New("all ledger numbers are assigned")
	}
	return last + 1, nil
}

// lastNumber returns the last assigned ledger number, or 0 if none has been assigned.
func (d *Database) lastNumber() (keys.LedgerNumber, error) {
	stored, err := d.get(keys.LastLedgerKey())
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	last, err := keys.DecodeNumber(stored)
	return keys.LedgerNumber(last), err
}

// Close releases all resources. No method of a Store may be running, and later calls return an
// error. Close does not wait for erasures to finish. The next process that opens the database
// continues them.
func (d *Database) Close() error {
	if d.closed.Swap(true) {
		return fmt.Errorf("closing the database: %w", errClosed)
	}
	d.reserve.WaitsForSpace.Store(false)
	if !d.readOnly {
		d.eraser.Stop()
	}
	d.fillers.end()
	if err := errors.Join(d.engine.Close(), d.lock.Close()); err != nil {
		return fmt.Errorf("closing the database in %s: %w", d.space.Dir, err)
	}
	return nil
}
