package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"colophon/ledger/record/members"
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
func (l *Ledger) Visibility() string { return valueOf(logSetting, l.Public()) }

// SetPublic sets the visibility of the transparency log, durably. It logs no event, and works
// on a frozen ledger too. Making a log private takes effect at once, even if storing it fails.
func (l *Ledger) SetPublic(ctx context.Context, public bool) error {
	l.setting.Lock()
	defer l.setting.Unlock()
	if !public {
		l.public.Store(false)
	}
	if err := storeSetting(ctx, l.store, logSetting, public, &l.public); err != nil {
		return fmt.Errorf("making the log of ledger %q %s: %w", l.info.Name, valueOf(logSetting, public), err)
	}
	return nil
}

// sourcesSetting names the setting that says whether the ledger accepts citation sets that
// cite unregistered sources.
const sourcesSetting = "unregistered_sources"

// The values of sourcesSetting (spec: Unregistered sources).
const (
	AcceptUnregistered = "accept" // append the set, flagged if any source is registered; the default
	RejectUnregistered = "reject" // refuse the set
)

// RejectsUnregistered reports whether the ledger refuses citation sets that cite unregistered
// sources. Callers of Submit must check that themselves.
func (l *Ledger) RejectsUnregistered() bool { return l.rejectsUnregistered.Load() }

// UnregisteredSources returns AcceptUnregistered or RejectUnregistered.
func (l *Ledger) UnregisteredSources() string {
	return valueOf(sourcesSetting, l.RejectsUnregistered())
}

// RejectUnregistered sets whether the ledger refuses citation sets that cite unregistered sources,
// durably. It logs no event, and works on a frozen ledger too.
func (l *Ledger) RejectUnregistered(ctx context.Context, reject bool) error {
	l.setting.Lock()
	defer l.setting.Unlock()
	if err := storeSetting(ctx, l.store, sourcesSetting, reject, &l.rejectsUnregistered); err != nil {
		return fmt.Errorf("setting %s of ledger %q to %s: %w", sourcesSetting, l.info.Name, valueOf(sourcesSetting, reject), err)
	}
	return nil
}

// telemetrySetting names the setting that says whether the ledger keeps the content of
// generations that arrive as telemetry, by OTLP.
const telemetrySetting = "otlp_content"

// The values of telemetrySetting (spec: Telemetry).
const (
	KeepTelemetry = "keep"   // keep what the sender sends; the default
	HashTelemetry = "hashes" // keep only its hashes
)

// HashesTelemetry reports whether the ledger keeps only the hashes of generations that arrive as
// telemetry. Callers of Submit must leave the content out themselves.
func (l *Ledger) HashesTelemetry() bool { return l.hashesTelemetry.Load() }

// TelemetryContent returns KeepTelemetry or HashTelemetry.
func (l *Ledger) TelemetryContent() string { return valueOf(telemetrySetting, l.HashesTelemetry()) }

// SetTelemetryContent sets whether the ledger keeps only the hashes of such generations, durably. It
// logs no event, and works on a frozen ledger too. To keep less takes effect at once, even if
// storing it fails.
func (l *Ledger) SetTelemetryContent(ctx context.Context, hashes bool) error {
	l.setting.Lock()
	defer l.setting.Unlock()
	if hashes {
		l.hashesTelemetry.Store(true)
	}
	if err := storeSetting(ctx, l.store, telemetrySetting, hashes, &l.hashesTelemetry); err != nil {
		return fmt.Errorf("setting %s of ledger %q to %s: %w", telemetrySetting, l.info.Name, valueOf(telemetrySetting, hashes), err)
	}
	return nil
}

// settings lists the settings of a ledger with their values. The first value is the default.
var settings = map[string][2]string{
	logSetting:       {PrivateLog, PublicLog},
	sourcesSetting:   {AcceptUnregistered, RejectUnregistered},
	telemetrySetting: {KeepTelemetry, HashTelemetry},
}

// SettingNames returns the names of all settings that a ledger may have in its store.
func SettingNames() []string {
	return append(slices.Sorted(maps.Keys(settings)), MemberSetting)
}

// CheckSetting returns an error if a ledger cannot have a setting of this name and value.
func CheckSetting(name string, value []byte) error {
	values, known := settings[name]
	switch {
	case name == MemberSetting:
		_, err := members.ReadSecret(value)
		return err
	case name == storage.ArchiveSetting:
		_, err := storage.ParseArchived(value)
		return err
	case !known:
		return errors.New("there is no setting with this name")
	case !slices.Contains(values[:], string(value)):
		return fmt.Errorf("its value is %.100q; it must be %s or %s", value, values[1], values[0])
	}
	return nil
}

// valueOf returns the second value of a setting if second is true, and its first value if not.
func valueOf(name string, second bool) string {
	if second {
		return settings[name][1]
	}
	return settings[name][0]
}

// storeSetting stores a setting durably. Then it sets isSecond to second.
func storeSetting(ctx context.Context, store storage.Store, name string, second bool, isSecond *atomic.Bool) error {
	if err := store.SetSetting(context.WithoutCancel(ctx), name, []byte(valueOf(name, second))); err != nil {
		return err
	}
	isSecond.Store(second)
	return nil
}

// recoverSettings loads the settings of a ledger.
func recoverSettings(ctx context.Context, l *Ledger) error {
	return errors.Join(recoverSetting(ctx, l.store, logSetting, &l.public), recoverSetting(ctx, l.store, sourcesSetting, &l.rejectsUnregistered),
		recoverSetting(ctx, l.store, telemetrySetting, &l.hashesTelemetry))
}

// recoverSetting loads a setting, and sets second if the setting has its second value.
func recoverSetting(ctx context.Context, store storage.Store, name string, second *atomic.Bool) error {
	value, err := store.Setting(ctx, name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading the setting %q: %w", name, err)
	}
	if CheckSetting(name, value) != nil {
		return fmt.Errorf("%w: the setting %q has the invalid value %q", ErrDamaged, name, value)
	}
	second.Store(string(value) == settings[name][1])
	return nil
}

// Public reports whether the host has a ledger with that name and a public log.
func (h *Host) Public(name string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	l, ok := h.ledgers[name]
	return ok && l.Public()
}
