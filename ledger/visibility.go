package ledger

import (
	"context"
	"errors"
	"fmt"

	"colophon/storage"
)

// logSetting names the setting that stores the visibility of the transparency log.
const logSetting = "log"

// The visibilities of a ledger's log (spec: Who may read the log).
const (
	PrivateLog = "private" // only clients with a scope for it may read it; the default
	PublicLog  = "public"  // anyone may read it
)

// Public reports whether anyone may read the transparency log.
func (l *Ledger) Public() bool { return l.public.Load() }

// Visibility returns PrivateLog or PublicLog.
func (l *Ledger) Visibility() string {
	if l.Public() {
		return PublicLog
	}
	return PrivateLog
}

// SetPublic sets the visibility of the transparency log, durably. It logs no event, and works
// on a frozen ledger too. Making a log private takes effect at once, even if storing it fails.
func (l *Ledger) SetPublic(ctx context.Context, public bool) error {
	l.publishing.Lock()
	defer l.publishing.Unlock()
	value := PublicLog
	if !public {
		value = PrivateLog
		l.public.Store(false)
	}
	if err := l.store.SetSetting(context.WithoutCancel(ctx), logSetting, []byte(value)); err != nil {
		return fmt.Errorf("making the log of ledger %q %s: %w", l.info.Name, value, err)
	}
	l.public.Store(public)
	return nil
}

// recoverVisibility loads the visibility of the log.
func (l *Ledger) recoverVisibility(ctx context.Context) error {
	value, err := l.store.Setting(ctx, logSetting)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading the visibility of the log: %w", err)
	case string(value) != PublicLog && string(value) != PrivateLog:
		return fmt.Errorf("%w: setting %q is %q", ErrDamaged, logSetting, value)
	}
	l.public.Store(string(value) == PublicLog)
	return nil
}

// Public reports whether the host has a ledger with that name whose log anyone may read.
func (h *Host) Public(name string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	l, ok := h.ledgers[name]
	return ok && l.Public()
}
