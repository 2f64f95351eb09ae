package ledger

import (
	"context"
	"errors"
	"fmt"

	"colophon/storage"
)

// logSetting is the setting that says who may read the transparency log.
const logSetting = "log"

// The values of a ledger's setting for who may read its log (spec: Who may read the log).
const (
	PrivateLog = "private" // those who have a scope for it; the default
	PublicLog  = "public"  // everybody
)

// Public reports whether everybody may read the transparency log.
func (l *Ledger) Public() bool { return l.public.Load() }

// Visibility is PrivateLog or PublicLog.
func (l *Ledger) Visibility() string {
	if l.Public() {
		return PublicLog
	}
	return PrivateLog
}

// SetPublic says who may read the transparency log from now on, durably. It is no
// event, and a frozen ledger can be published too. A log that is made private is so
// at once, even where that cannot be stored.
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

// recoverVisibility reads who may read the log.
func (l *Ledger) recoverVisibility(ctx context.Context) error {
	value, err := l.store.Setting(ctx, logSetting)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading who may read the log: %w", err)
	case string(value) != PublicLog && string(value) != PrivateLog:
		return fmt.Errorf("%w: setting %q is %q", ErrDamaged, logSetting, value)
	}
	l.public.Store(string(value) == PublicLog)
	return nil
}

// Public reports whether there is a ledger of that name whose log everybody may
// read.
func (h *Host) Public(name string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	l, ok := h.ledgers[name]
	return ok && l.Public()
}
