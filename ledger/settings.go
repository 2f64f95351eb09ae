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

// The values of logSetting (spec: Who may read the log).
const (
	LogVisibilityPrivate = "private" // only clients with a suitable scope may read the log; the default
	LogVisibilityPublic  = "public"  // anyone may read the log
)

// HasPublicLog reports whether anyone may read the transparency log.
func (l *Ledger) HasPublicLog() bool { return l.sequencer.public.Load() }

// SetLogPublic durably sets whether anyone may read the transparency log. It does not log an event,
// and also works on a frozen ledger. Making a log private takes effect immediately, even if storing
// the setting fails.
func (l *Ledger) SetLogPublic(ctx context.Context, public bool) error {
	return setSetting(ctx, l, logSetting, public, !public, &l.sequencer.public)
}

// sourcesSetting names the setting that controls whether the ledger accepts citation sets that cite
// unregistered sources.
const sourcesSetting = "unregistered_sources"

// The values of sourcesSetting (spec: Unregistered sources).
const (
	UnregisteredSourcesAccept = "accept" // append the citation set, and flag it if any source has ever been registered; the default
	UnregisteredSourcesReject = "reject" // refuse the citation set
)

// RejectsUnregisteredSources reports whether the ledger rejects citation sets that cite unregistered
// sources. Submit does not enforce this; its callers must.
func (l *Ledger) RejectsUnregisteredSources() bool { return l.sequencer.rejectsUnregistered.Load() }

// SetRejectUnregisteredSources durably sets whether the ledger rejects citation sets that cite unregistered
// sources. It does not log an event, and also works on a frozen ledger.
func (l *Ledger) SetRejectUnregisteredSources(ctx context.Context, reject bool) error {
	return setSetting(ctx, l, sourcesSetting, reject, false, &l.sequencer.rejectsUnregistered)
}

// telemetrySetting names the setting that controls whether the ledger keeps the content of
// generations that arrive as telemetry over OTLP.
const telemetrySetting = "otlp_content"

// The values of telemetrySetting (spec: Telemetry).
const (
	TelemetryContentKeep   = "keep"   // keep the content; the default
	TelemetryContentHashes = "hashes" // keep only the hashes of the content
)

// SetTelemetryHashesOnly durably sets whether the ledger keeps only the hashes of generations that
// arrive as telemetry. Submit does not enforce this; its callers must leave the content out.
// SetTelemetryHashesOnly does not log an event, and also works on a frozen ledger. Restricting
// telemetry to hashes takes effect immediately, even if storing the setting fails.
func (l *Ledger) SetTelemetryHashesOnly(ctx context.Context, hashes bool) error {
	return setSetting(ctx, l, telemetrySetting, hashes, hashes, &l.sequencer.hashesTelemetry)
}

// Settings holds the values of a ledger's settings.
type Settings struct {
	LogVisibility       string // LogVisibilityPrivate or LogVisibilityPublic
	UnregisteredSources string // UnregisteredSourcesAccept or UnregisteredSourcesReject
	TelemetryContent    string // TelemetryContentKeep or TelemetryContentHashes
}

// Settings returns the current values of the settings.
func (l *Ledger) Settings() Settings {
	return Settings{
		LogVisibility: valueOf(logSetting, l.HasPublicLog()), UnregisteredSources: valueOf(sourcesSetting, l.RejectsUnregisteredSources()),
		TelemetryContent: valueOf(telemetrySetting, l.sequencer.hashesTelemetry.Load()),
	}
}

// settings maps the name of each setting to its two possible values. The first value is the
// default.
var settings = map[string][2]string{
	logSetting:       {LogVisibilityPrivate, LogVisibilityPublic},
	sourcesSetting:   {UnregisteredSourcesAccept, UnregisteredSourcesReject},
	telemetrySetting: {TelemetryContentKeep, TelemetryContentHashes},
}

// SettingNames returns the names of all settings that a ledger may have in its store, except
// storage.ArchiveSetting.
func SettingNames() []string {
	return append(slices.Sorted(maps.Keys(settings)), PayloadMemberSecretSetting)
}

// CheckSetting returns an error if name is not the name of a setting or if value is not a valid
// value for it.
func CheckSetting(name string, value []byte) error {
	values, known := settings[name]
	switch {
	case name == PayloadMemberSecretSetting:
		_, err := members.ParseSecret(value)
		return err
	case name == storage.ArchiveSetting:
		_, err := storage.ParseArchivedRange(value)
		return err
	case !known:
		return errors.New("unknown setting")
	case !slices.Contains(values[:], string(value)):
		return fmt.Errorf("invalid value %.100q; the value must be %q or %q", value, values[1], values[0])
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

// setSetting durably sets a setting to one of its two values: the second if second is true, and the first
// otherwise. It then stores second in cached. If immediately is true, it updates cached before it stores
// the setting, and does not revert cached if storing fails.
func setSetting(ctx context.Context, l *Ledger, name string, second, immediately bool, cached *atomic.Bool) error {
	l.sequencer.setting.Lock()
	defer l.sequencer.setting.Unlock()
	if immediately {
		cached.Store(second)
	}
	if err := l.store.SetSetting(context.WithoutCancel(ctx), name, []byte(valueOf(name, second))); err != nil {
		return fmt.Errorf("changing the setting %s of ledger %q to %s: %w", name, l.info.Name, valueOf(name, second), err)
	}
	cached.Store(second)
	return nil
}

// recoverSettings loads the settings of a ledger.
func recoverSettings(ctx context.Context, l *Ledger) error {
	return errors.Join(recoverSetting(ctx, l.store, logSetting, &l.sequencer.public), recoverSetting(ctx, l.store, sourcesSetting, &l.sequencer.rejectsUnregistered),
		recoverSetting(ctx, l.store, telemetrySetting, &l.sequencer.hashesTelemetry))
}

// recoverSetting loads a setting. It sets second to true if the stored value is the second of the
// two possible values, and to false if it is the first. If the setting is not stored, second does
// not change.
func recoverSetting(ctx context.Context, store storage.Store, name string, second *atomic.Bool) error {
	value, err := store.Setting(ctx, name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading the setting %q: %w", name, err)
	}
	if CheckSetting(name, value) != nil {
		return fmt.Errorf("%w: invalid value %[3]q for the setting %[2]q", ErrDamaged, name, value)
	}
	second.Store(string(value) == settings[name][1])
	return nil
}

// HasPublicLog reports whether the host has a ledger with the given name whose log is public.
func (h *Host) HasPublicLog(name string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	l, ok := h.ledgers[name]
	return ok && l.HasPublicLog()
}
