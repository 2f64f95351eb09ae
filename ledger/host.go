package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
)

// DefaultName is the name of the ledger that a server creates at its first start.
const DefaultName = "default"

// Errors returned by the methods of Host.
var (
	// ErrInvalidName means that the name breaks the rules for ledger names.
	ErrInvalidName = errors.New("ledger: a name must consist of 1 to 64 lower-case letters, digits, and hyphens, and begin with a letter or digit")
	// ErrInvalidOrigin means that the origin breaks the rules for origins (spec: Origin and keys).
	ErrInvalidOrigin = errors.New("ledger: an origin must be a URL without a scheme, such as log.example.com/texts, with at most 256 letters, digits, and characters from -._~:/%")
	// ErrUnknownLedger means that the host has no ledger with the given name.
	ErrUnknownLedger = errors.New("ledger: no ledger with this name exists")
	// ErrExists means that the host already has a ledger with the given name.
	ErrExists = errors.New("ledger: a ledger with that name already exists")
	// ErrKeyOriginMismatch means that the origin of the staged key differs from the origin in the request.
	ErrKeyOriginMismatch = errors.New("ledger: the signing key stored under this name has a different origin; omit the origin to use that key, or move the key to another folder")
	// ErrKeyInUse means that another ledger of the host signs with the key, has signed with it in
	// the past, or has it staged as its next key.
	ErrKeyInUse = errors.New("ledger: another ledger already uses this signing key; move the key to another folder, and create a new one with colophon keygen")
	// ErrOriginInUse means that another ledger of the host already uses the origin.
	ErrOriginInUse = errors.New("ledger: another ledger already uses this origin; choose a different one")
	// ErrKeyWithoutLedger means that the key has signed a ledger that is not in the database.
	ErrKeyWithoutLedger = errors.New("ledger: the signing key stored under this name has signed for a ledger that is not in the database; restore the database, or move the key to another folder to begin a new log")
	// ErrMarkWithoutLedger means that, according to the high-water mark, a ledger with the given
	// name has signed checkpoints, but the ledger is not in the database.
	ErrMarkWithoutLedger = errors.New("ledger: a high-water mark exists for a ledger with this name, but the ledger is not in the database; restore the database, or move the mark to another folder to begin a new log")
)

var originPattern = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._~:%-]|/[a-zA-Z0-9._~:%-])*/?$`)

const maxOrigin = 256 // maximum length in bytes

// CheckOrigin returns ErrInvalidOrigin if origin cannot be the origin of a checkpoint (spec: Origin and
// keys).
func CheckOrigin(origin string) error {
	if len(origin) > maxOrigin || !originPattern.MatchString(origin) {
		return ErrInvalidOrigin
	}
	return nil
}

// KeyStore stores the signing keys of a server's ledgers. A new key is first staged, and is
// confirmed once its ledger is in the database. If a confirmed key has no ledger, the database was
// lost, and signing a second log with that key would fork the first one. A change is durable when
// its method returns without an error.
type KeyStore interface {
	// Load returns the signer of a ledger, or storage.ErrNotFound.
	Load(ledger string) (*proofs.Signer, error)
	// LoadStaged returns the signer that is staged for a ledger, or storage.ErrNotFound.
	LoadStaged(ledger string) (*proofs.Signer, error)
	// Stage stores the signer of a ledger that is about to be created.
	Stage(ledger string, signer *proofs.Signer) error
	// ConfirmStaged makes the staged signer the ledger's signer. It returns storage.ErrNotFound if
	// there is no staged signer.
	ConfirmStaged(ledger string) error
}

// RotatingKeyStore extends KeyStore with key rotation (spec: Key rotation). The log determines which keys
// sign. A new key is stored before the event that introduces it is logged, and becomes the current key
// afterwards.
type RotatingKeyStore interface {
	KeyStore
	// LoadOtherSigners returns the stored signers of a ledger except the one that Load returns.
	LoadOtherSigners(ledger string) ([]*proofs.Signer, error)
	// LoadNext returns a stored signer that the ledger's history does not contain yet, or
	// storage.ErrNotFound.
	LoadNext(ledger string, keys *proofs.KeyHistory) (*proofs.Signer, error)
	// StageNext stores a signer for the next rotation. It returns ErrExternalKeys if the store cannot
	// write this ledger's keys.
	StageNext(ledger string, signer *proofs.Signer) error
	// Reconcile makes Load return the newest key in the history. It keeps the previous key until
	// that key is retired, and then removes it. The history must not be older than the stored
	// keys.
	Reconcile(ledger string, keys *proofs.KeyHistory) error
}

// Host holds the open ledgers of one server. Its methods are safe for concurrent use.
type Host struct {
	database storage.Database
	keys     KeyStore
	config   func(ledger string) Config

	creating sync.Mutex // held while a ledger is created or opened

	mu      sync.RWMutex // guards the fields below; never held during I/O
	ledgers map[string]*Ledger
	onOpen  []func(*Ledger) error
}

// OpenHost opens every ledger in a database. config returns the configuration of a ledger without
// its signers. If a ledger cannot be opened, OpenHost closes all ledgers and returns the error,
// with two exceptions. It skips a ledger whose first event cannot be written yet because disk space
// or the signing key is missing, or because another server is creating the ledger. If the signing
// keys of a ledger are missing or do not match its log, it opens the ledger, but the ledger refuses
// writes.
func OpenHost(ctx context.Context, database storage.Database, keys KeyStore, config func(ledger string) Config) (*Host, error) {
	h := &Host{database: database, keys: keys, config: config, ledgers: make(map[string]*Ledger)}
	infos, err := database.Ledgers(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing ledgers: %w", err)
	}
	for _, info := range infos {
		_, err := h.open(ctx, info.Name, AnonymousActor)
		if errors.Is(err, errNoFirstEvent) {
			config(info.Name).withDefaults().Logger.Error("skipping a ledger until the next start because its first event cannot be written", "error", err)
			continue
		}
		if err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	return h, nil
}

// OnOpen calls f for every open ledger, and later for each ledger that is added to the host, before
// other callers can reach that ledger. Call OnOpen before the host is shared.
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
	h.onOpen = append(slices.Clip(h.onOpen), f)
	return nil
}

// open opens a ledger that is in the database, and adds it to the host. If it has no events,
// open writes its first event with creator as the actor.
func (h *Host) open(ctx context.Context, name, creator string) (*Ledger, error) {
	store, err := h.database.Ledger(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("opening ledger %q: %w", name, err)
	}
	config := h.config(name)
	config.Creator = creator
	leased, shared := store.(storage.LeasedStore)
	config.standby = shared && !leased.HoldsLease()
	before, _ := h.Ledger(name)
	if before != nil {
		config.published = before.sequencer.published
	}
	rotating, ok := h.keys.(RotatingKeyStore)
	if !config.standby {
		if err := h.loadKeys(ctx, store, name, &config); err != nil {
			return nil, err
		}
	}
	if err := h.checkOpening(ctx, store, config); err != nil { // before Open can sign a first event
		return nil, err
	}
	l, err := Open(ctx, store, config)
	if err != nil {
		return nil, err
	}
	if ok && !l.standby && l.signing.refusal == nil { // finish a rotation that stopped after logging its event but before updating the stored keys
		if err := rotating.Reconcile(name, l.KeyHistory()); err != nil {
			l.signing.refuseUnreconciled(err)
		}
	}
	if before == nil {
		h.mu.RLock()
		onOpen := h.onOpen
		h.mu.RUnlock()
		for _, f := range onOpen {
			if err := f(l); err != nil {
				return nil, errors.Join(fmt.Errorf("opening ledger %q: %w", name, err), l.Close())
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ledgers[name] = l
	return l, nil
}

// OpenLedger opens a ledger in a shared database. It opens the ledger for writing if this server
// holds the lease on the ledger (storage.LeasedStore), and otherwise for reading. If the ledger is
// already open, OpenLedger first commits the records that the ledger has accepted. Functions
// registered with Ledger.OnCommit remain registered.
func (h *Host) OpenLedger(ctx context.Context, name string) (*Ledger, error) {
	before, _ := h.Ledger(name)
	h.StepDown(name)
	h.creating.Lock()
	defer h.creating.Unlock()
	l, err := h.open(ctx, name, AnonymousActor)
	if err == nil && before != nil {
		l.sequencer.notify(Commit{Time: time.UnixMicro(l.Head().TimeMicros), ByOtherServer: true})
	}
	return l, err
}

// StepDown closes a ledger for writing, so that another server can write it. New writes fail with
// storage.ErrLeaseNotHeld, and reads continue. StepDown returns after the records that the ledger has
// already accepted are committed.
func (h *Host) StepDown(name string) {
	if l, err := h.Ledger(name); err == nil {
		end(l, storage.ErrLeaseNotHeld)
	}
}

// Status describes what a server does with a ledger.
type Status uint8

// The roles that a server can have for a ledger.
const (
	StatusAbsent   Status = iota // the ledger is not open
	StatusClosed                 // the ledger was closed, or another server has taken over its lease
	StatusReadOnly               // the ledger is open for reading only, or its keys do not match its log
	StatusWritable               // the ledger is open for reading and writing
)

// Status returns what this server does with a ledger.
func (h *Host) Status(name string) Status {
	l, err := h.Ledger(name)
	switch {
	case err != nil:
		return StatusAbsent
	case l.queue.IsClosed():
		return StatusClosed
	case l.signing.refusal != nil:
		return StatusReadOnly
	}
	return StatusWritable
}

// CheckSigningKeys returns nil if this server has the keys that must sign the next commit of a stored
// ledger. It reads the keys from the key store each time, because an operator may have changed
// them. It does not modify anything.
func (h *Host) CheckSigningKeys(ctx context.Context, name string) error {
	store, err := h.database.Ledger(ctx, name)
	if err != nil {
		return err
	}
	config := h.config(name)
	config.Signer, err = h.keys.Load(name)
	if errors.Is(err, storage.ErrNotFound) {
		if staged, stagedErr := h.keys.LoadStaged(name); stagedErr == nil {
			config.Signer, err = staged, nil
		}
	}
	if err != nil {
		return err
	}
	if rotating, ok := h.keys.(RotatingKeyStore); ok {
		if config.OtherSigners, err = rotating.LoadOtherSigners(name); err != nil {
			return err
		}
	}
	info, err := store.Info(ctx)
	if err != nil {
		return err
	}
	if config.Signer.Origin() != info.Origin {
		return fmt.Errorf("%w: the key's origin is %s, but the ledger's origin is %s", ErrBadKey, config.Signer.Origin(), info.Origin)
	}
	history, err := ReadKeyHistory(ctx, store)
	if err != nil || history == nil {
		return err
	}
	s := &signing{config: &config, name: name}
	for _, key := range []*proofs.Verifier{history.CurrentKey(), history.OverlappingKey()} {
		if key != nil && s.signerFor(key) == nil {
			return fmt.Errorf("%w: %s", ErrPreviousKeyMissing, key)
		}
	}
	return nil
}

// loadKeys loads the stored keys of a ledger into config. It records a wrong or missing key in
// config.KeyErr instead of returning an error, so that the fault affects only this ledger.
func (h *Host) loadKeys(ctx context.Context, store storage.Store, name string, config *Config) (err error) {
	config.Signer, err = h.loadOrConfirm(ctx, name, store)
	if errors.Is(err, ErrBadKey) || errors.Is(err, storage.ErrNotFound) {
		config.KeyErr, err = err, nil
	}
	if err != nil {
		return fmt.Errorf("loading the signing key of ledger %q: %w", name, err)
	}
	rotating, ok := h.keys.(RotatingKeyStore)
	if !ok {
		return nil
	}
	config.OtherSigners, err = rotating.LoadOtherSigners(name)
	if errors.Is(err, ErrBadKey) {
		config.KeyErr, err = errors.Join(config.KeyErr, err), nil
	}
	if err != nil {
		return fmt.Errorf("loading the signing keys of ledger %q: %w", name, err)
	}
	return nil
}

// loadOrConfirm returns the newest stored key of a ledger. If a creation was interrupted before its
// key was confirmed, loadOrConfirm confirms the staged key. If the log contains other keys but not
// the staged one, loadOrConfirm returns the staged key without confirming it.
func (h *Host) loadOrConfirm(ctx context.Context, name string, store storage.Store) (*proofs.Signer, error) {
	signer, err := h.keys.Load(name)
	if !errors.Is(err, storage.ErrNotFound) {
		return signer, err
	}
	staged, stagedErr := h.keys.LoadStaged(name)
	if errors.Is(stagedErr, storage.ErrNotFound) {
		return nil, err // err names the missing key file
	}
	if stagedErr != nil {
		return nil, stagedErr
	}
	switch history, err := ReadKeyHistory(ctx, store); {
	case err != nil:
		return nil, err
	case history != nil && !history.Contains(staged.Verifier()):
		return staged, nil // Open does not sign anything with this key
	}
	if err := h.keys.ConfirmStaged(name); err != nil {
		return nil, err
	}
	return h.keys.Load(name)
}

// CreateOptions describes a ledger to create.
type CreateOptions struct {
	Name string // 1 to 64 lower-case letters, digits, and hyphens (see CheckName)
	// Origin is the origin of the ledger's checkpoints. It can never be changed. If it is empty,
	// Create chooses an origin that contains the key's fingerprint and is therefore unique (spec:
	// Origin and keys).
	Origin string
	// MismatchPolicy says whether the ledger accepts records that claim wrong hashes:
	// MismatchPolicyAccept (the default) or MismatchPolicyReject.
	MismatchPolicy string
	// Actor names who creates the ledger, for its first event. The default is AnonymousActor. If
	// the creation is interrupted before the event is written, the next start writes the event with
	// AnonymousActor as the actor.
	Actor string
}

// CheckName returns ErrInvalidName if the name breaks the rules for ledger names.
func CheckName(name string) error {
	if !record.IsLedgerName(name) {
		return ErrInvalidName
	}
	return nil
}

// Create durably creates a ledger. It returns ErrInvalidName, ErrInvalidOrigin, ErrKeyOriginMismatch, ErrKeyInUse,
// ErrOriginInUse, ErrKeyWithoutLedger, ErrMarkWithoutLedger, or ErrExists if the request cannot
// succeed. Create does not stop if ctx is canceled. If a crash interrupts the creation, the next
// call to Create with the same name completes it and returns ErrExists.
func (h *Host) Create(ctx context.Context, n CreateOptions) (*Ledger, error) {
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
		if err := l.store.CheckWritable(ctx); err != nil && !errors.Is(err, storage.ErrLeaseNotHeld) { // any open ledger shows whether the shared database is writable
			return nil, fmt.Errorf("creating ledger %q: %w", n.Name, err)
		}
	}
	if _, err := h.Ledger(n.Name); err == nil {
		return nil, fmt.Errorf("creating ledger %q: %w", n.Name, ErrExists)
	}
	err := h.create(ctx, n)
	if err != nil && !errors.Is(err, ErrExists) {
		return nil, err
	}
	l, openErr := h.open(ctx, n.Name, n.Actor)
	return l, errors.Join(err, openErr)
}

// create adds a ledger to the database. It returns ErrExists if the database already has it.
func (h *Host) create(ctx context.Context, n CreateOptions) error {
	switch _, err := h.database.Ledger(ctx, n.Name); {
	case err == nil:
		return fmt.Errorf("creating ledger %q: %w", n.Name, ErrExists)
	case !errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("creating ledger %q: %w", n.Name, err)
	}
	config := h.config(n.Name).withDefaults()
	if config.HighWaterMarks != nil {
		switch _, err := config.HighWaterMarks.Mark(n.Name); {
		case err == nil:
			return fmt.Errorf("creating ledger %q: %w", n.Name, ErrMarkWithoutLedger)
		case !errors.Is(err, storage.ErrNotFound):
			return fmt.Errorf("reading the high-water mark of ledger %q: %w", n.Name, err)
		}
	}
	if n.Origin != "" { // check the origin before generating a key
		if err := h.checkUnique(n.Name, n.Origin); err != nil {
			return err
		}
	}
	signer, err := h.stagedSigner(n.Name, n.Origin)
	if err != nil {
		return err
	}
	if err := h.checkUnique(n.Name, signer.Origin(), signer.Verifier()); err != nil {
		return err
	}
	info := storage.LedgerInfo{Name: n.Name, Origin: signer.Origin(), Created: config.Clock().UTC(), RejectMismatch: n.MismatchPolicy == MismatchPolicyReject}
	_, err = h.database.CreateLedger(ctx, info)
	switch {
	case errors.Is(err, storage.ErrConflict): // another server has just created the ledger in this database
		return fmt.Errorf("creating ledger %q: %w", n.Name, ErrExists)
	case err != nil:
		return fmt.Errorf("creating ledger %q: %w", n.Name, err)
	}
	return nil
}

// stagedSigner returns the staged key of a new ledger. If neither an operator nor an interrupted
// creation has staged a key, stagedSigner generates and stages one.
func (h *Host) stagedSigner(name, origin string) (*proofs.Signer, error) {
	switch _, err := h.keys.Load(name); {
	case err == nil:
		return nil, fmt.Errorf("creating ledger %q: %w", name, ErrKeyWithoutLedger)
	case !errors.Is(err, storage.ErrNotFound):
		return nil, fmt.Errorf("reading the signing key of ledger %q: %w", name, err)
	}
	switch signer, err := h.keys.LoadStaged(name); {
	case err == nil && origin != "" && signer.Origin() != origin:
		return nil, fmt.Errorf("creating ledger %q: %w", name, ErrKeyOriginMismatch)
	case err == nil:
		return signer, nil
	case !errors.Is(err, storage.ErrNotFound):
		return nil, fmt.Errorf("reading the signing key of ledger %q: %w", name, err)
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
		return nil, fmt.Errorf("storing the key of ledger %q: %w", name, err)
	}
	return signer, nil
}

// Ledger returns the open ledger with the given name, or ErrUnknownLedger.
func (h *Host) Ledger(name string) (*Ledger, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	l, ok := h.ledgers[name]
	if !ok {
		return nil, fmt.Errorf("finding ledger %q: %w", name, ErrUnknownLedger)
	}
	return l, nil
}

// Ledgers returns the open ledgers, sorted by name.
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

// Close closes the ledgers after committing the records that they have accepted. It does not close
// the database.
func (h *Host) Close() error {
	var errs []error
	for _, l := range h.Ledgers() {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
