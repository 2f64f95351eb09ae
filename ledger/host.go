package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"colophon/proofs"
	"colophon/storage"
)

// Default is the name of the ledger that a server makes at its first start.
const Default = "default"

// ErrName: not a name that a ledger can have.
var ErrName = errors.New("ledger: a name has 1 to 64 lower-case letters, digits and hyphens, and begins with a letter or digit")

// ErrOrigin: not an origin that a checkpoint can have.
var ErrOrigin = errors.New("ledger: an origin is a URL without scheme, such as log.example.com/texts: at most 256 letters, digits and -._~:/%")

// ErrUnknown: the host has no ledger of that name.
var ErrUnknown = errors.New("ledger: there is no ledger of that name")

// ErrExists: the host has a ledger of that name.
var ErrExists = errors.New("ledger: there is a ledger of that name")

// Why a ledger cannot be made under a name whose signing key is there.
var (
	// ErrKeyOrigin: the staged key has another origin than the one asked for.
	ErrKeyOrigin = errors.New("ledger: the signing key that is kept for this name has another origin; leave the origin out to use it, or move the key away")
	// ErrKeyInUse: another ledger of the host signs, has signed or is to sign with the key.
	ErrKeyInUse = errors.New("ledger: another ledger has this signing key, and no two may share one; move the key away, and make another with colophon keygen")
	// ErrOriginInUse: another ledger of the host signs under the origin.
	ErrOriginInUse = errors.New("ledger: another ledger has this origin, and no two may share one; choose another origin")
	// ErrKeyWithoutLedger: the key has signed a ledger that is not there.
	ErrKeyWithoutLedger = errors.New("ledger: the signing key of this name has signed a ledger that is not in the database; restore the database, or move the key away to begin another log")
	// ErrMarkWithoutLedger: a ledger of that name has signed, and is not there.
	ErrMarkWithoutLedger = errors.New("ledger: a ledger of this name has signed what is not in the database, as its high-water mark says; restore the database, or move the mark away to begin another log")
)

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	originPattern = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._~:%-]|/[a-zA-Z0-9._~:%-])*/?$`)
)

const maxOrigin = 256 // bytes

// CheckOrigin is ErrOrigin for what is no origin (spec: Origin and keys).
func CheckOrigin(origin string) error {
	if len(origin) > maxOrigin || !originPattern.MatchString(origin) {
		return ErrOrigin
	}
	return nil
}

// Keys keeps the signing keys of a server's ledgers. A new key is staged first
// and confirmed when the ledger that it signs for is in the database, so that a
// confirmed key without its ledger always means that the database was lost: to
// sign a second log with it would be a fork. What returned without error
// survives the loss of power.
type Keys interface {
	// Load is the signer of a ledger; storage.ErrNotFound if there is none.
	Load(ledger string) (*proofs.Signer, error)
	// Staged is a signer that waits for its ledger; storage.ErrNotFound if none.
	Staged(ledger string) (*proofs.Signer, error)
	// Stage keeps a signer for a ledger that is to be made.
	Stage(ledger string, signer *proofs.Signer) error
	// Confirm makes the staged signer that of the ledger; storage.ErrNotFound if
	// there is none.
	Confirm(ledger string) error
}

// RotatingKeys are Keys that can be changed (spec: Key rotation). What signs is said by the log:
// keys are kept first, and put in their places afterwards.
type RotatingKeys interface {
	Keys
	// Others are the signers that are kept of a ledger beside the one that Load gives.
	Others(ledger string) ([]*proofs.Signer, error)
	// Next is a signer that is kept and none of the ledger's yet; storage.ErrNotFound if
	// there is none.
	Next(ledger string, keys *proofs.KeyHistory) (*proofs.Signer, error)
	// StageNext keeps a signer that is to follow; ErrKeysFixed where that is not possible.
	StageNext(ledger string, signer *proofs.Signer) error
	// Settle makes the newest key the one that Load gives, keeps the one before while
	// it signs too, and forgets what is retired. It is not called with a history that
	// is older than the keys.
	Settle(ledger string, keys *proofs.KeyHistory) error
}

// Host is the ledgers of one server.
type Host struct {
	database storage.Database
	keys     Keys
	config   func(ledger string) Config

	creating sync.Mutex // held while a ledger is made or opened

	mu      sync.RWMutex // guards what follows; never held during I/O
	ledgers map[string]*Ledger
	onOpen  func(*Ledger) error
}

// OpenHost opens every ledger of a database. config gives what each needs
// beside its signer. If one cannot be opened none is, but for one whose creation was cut
// short and that has no first event yet, while the disk is full or its key is missing. One
// whose signing keys are missing or do not fit its log is opened, and takes no writes.
func OpenHost(ctx context.Context, database storage.Database, keys Keys, config func(ledger string) Config) (*Host, error) {
	h := &Host{database: database, keys: keys, config: config, ledgers: make(map[string]*Ledger),
		onOpen: func(*Ledger) error { return nil }}
	infos, err := database.Ledgers(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing ledgers: %w", err)
	}
	for _, info := range infos {
		_, err := h.open(ctx, info.Name, Anonymous)
		if errors.Is(err, errNotBegun) {
			config(info.Name).withDefaults().Log.Error("a ledger without an event is left out until it can be made", "error", err)
			continue
		}
		if err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	return h, nil
}

// OnOpen calls f for every ledger, and later for each that is made, before
// anybody else sees it. It is called once, when the host is new.
func (h *Host) OnOpen(f func(*Ledger) error) error {
	h.creating.Lock()
	defer h.creating.Unlock()
	for _, l := range h.Ledgers() {
		if err := f(l); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onOpen = f
	return nil
}

// open opens a ledger that is in the database, and publishes it. One that has no
// event yet gets its first, by creator.
func (h *Host) open(ctx context.Context, name, creator string) (*Ledger, error) {
	store, err := h.database.Ledger(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("opening ledger %q: %w", name, err)
	}
	config := h.config(name)
	config.Creator = creator
	config.Signer, err = h.present(ctx, name, store)
	if errors.Is(err, errBadKey) || errors.Is(err, storage.ErrNotFound) {
		config.KeyFault, err = err, nil // of this ledger alone
	}
	if err != nil {
		return nil, fmt.Errorf("signing key of ledger %q: %w", name, err)
	}
	rotating, ok := h.keys.(RotatingKeys)
	if ok {
		config.Signers, err = rotating.Others(name)
		if errors.Is(err, errBadKey) {
			config.KeyFault, err = errors.Join(config.KeyFault, err), nil
		}
		if err != nil {
			return nil, fmt.Errorf("signing keys of ledger %q: %w", name, err)
		}
	}
	if err := h.checkOpening(ctx, store, config); err != nil { // before Open signs a first event
		return nil, err
	}
	l, err := Open(ctx, store, config)
	if err != nil {
		return nil, err
	}
	if ok && l.refusal == nil { // a rotation may have been cut short between event and key
		if err := rotating.Settle(name, l.Keys()); err != nil {
			l.refuseSettling(err)
		}
	}
	h.mu.RLock()
	onOpen := h.onOpen
	h.mu.RUnlock()
	if err := onOpen(l); err != nil {
		return nil, errors.Join(fmt.Errorf("opening ledger %q: %w", name, err), l.Close())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ledgers[name] = l
	return l, nil
}

// present is the newest key that is kept of a ledger. One that is staged is confirmed if
// the ledger's creation was cut short between database and key, but not if the log does not
// know it.
func (h *Host) present(ctx context.Context, name string, store storage.Store) (*proofs.Signer, error) {
	signer, err := h.keys.Load(name)
	if !errors.Is(err, storage.ErrNotFound) {
		return signer, err
	}
	staged, stagedErr := h.keys.Staged(name)
	if errors.Is(stagedErr, storage.ErrNotFound) {
		return nil, err // which names the file
	}
	if stagedErr != nil {
		return nil, stagedErr
	}
	switch history, err := StoredKeys(ctx, store); {
	case err != nil:
		return nil, err
	case history != nil && !history.Trusts(staged.Verifier()):
		return staged, nil // Open signs nothing with it
	}
	if err := h.keys.Confirm(name); err != nil {
		return nil, err
	}
	return h.keys.Load(name)
}

// New describes a ledger to make.
type New struct {
	Name string
	// Origin of its checkpoints, for ever; empty means one that contains the
	// key's fingerprint, so that no two ledgers are alike (spec: Origin and keys).
	Origin string
	// OnMismatch is AcceptMismatch or RejectMismatch; empty means the former.
	OnMismatch string
	// Actor is who makes it, as its first event says; empty means Anonymous. An
	// event that is left to the next start has no other.
	Actor string
}

// CheckName is ErrName for what is no name of a ledger.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return ErrName
	}
	return nil
}

// Create makes a ledger, durably. The error is ErrName, ErrOrigin, ErrKeyOrigin,
// ErrKeyInUse, ErrOriginInUse, ErrKeyWithoutLedger or ErrExists where the request is at fault. A creation
// that has begun is finished even if ctx is done, and one that was cut short is
// finished by the next that asks for the same name, which gets ErrExists.
func (h *Host) Create(ctx context.Context, n New) (*Ledger, error) {
	if err := CheckName(n.Name); err != nil {
		return nil, err
	}
	if n.Origin != "" {
		if err := CheckOrigin(n.Origin); err != nil {
			return nil, err
		}
	}
	ctx = context.WithoutCancel(ctx)
	h.creating.Lock()
	defer h.creating.Unlock()
	for _, l := range h.Ledgers() {
		if err := l.store.Writable(ctx); err != nil { // all are in one database
			return nil, fmt.Errorf("creating ledger %q: %w", n.Name, err)
		}
	}
	if _, err := h.Ledger(n.Name); err == nil {
		return nil, fmt.Errorf("ledger %q: %w", n.Name, ErrExists)
	}
	err := h.create(ctx, n)
	if err != nil && !errors.Is(err, ErrExists) {
		return nil, err
	}
	l, openErr := h.open(ctx, n.Name, n.Actor)
	return l, errors.Join(err, openErr)
}

// create puts a ledger into the database; ErrExists if it is there.
func (h *Host) create(ctx context.Context, n New) error {
	switch _, err := h.database.Ledger(ctx, n.Name); {
	case err == nil:
		return fmt.Errorf("ledger %q: %w", n.Name, ErrExists)
	case !errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("creating ledger %q: %w", n.Name, err)
	}
	config := h.config(n.Name).withDefaults()
	if config.Marks != nil {
		switch _, err := config.Marks.Mark(n.Name); {
		case err == nil:
			return fmt.Errorf("ledger %q: %w", n.Name, ErrMarkWithoutLedger)
		case !errors.Is(err, storage.ErrNotFound):
			return fmt.Errorf("high-water mark of ledger %q: %w", n.Name, err)
		}
	}
	if n.Origin != "" { // before a key is made
		if err := h.checkUnique(n.Name, n.Origin); err != nil {
			return err
		}
	}
	signer, err := h.signer(n.Name, n.Origin)
	if err != nil {
		return err
	}
	if err := h.checkUnique(n.Name, signer.Origin(), signer.Verifier()); err != nil {
		return err
	}
	info := storage.Info{Name: n.Name, Origin: signer.Origin(), Created: config.Clock().UTC(), RejectMismatch: n.OnMismatch == RejectMismatch}
	if _, err := h.database.Create(ctx, info); err != nil {
		return fmt.Errorf("creating ledger %q: %w", n.Name, err)
	}
	return nil
}

// signer is the staged key of a ledger that is about to be made: one that an
// operator or a creation that was cut short left, or a new one.
func (h *Host) signer(name, origin string) (*proofs.Signer, error) {
	switch _, err := h.keys.Load(name); {
	case err == nil:
		return nil, fmt.Errorf("ledger %q: %w", name, ErrKeyWithoutLedger)
	case !errors.Is(err, storage.ErrNotFound):
		return nil, fmt.Errorf("signing key of ledger %q: %w", name, err)
	}
	switch signer, err := h.keys.Staged(name); {
	case err == nil && origin != "" && signer.Origin() != origin:
		return nil, fmt.Errorf("ledger %q: %w", name, ErrKeyOrigin)
	case err == nil:
		return signer, nil
	case !errors.Is(err, storage.ErrNotFound):
		return nil, fmt.Errorf("signing key of ledger %q: %w", name, err)
	}
	key := proofs.GenerateKey()
	if origin == "" {
		origin = "colophon.invalid/" + name + "/" + key.Fingerprint()
	}
	signer, err := key.Signer(origin)
	if err != nil {
		return nil, err
	}
	if err := h.keys.Stage(name, signer); err != nil {
		return nil, fmt.Errorf("keeping the key of ledger %q: %w", name, err)
	}
	return signer, nil
}

// Ledger is the ledger of that name; ErrUnknown if there is none.
func (h *Host) Ledger(name string) (*Ledger, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	l, ok := h.ledgers[name]
	if !ok {
		return nil, fmt.Errorf("ledger %q: %w", name, ErrUnknown)
	}
	return l, nil
}

// Ledgers lists all, by name.
func (h *Host) Ledgers() []*Ledger {
	h.mu.RLock()
	defer h.mu.RUnlock()
	list := make([]*Ledger, 0, len(h.ledgers))
	for _, l := range h.ledgers {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *Ledger) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// Close drains and closes every ledger. The database stays open.
func (h *Host) Close() error {
	var errs []error
	for _, l := range h.Ledgers() {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
